//! Crash tests: after a power failure at any moment, no acknowledged write is lost.

use std::collections::BTreeMap;

use bytes::Bytes;
use store::{Engine, Error, SimulatedDisk, Topic, Write};

use crate::fixture::{PODS, Store, cursor, delete, on_disk, part, put, small, wait};

/// Number of writes, over a few keys.
const WRITES: u64 = 120;
const KEYS: u64 = 7;
/// Number of writes in flight at once.
const AT_ONCE: usize = 3;

type State = BTreeMap<String, (u64, String)>;

/// The state at each revision; at 0 and 1 it is empty.
fn history() -> Vec<State> {
    let mut states = vec![State::new(), State::new()];
    for revision in 2..=WRITES {
        let mut state = states[states.len() - 1].clone();
        let key = format!("{PODS}a/{}", revision * 5 % KEYS);
        if revision % 4 == 3 && state.contains_key(&key) {
            state.remove(&key);
        } else {
            let size = usize::try_from(revision * 37 % 400).unwrap();
            state.insert(key, (revision, format!("{revision}{}", "x".repeat(size))));
        }
        states.push(state);
    }
    states
}

/// The write that leads from one state to the next.
fn step(before: &State, after: &State) -> Write<Bytes> {
    let written = after.iter().find(|(key, value)| before.get(*key) != Some(value));
    if let Some((key, (_, text))) = written {
        return put(key, before.get(key).map_or(0, |(revision, _)| *revision), text);
    }
    let (key, (revision, _)) = before.iter().find(|(key, _)| !after.contains_key(*key)).unwrap();
    delete(key, *revision)
}

/// Writes the rest of the history. Returns the last acknowledged revision.
fn go_on(store: &Store, history: &[State]) -> u64 {
    let mut acknowledged = store.engine.durable_revision();
    let from = usize::try_from(acknowledged).unwrap();
    let steps: Vec<_> = history[from..].windows(2).map(|pair| step(&pair[0], &pair[1])).collect();
    let mut steps = steps.into_iter().peekable();
    while steps.peek().is_some() {
        store.clock.pass(10);
        let writes: Vec<_> = steps.by_ref().take(AT_ONCE).collect();
        for done in together(store, writes) {
            match done {
                Ok(revision) => {
                    assert_eq!(revision, acknowledged + 1);
                    acknowledged = revision;
                }
                Err(error) => {
                    assert_eq!(error, Error::Broken);
                    return acknowledged;
                }
            }
        }
    }
    acknowledged
}

/// Submits all writes before waiting for any of them.
fn together(store: &Store, writes: Vec<Write<Bytes>>) -> Vec<Result<u64, Error>> {
    let mut futures: Vec<_> = writes.into_iter().map(|write| store.engine.write(write)).collect();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut done: Vec<_> = futures.iter_mut().map(|f| f.as_mut().poll(&mut context)).collect();
    for (done, future) in done.iter_mut().zip(futures) {
        if done.is_pending() {
            *done = std::task::Poll::Ready(wait(future));
        }
    }
    done.into_iter()
        .map(|done| match done {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => unreachable!("waited for"),
        })
        .collect()
}

fn state(store: &Store) -> State {
    let pinned = store.pods.snapshot();
    let all = pinned.range(PODS, None);
    all.map(|(key, version)| {
        let text = String::from_utf8(version.object.to_vec()).unwrap();
        (key.to_owned(), (version.revision, text))
    })
    .collect()
}

/// Checks that the state is one of the history, not before the last acknowledged write, and that the ring holds the
/// events that led to it.
fn check(store: &Store, history: &[State], acknowledged: u64) {
    let durable = store.engine.durable_revision();
    assert!(durable >= acknowledged, "{acknowledged} was acknowledged, {durable} is there");
    assert_eq!(state(store), history[usize::try_from(durable).unwrap()]);
    let floor = store.pods.floor();
    let mut watch = cursor(&store.pods, Topic::All, floor);
    for revision in floor.max(1) + 1..=durable {
        let event = watch.try_next().expect("all of them").expect("held");
        let before = &history[usize::try_from(revision - 1).unwrap()];
        assert_eq!(event.revision, revision);
        let old = event.old.as_ref().map(|old| old.revision);
        assert_eq!(old, before.get(event.key.as_str()).map(|(revision, _)| *revision));
    }
    assert!(watch.try_next().is_none());
}

#[test]
fn whatever_moment_the_power_goes() {
    every_moment(0..4);
}

/// `cargo test -p store --release -- --ignored a_hundred_thousand_images`
#[test]
#[ignore = "takes many minutes"]
fn a_hundred_thousand_images() {
    let (mut images, mut from) = (0, 4);
    while images < 100_000 / part() {
        images += every_moment(from..from + 20);
        from += 20;
    }
    println!("{images} crash images: nothing lost");
}

/// Returns the number of disk images that were checked.
fn every_moment(seeds: std::ops::Range<u64>) -> u64 {
    let mut images = 0;
    let history = history();
    let whole = SimulatedDisk::default();
    go_on(&on_disk(&whole, small()).unwrap(), &history);
    assert!(whole.changes() > 150, "{}", whole.changes());
    for moment in 1..whole.changes() + 20 {
        let disk = SimulatedDisk::default();
        disk.crash_after(moment);
        let acknowledged = match on_disk(&disk, small()) {
            Ok(store) => go_on(&store, &history),
            Err(error) => {
                assert!(matches!(error, Error::Disk(_)), "{error}");
                0
            }
        };
        for seed in seeds.clone() {
            let disk = disk.after_crash(seed * 1_000 + moment);
            // And a second power failure during recovery.
            let again = disk.clone();
            again.crash_after(1 + seed % 9);
            let further = match on_disk(&again, small()) {
                Ok(store) => go_on(&store, &history).max(acknowledged),
                Err(error) => {
                    assert!(matches!(error, Error::Disk(_)), "at {moment}, {seed}: {error}");
                    acknowledged
                }
            };
            let store = on_disk(&again.after_crash(seed), small());
            let store = store.unwrap_or_else(|error| panic!("at {moment}, {seed}: {error}"));
            check(&store, &history, further);
            assert_eq!(go_on(&store, &history), WRITES, "it can be written to");
            check(&store, &history, WRITES);
            images += 2;
        }
    }
    images
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let disk = SimulatedDisk::default();
    let store = on_disk(&disk, small()).unwrap();
    let made = store.write(put("/registry/pods/a/x", 0, "1")).unwrap();
    disk.fail_syncs();
    assert_eq!(store.write(put("/registry/pods/a/x", made, "2")), Err(Error::Broken));
    assert_eq!(store.write(put("/registry/pods/a/y", 0, "1")), Err(Error::Broken));
    assert_eq!(store.pods.get("/registry/pods/a/x").unwrap().revision, made);
}

#[test]
fn what_has_rotted_is_refused_and_never_served() {
    rot(13);
}

/// `cargo test -p store --release -- --ignored every_byte_rots`
#[test]
#[ignore = "takes many minutes"]
fn every_byte_rots() {
    let (refused, all) = rot(usize::try_from(part().min(13)).expect("small"));
    println!("{all} bytes turned over, {refused} refused, nothing served that was not written");
}

/// Flips every n-th byte. Returns how many images were rejected, and how many there were.
fn rot(every: usize) -> (u32, u32) {
    let history = history();
    let disk = SimulatedDisk::default();
    let store = on_disk(&disk, small()).unwrap();
    let files = |disk: &SimulatedDisk| {
        let mut names = store::Disk::list(disk).unwrap();
        names.retain(|name| name.starts_with("log-") || name.starts_with("state-"));
        names
    };
    go_on(&store, &history);
    drop(store);
    let (mut refused, mut all) = (0, 0);
    for name in files(&disk) {
        let size = store::Disk::open(&disk, &name).unwrap().size().unwrap();
        for offset in (0..usize::try_from(size).unwrap()).step_by(every) {
            all += 1;
            let rotten = disk.after_crash(0);
            rotten.corrupt_byte(&name, offset);
            match on_disk(&rotten, small()) {
                Err(Error::Damaged { file, .. }) => {
                    assert_eq!(file, name);
                    refused += 1;
                }
                Err(error) => panic!("{name} {offset}: {error}"),
                // Not every byte is read: not those replaced by a newer snapshot, not zeros, and not the very last
                // batch, which looks like one that was never acknowledged.
                Ok(store) => {
                    let durable = usize::try_from(store.engine.durable_revision()).unwrap();
                    assert!(durable + AT_ONCE >= history.len() - 1, "{name} {offset}: {durable}");
                    assert_eq!(state(&store), history[durable]);
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
    (refused, all)
}
