//! Tests with a full disk.

use std::{collections::BTreeMap, thread, time::Duration};

use bytes::Bytes;
use store::{Disk as _, DiskLogOptions, Error, SimulatedDisk, Write};

use crate::fixture::{Store, delete, on_disk, put, small};

/// Fills the disk and returns the keys and revisions that were stored. The first rejected write makes the log drop what
/// it retains for watches, and so does not count.
fn fill(store: &Store) -> Vec<(String, u64)> {
    let (mut there, mut refused) = (Vec::new(), 0);
    for nth in 0..10_000 {
        let key = format!("/registry/pods/a/{nth:05}");
        match store.write(put(&key, 0, &"x".repeat(300))) {
            Ok(revision) => {
                there.push((key, revision));
                refused = 0;
            }
            Err(error) => {
                assert_eq!(error, Error::Full);
                refused += 1;
                if refused == 2 {
                    return there;
                }
            }
        }
    }
    panic!("it never gets full");
}

#[test]
fn deletions_go_on_and_give_room() {
    let disk = SimulatedDisk::default();
    disk.limit(Some(40_000));
    let store = on_disk(&disk, small()).unwrap();
    for round in 0..3 {
        let there = fill(&store);
        assert!(there.len() > 10, "in round {round}: {}", there.len());
        let (key, revision) = &there[0];
        assert_eq!(store.write(put(key, *revision, &"y".repeat(300))), Err(Error::Full));
        assert_eq!(store.pods.get(key).unwrap().revision, *revision, "as if nobody had asked");
        for (key, revision) in &there {
            store.write(delete(key, *revision)).expect("there is a reserve");
        }
        assert_eq!(store.pods.len(), 0);
    }
    let made = store.write(put("/registry/pods/a/x", 0, "1")).expect("there is room again");
    drop(store);
    let store = on_disk(&disk.after_crash(1), small()).unwrap();
    assert_eq!((store.pods.len(), store.pods.snapshot().revision), (1, made));
}

/// However small the disk is: after the newer half of all keys is deleted, there is space again, both before and after
/// the first snapshot.
#[test]
fn a_small_disk_recovers_when_half_is_deleted() {
    let options = DiskLogOptions {
        segment_size: 65_536,
        reserve_size: 16_384,
        compact_threshold: 1 << 20,
        ..small()
    };
    for room in (57_344..=262_144).step_by(8_192) {
        let disk = SimulatedDisk::default();
        disk.limit(Some(room));
        let store = on_disk(&disk, options).unwrap_or_else(|error| panic!("{room}: {error}"));
        for round in 0..3 {
            let mut there = Vec::new();
            let full = loop {
                let key = format!("/registry/pods/a/{round}-{:05}", there.len());
                match insist(&store, || put(&key, 0, &"x".repeat(300))) {
                    Ok(revision) => there.push((key, revision)),
                    Err(error) => break error,
                }
            };
            assert!(full == Error::Full && there.len() > 20, "{room}, {round}: {}", there.len());
            let half = there.split_off(there.len() / 2);
            for (key, revision) in half {
                store.write(delete(&key, revision)).unwrap_or_else(|e| panic!("{room}: {e}"));
            }
            let again = insist(&store, || put("/registry/pods/a/again", 0, &"x".repeat(300)));
            let files = || -> Vec<_> {
                let size = |name: &String| disk.open(name).and_then(|file| file.size());
                let names = disk.list().unwrap_or_default();
                names.iter().map(|name| (name.clone(), size(name).unwrap_or_default())).collect()
            };
            let again = again
                .unwrap_or_else(|error| panic!("{room}, in round {round}: {error}: {:?}", files()));
            there.push(("/registry/pods/a/again".to_owned(), again));
            for (key, revision) in there {
                insist(&store, || delete(&key, revision)).unwrap_or_else(|e| panic!("{room}: {e}"));
            }
        }
    }
}

#[test]
fn leases_are_renewed_though_there_is_no_room() {
    let disk = SimulatedDisk::default();
    disk.limit(Some(40_000));
    let store = on_disk(&disk, small()).unwrap();
    let lease = "/registry/leases/a/l";
    let mut renewed = store.write(put(lease, 0, "node")).unwrap();
    fill(&store);
    let mut refused = 0;
    for nth in 0..200 {
        renewed = store.write(put(lease, renewed, &"x".repeat(100))).expect("there is a reserve");
        let more = store.write(put(&format!("/registry/pods/b/{nth}"), 0, &"x".repeat(300)));
        refused += usize::from(more == Err(Error::Full));
    }
    assert!(refused > 150, "it stays full: {refused}");
    assert_eq!(store.leases.get(lease).unwrap().revision, renewed);
    drop(store);
    let store = on_disk(&disk.after_crash(1), small()).unwrap();
    assert_eq!(store.leases.get(lease).unwrap().revision, renewed);
}

#[test]
fn it_goes_on_when_somebody_else_gives_room() {
    let disk = SimulatedDisk::default();
    disk.limit(Some(30_000));
    let store = on_disk(&disk, small()).unwrap();
    let there = fill(&store);
    disk.limit(None);
    let made = store.write(put("/registry/pods/a/x", 0, "1")).expect("there is room again");
    assert_eq!(made, there.last().unwrap().1 + 1, "what was refused has used no revision");
}

/// Retries until the write is accepted, or for too long. The reserve is small here, and a snapshot is not written at
/// once.
fn insist(store: &Store, write: impl Fn() -> Write<Bytes>) -> Result<u64, Error> {
    for _ in 0..100 {
        match store.write(write()) {
            Err(Error::Full) => thread::sleep(Duration::from_millis(2)),
            done => return done,
        }
    }
    Err(Error::Full)
}

#[test]
fn a_state_is_written_meanwhile() {
    let disk = SimulatedDisk::default();
    disk.limit(Some(60_000));
    let store = on_disk(&disk, DiskLogOptions { background: true, ..small() }).unwrap();
    for round in 0..5 {
        let mut there = Vec::new();
        loop {
            let key = format!("/registry/pods/a/{round}-{}", there.len());
            match insist(&store, || put(&key, 0, &"x".repeat(300))) {
                Ok(revision) => there.push((key, revision)),
                Err(error) => break assert_eq!(error, Error::Full),
            }
        }
        assert!(there.len() > 20, "in round {round}: {}", there.len());
        for (key, revision) in there {
            insist(&store, || delete(&key, revision)).expect("there is a reserve");
        }
    }
    insist(&store, || put("/registry/pods/a/x", 0, "1")).expect("there is room again");
}

/// The stored objects by key.
type There = BTreeMap<String, u64>;

/// Writes and deletes until the power fails, or long enough. Returns the acknowledged writes, the key whose last write
/// has an unknown outcome, and the number of rejected writes.
fn work(store: &Store, there: &mut There) -> (Option<String>, usize) {
    let mut refused = 0;
    for nth in 0..150_u64 {
        store.clock.pass(5);
        let key = format!("/registry/pods/a/{:02}", nth * 7 % 60);
        let deletes = refused % 8 > 5; // after several rejected writes
        let write = match there.get(&key) {
            Some(revision) if deletes => delete(&key, *revision),
            found => put(&key, found.copied().unwrap_or_default(), &"x".repeat(250)),
        };
        let deletes = write.put.is_none();
        match store.write(write) {
            Ok(_) if deletes => drop(there.remove(&key)),
            Ok(revision) => drop(there.insert(key, revision)),
            Err(Error::Full) => refused += 1,
            Err(Error::Broken) => return (Some(key), refused),
            Err(error) => panic!("{error}"),
        }
    }
    (None, refused)
}

fn state(store: &Store) -> There {
    let pinned = store.pods.snapshot();
    pinned.range("/", None).map(|(key, version)| (key.to_owned(), version.revision)).collect()
}

#[test]
fn nothing_is_lost_when_the_power_goes_too() {
    const ROOM: Option<u64> = Some(28_000);
    let whole = SimulatedDisk::default();
    whole.limit(ROOM);
    let (_, refused) = work(&on_disk(&whole, small()).unwrap(), &mut There::new());
    assert!(refused > 5, "{refused}");
    for moment in (20..whole.changes()).step_by(3) {
        let disk = SimulatedDisk::default();
        disk.limit(ROOM);
        disk.crash_after(moment);
        let mut there = There::new();
        let (unsure, _) = work(&on_disk(&disk, small()).unwrap(), &mut there);
        let disk = disk.after_crash(moment);
        disk.limit(ROOM);
        let store = on_disk(&disk, small()).unwrap_or_else(|error| panic!("at {moment}: {error}"));
        let mut found = state(&store);
        let agreed = found.clone();
        if let Some(key) = unsure {
            found.remove(&key);
            there.remove(&key);
        }
        assert_eq!(found, there, "at {moment}");
        let mut there = agreed;
        work(&store, &mut there);
        assert_eq!(state(&store), there);
        for (key, revision) in there {
            store.write(delete(&key, revision)).expect("there is a reserve");
        }
        let _ = store.write(put("/registry/pods/a/x", 0, "1")); // may trigger the cleanup
        store.write(put("/registry/pods/a/y", 0, "1")).expect("there is room again");
    }
}
