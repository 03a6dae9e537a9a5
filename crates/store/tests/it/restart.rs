//! Tests of the state after a restart.

use std::{
    env, os::unix::process::ExitStatusExt as _, process::Command, sync::Arc, time::Duration,
};

use bytes::Bytes;
use store::{
    Cursor, Directory, Disk as _, DiskLog, DiskLogOptions, Engine as _, Error, FailAction,
    Failpoints, MemoryLog, RingLimits, SimulatedDisk, Topic,
};

use crate::fixture::{
    Still, cursor, delete, events, keys, on_disk, open, open_at, put, small, text_topic,
};

const X: &str = "/registry/pods/a/x";
const Y: &str = "/registry/pods/a/y";
const LEASE: &str = "/registry/leases/a/l";

#[test]
fn a_watch_goes_on() {
    let log = Arc::new(MemoryLog::default());
    let before = open(log.clone(), events(9)).unwrap();
    let seen = before.write(put(X, 0, "n1")).unwrap();
    let changed = before.write(put(X, seen, "n2")).unwrap();
    let gone = before.write(delete(X, changed)).unwrap();
    before.write(put(Y, 0, "n1")).unwrap();
    drop(before);

    let after = open(log, events(9)).unwrap();
    let mut cursor = cursor(&after.pods, text_topic("n2"), seen);
    let event = cursor.try_next().unwrap().unwrap();
    assert_eq!((event.revision, &*event.old.as_ref().unwrap().object), (changed, &b"n1"[..]));
    let event = cursor.try_next().unwrap().unwrap();
    assert_eq!((event.revision, event.new.is_none()), (gone, true));
    assert_eq!(keys(&after.pods.snapshot()), ["a/y"]);
    assert_eq!(after.write(put(X, 0, "n1")), Ok(gone + 2), "no revision comes twice");
}

#[test]
fn a_quiet_watch_goes_on_though_the_log_has_begun_anew() {
    let disk = SimulatedDisk::default();
    let before = on_disk(&disk, small()).unwrap();
    let made = before.write(put(X, 0, "n1")).unwrap();
    let gone = before.write(delete(X, made)).unwrap();
    let mut lease = before.write(put(LEASE, 0, "")).unwrap();
    let first = lease;
    for _ in 0..100 {
        before.clock.pass(10);
        lease = before.write(put(LEASE, lease, &"x".repeat(200))).unwrap();
    }
    assert!(disk.used() < 30_000, "old files are removed: {}", disk.used());
    drop(before);

    let after = on_disk(&disk.after_crash(0), small()).unwrap();
    let lost = Cursor::open(&after.leases, Topic::All, first).map(drop);
    assert!(matches!(lost, Err(Error::Compacted { .. })));
    let mut recent = cursor(&after.leases, Topic::All, lease - 7);
    assert_eq!(recent.try_next().unwrap().unwrap().revision, lease - 6, "75 s are retained");
    let mut quiet = cursor(&after.pods, Topic::All, gone);
    assert!(matches!(Cursor::open(&after.pods, Topic::All, made), Err(Error::Compacted { .. })));
    let again = after.write(put(X, 0, "n1")).unwrap();
    assert_eq!(again, lease + 1);
    assert_eq!(quiet.try_next().unwrap().unwrap().revision, again);
}

#[test]
fn what_expires_and_why_it_was_written_is_remembered() {
    let disk = SimulatedDisk::default();
    let before = on_disk(&disk, small()).unwrap();
    let note = Some(Bytes::from_static(b"why"));
    let ttl = Some(Duration::from_secs(2_000));
    let made = before.write(put(X, 0, "1").with_ttl(ttl).with_note(note)).unwrap();
    let mut lease = before.write(put(LEASE, 0, "")).unwrap();
    for _ in 0..100 {
        before.clock.pass(10);
        lease = before.write(put(LEASE, lease, &"x".repeat(200))).unwrap();
    }
    drop(before);
    let after = on_disk(&disk.after_crash(0), small()).unwrap();
    let notes = store::Engine::provenance_after(&after.engine, 0);
    assert_eq!(notes.iter().map(|note| note.revision).collect::<Vec<_>>(), [made]);
    after.clock.pass(1_999);
    after.engine.expire();
    assert_eq!(keys(&after.pods.snapshot()), ["a/x"]);
    after.clock.pass(1);
    after.engine.expire();
    assert_eq!(after.pods.snapshot().revision, lease + 1);
    assert!(after.pods.is_empty());
}

#[test]
fn one_process_has_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let log = || {
        let disk = Arc::new(Directory::open(folder.path()).unwrap());
        DiskLog::open(disk, Arc::new(Still::default()), DiskLogOptions::default())
    };
    let first = open(log().unwrap(), RingLimits::default()).unwrap();
    let made = first.write(put(X, 0, "1")).unwrap();
    assert_eq!(log().map(drop), Err(Error::InUse));
    drop(first);
    let second = open(log().unwrap(), RingLimits::default()).unwrap();
    assert_eq!(second.pods.get(X).unwrap().revision, made);
}

#[test]
fn the_past_is_read_from_the_nearest_state_and_no_further() {
    let disk = SimulatedDisk::default();
    let points = Failpoints::new(Arc::new(disk.clone()));
    let clock = Arc::new(Still::default());
    let options = DiskLogOptions { retain: Duration::from_secs(1 << 30), ..small() };
    let log = DiskLog::open(Arc::new(points.clone()), clock.clone(), options).unwrap();
    let store = open_at(log, events(2), clock).unwrap();
    let mut revisions = Vec::new();
    for nth in 0..200 {
        let expect = revisions.last().copied().unwrap_or_default();
        revisions.push(store.write(put(X, expect, &format!("{nth:0>200}"))).unwrap());
    }
    let named = |start: &str| disk.list().unwrap().iter().filter(|n| n.starts_with(start)).count();
    assert!(named("log-") > 15 && named("state-") > 2, "{} {}", named("log-"), named("state-"));
    for nth in [40, 80, 120, 199] {
        points.arm("nothing", FailAction::Error, 1); // resets the counters
        let past = store.engine.list_at("/registry/pods/", revisions[nth]).unwrap();
        assert_eq!(past[0].bytes.as_deref(), Some(format!("{nth:0>200}").as_bytes()));
        let files = points.hit_counts().get("log.read").copied().unwrap_or_default();
        assert!(files < 8, "{files} files of the log were read for {nth}");
    }
}

/// After a failed sync the content of the disk is unknown: the process aborts, and the next one finds all acknowledged
/// writes.
#[test]
fn a_failed_sync_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(env::current_exe().unwrap())
        .args(["--exact", "restart::child", "--ignored", "--nocapture"])
        .env("SYNC_FOLDER", folder.path())
        .output()
        .unwrap();
    assert_eq!(ended.status.signal(), Some(6), "{ended:?}"); // SIGABRT
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("the first is there") && !said.contains("the second"), "{said}");
    let disk = Arc::new(Directory::open(folder.path()).unwrap());
    let log = DiskLog::open(disk, Arc::new(Still::default()), DiskLogOptions::default()).unwrap();
    let after = open(log, RingLimits::default()).unwrap();
    let found = after.pods.get(X).unwrap();
    assert!(found.revision >= 2, "what was acknowledged, and maybe what was not: {found:?}");
}

/// The process that aborts, started by the test above.
#[test]
#[ignore = "a part of another"]
fn child() {
    let Some(folder) = env::var_os("SYNC_FOLDER") else { return };
    let points = Failpoints::new(Arc::new(Directory::open(folder).unwrap()));
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(points.clone()), clock, DiskLogOptions::default()).unwrap();
    let store = open(log, RingLimits::default()).unwrap();
    let made = store.write(put(X, 0, "1")).unwrap();
    println!("the first is there");
    points.arm("log.sync", FailAction::Error, 1);
    let told = store.write(put(X, made, "2"));
    println!("the second was answered: {told:?}");
}
