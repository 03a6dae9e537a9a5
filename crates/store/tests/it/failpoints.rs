//! Every failpoint with every action. In any case no acknowledged write is lost, no rejected write is stored, and the
//! store can be opened again.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use store::{
    Disk as _, DiskLog, Engine as _, Error, FailAction, Failpoints, POINTS, SimulatedDisk,
};

use crate::fixture::{Still, Store, delete, open_at, put, small};

/// The stored revisions by key.
type There = BTreeMap<String, u64>;

/// One run of the store, up to the first failure that it does not survive.
#[derive(Debug, Default)]
struct Life {
    /// The acknowledged writes.
    there: There,
    /// Keys whose last write has an unknown outcome.
    unsure: BTreeSet<String>,
}

const ROOM: u64 = 28_000;

/// Opens the store and writes. If `full`, the disk becomes full after some rounds.
fn live(disk: &SimulatedDisk, points: &Failpoints, mut life: Life, full: bool) -> Life {
    disk.limit(full.then_some(ROOM));
    let clock = Arc::new(Still::default());
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let log = DiskLog::open(Arc::new(points.clone()), clock.clone(), small())?;
        open_at(log, store::RingLimits::default(), clock.clone())
    }));
    let Ok(Ok(store)) = opened else { return life };
    let mut refused = 0;
    for nth in 0..150_u64 {
        store.clock.pass(10);
        let key = format!("/registry/pods/a/{:02}", nth * 7 % 60);
        let deletes = if full { refused % 8 > 5 } else { nth % 5 == 4 };
        let write = match life.there.get(&key) {
            Some(revision) if deletes => delete(&key, *revision),
            found => put(&key, found.copied().unwrap_or_default(), &"x".repeat(250)),
        };
        let deletes = write.put.is_none();
        match catch_unwind(AssertUnwindSafe(|| store.write(write))) {
            Ok(Ok(_)) if deletes => drop(life.there.remove(&key)),
            Ok(Ok(revision)) => drop(life.there.insert(key, revision)),
            Ok(Err(Error::Full)) => refused += 1,
            Ok(Err(Error::Broken)) | Err(_) => {
                life.unsure.insert(key);
                break;
            }
            Ok(Err(error)) => panic!("{error}"),
        }
    }
    let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    life
}

fn state(store: &Store) -> There {
    let pinned = store.pods.snapshot();
    pinned.range("/", None).map(|(key, version)| (key.to_owned(), version.revision)).collect()
}

/// Opens the directory as the crash has left it.
fn check(disk: &SimulatedDisk, life: Life, what: &str) -> SimulatedDisk {
    let disk = disk.after_crash(7);
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(disk.clone()), clock.clone(), small());
    let log = log.unwrap_or_else(|error| panic!("{what}: {error}"));
    let store = open_at(log, store::RingLimits::default(), clock);
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut found, mut there) = (state(&store), life.there);
    for key in life.unsure {
        found.remove(&key);
        there.remove(&key);
    }
    assert_eq!(found, there, "{what}");
    store
        .write(put("/registry/pods/b/x", 0, "1"))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    disk
}

/// A part of an unacknowledged write may follow the acknowledged ones.
fn tear(disk: &SimulatedDisk) {
    let names = disk.list().expect("it is well");
    let Some(last) = names.iter().rfind(|name| name.starts_with("log-")) else { return };
    let file = disk.open(last).expect("it is there");
    let size = file.size().expect("it is well");
    let mut end = [0; 32];
    file.read_at(&mut end, size - 32).expect("it is well");
    if end != [0; 32] {
        return; // the disk is full
    }
    file.write_at(&[1; 8], size - 8).and_then(|()| file.sync()).expect("it is well");
}

/// A first run without failures, and a second one with them.
fn two_lives(point: &'static str, harm: FailAction, nth: u64, full: bool) -> Failpoints {
    let what = format!("{point} {harm:?} {nth}, full: {full}");
    let disk = SimulatedDisk::default();
    let points = Failpoints::new(Arc::new(disk.clone()));
    let life = live(&disk, &points, Life::default(), full);
    assert!(life.unsure.is_empty(), "{what}: {:?}", life.unsure);
    let torn = disk.after_crash(nth);
    tear(&torn);
    let points = Failpoints::new(Arc::new(torn.clone()));
    points.arm(point, harm, nth);
    let life = live(&torn, &points, life, full);
    let survives = matches!(harm, FailAction::Delay(_)) && points.has_fired();
    assert!(!survives || life.unsure.is_empty(), "{what}: a delay does no harm");
    torn.limit(None);
    check(&torn, life, &what);
    points
}

#[test]
fn every_point_with_every_harm() {
    panics::unwind_instead_of_abort();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let meant = info.payload_as_str().is_some_and(|text| text.ends_with(" panics"));
        if !meant {
            hook(info);
        }
    }));
    let mut happened = BTreeSet::new();
    for point in POINTS {
        for harm in
            [FailAction::Error, FailAction::Panic, FailAction::Delay(Duration::from_millis(1))]
        {
            for (nth, full) in [(1, false), (3, false), (1, true), (2, true)] {
                if two_lives(point, harm, nth, full).has_fired() {
                    happened.insert((point, format!("{harm:?}")));
                }
            }
        }
    }
    let passed: BTreeSet<_> = [false, true]
        .into_iter()
        .flat_map(|full| two_lives("nothing", FailAction::Error, 1, full).hit_counts().into_keys())
        .collect();
    let named: BTreeSet<_> = POINTS.iter().map(|point| (*point).to_owned()).collect();
    assert!(passed.is_subset(&named), "without a name: {:?}", passed.difference(&named));
    assert_eq!(happened.len(), 3 * POINTS.len(), "never passed: {:?}", {
        let seen: BTreeSet<_> = happened.iter().map(|(point, _)| *point).collect();
        POINTS.iter().filter(|point| !seen.contains(*point)).collect::<Vec<_>>()
    });
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    let disk = SimulatedDisk::default();
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(disk.clone()), clock.clone(), small()).unwrap();
    let store = open_at(log, store::RingLimits::default(), clock.clone()).unwrap();
    let mut there = There::new();
    for nth in 0..120_u64 {
        clock.pass(if nth % 3 == 0 { -86_400 } else { 100_000 });
        let key = format!("/registry/pods/a/{}", nth % 9);
        let expect = there.get(&key).copied().unwrap_or_default();
        there.insert(key.clone(), store.write(put(&key, expect, &"x".repeat(200))).unwrap());
    }
    assert_eq!(state(&store), there);
    drop(store);
    check(&disk, Life { there, unsure: BTreeSet::new() }, "a clock that jumps");
}

/// Readiness fails while a write waits for a slow disk, and recovers; health does not fail.
#[test]
fn a_slow_disk_is_not_ready() {
    let points = Failpoints::new(Arc::new(SimulatedDisk::default()));
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(points.clone()), clock.clone(), small()).unwrap();
    let store = open_at(log, store::RingLimits::default(), clock).unwrap();
    store.write(put("/registry/pods/a/1", 0, "x")).unwrap();
    assert_eq!(store.engine.readiness(), Ok(()));
    points.arm("log.sync", FailAction::Delay(Duration::from_secs(4)), 1);
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| store.write(put("/registry/pods/a/2", 0, "x")));
        while !slow.is_finished() {
            seen.push((store.engine.readiness(), store.engine.health()));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(slow.join().unwrap().is_ok(), "the write is late, and not lost");
    });
    assert!(points.has_fired());
    let is_slow =
        |ready: &Result<(), store::Error>| matches!(ready, Err(store::Error::Slow { .. }));
    assert!(seen.iter().any(|(ready, _)| is_slow(ready)), "{seen:?}");
    assert!(seen.iter().all(|(ready, health)| (ready.is_ok() || is_slow(ready)) && health.is_ok()));
    assert!(seen.first().is_some_and(|(ready, _)| ready.is_ok()), "a short wait is no fault");
    assert_eq!(store.engine.readiness(), Ok(()), "it recovers");
}
