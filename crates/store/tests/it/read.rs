//! Lists and watches.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake},
    time::Duration,
};

use store::{Cursor, Error, RingLimits, Topic, engine_suite::RawBytesCodec};

use crate::fixture::{Store, cursor, delete, events, keys, memory, put, text_topic};

const X: &str = "/registry/pods/a/x";
const Y: &str = "/registry/pods/a/y";
const LEASE: &str = "/registry/leases/a/l";

#[test]
fn a_quiet_resource_never_expires_because_another_is_busy() {
    let store = memory(events(4));
    let after = store.write(put(X, 0, "n1")).unwrap();
    let mut sleeping = cursor(&store.pods, Topic::All, after);
    assert!(sleeping.try_next().is_none());
    let mut lease = store.write(put(LEASE, 0, "")).unwrap();
    for _ in 0..100 {
        lease = store.write(put(LEASE, lease, "")).unwrap();
    }
    assert_eq!(store.pods.progress_revision(), lease, "a bookmark can say so");
    assert!(matches!(Cursor::open(&store.leases, Topic::All, after), Err(Error::Compacted { .. })));
    let mut late = cursor(&store.pods, Topic::All, after);
    let revision = store.write(put(X, after, "n1")).unwrap();
    for cursor in [&mut sleeping, &mut late] {
        assert_eq!(cursor.try_next().unwrap().unwrap().revision, revision);
    }
}

#[test]
fn a_quiet_topic_never_expires_because_another_is_busy() {
    let store = memory(events(4));
    let mut quiet = cursor(&store.pods, text_topic("n1"), 0);
    let mut slow = cursor(&store.pods, text_topic("n2"), 0);
    let mut busy = 0;
    for _ in 0..100 {
        busy = store.write(put(Y, busy, "n2")).unwrap();
    }
    assert!(quiet.try_next().is_none(), "no event of its own was lost");
    assert!(matches!(slow.try_next(), Some(Err(Error::Compacted { .. }))));
    let moved = store.write(put(Y, busy, "n1")).unwrap();
    assert_eq!(quiet.try_next().unwrap().unwrap().revision, moved);
}

#[test]
fn a_cursor_sees_what_leaves_its_topic() {
    let store = memory(events(9));
    let first = store.write(put(X, 0, "n1")).unwrap();
    let mut cursor = cursor(&store.pods, text_topic("n1"), first);
    let second = store.write(put(X, first, "n2")).unwrap();
    store.write(put(X, second, "n3")).unwrap();
    let event = cursor.try_next().unwrap().unwrap();
    assert_eq!((event.revision, &*event.old.as_ref().unwrap().object), (second, &b"n1"[..]));
    assert!(cursor.try_next().is_none(), "what it does elsewhere is not ours");
}

#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_write_wakes_one_of_ten_thousand() {
    let store = memory(events(9));
    let mut cursors = Vec::new();
    for n in 0..10_000 {
        let mut cursor = cursor(&store.pods, text_topic(&format!("n{n}")), 0);
        let alarm = Arc::new(Alarm::default());
        let waker = alarm.clone().into();
        assert!(cursor.poll_next(&mut Context::from_waker(&waker)).is_pending());
        cursors.push((cursor, alarm));
    }
    store.write(put(X, 0, "n17")).unwrap();
    let rung = |(_, alarm): &(_, Arc<Alarm>)| alarm.0.load(Ordering::Relaxed) > 0;
    let rung: Vec<_> = (0..).zip(&cursors).filter(|(_, c)| rung(c)).map(|(n, _)| n).collect();
    assert_eq!(rung, [17]);
    assert!(cursors[17].0.try_next().is_some());
}

#[test]
fn a_list_is_of_one_revision() {
    let store = memory(events(4));
    let pod = |name: &str| format!("/registry/pods/a/{name}");
    let a = store.write(put(&pod("a"), 0, "1")).unwrap();
    let b = store.write(put(&pod("b"), 0, "1")).unwrap();
    let pinned = store.pods.snapshot();
    store.write(put(&pod("a"), a, "2")).unwrap();
    store.write(delete(&pod("b"), b)).unwrap();
    store.write(put(&pod("c"), 0, "1")).unwrap();
    let again = store.pods.snapshot_at(pinned.revision).unwrap();
    for pinned in [&pinned, &again] {
        assert_eq!(keys(pinned), ["a/a", "a/b"]);
        assert!(pinned.range("/", None).all(|(_, version)| &*version.object == b"1"));
    }
    assert_eq!(keys(&store.pods.snapshot()), ["a/a", "a/c"]);
    store.write(put(&pod("d"), 0, "1")).unwrap();
    store.write(put(&pod("e"), 0, "1")).unwrap();
    let past = store.pods.snapshot_at(a);
    assert_eq!(past.unwrap_err(), Error::Compacted { floor: 4 });
}

#[test]
fn a_ring_forgets_what_is_old_and_more_than_can_be_spared() {
    let age = Duration::from_secs(75);
    let store = memory(RingLimits { min_bytes: 0, min_age: age, max_bytes: usize::MAX });
    let write = |store: &Store, expect| store.write(put(X, expect, "n1")).unwrap();
    let first = write(&store, 0);
    store.clock.pass(75);
    let second = write(&store, first);
    assert_eq!(store.pods.floor(), 0, "none is older than that");
    store.clock.pass(1);
    write(&store, second);
    assert_eq!(store.pods.floor(), first);
    assert!(store.pods.snapshot_at(first).is_ok());
}

#[test]
fn watches_end_when_a_resource_is_served_anew() {
    let store = memory(events(9));
    let mut cursor = cursor(&store.pods, Topic::All, 0);
    assert!(cursor.try_next().is_none());
    store.mirror.start("/registry/pods/", Arc::new(RawBytesCodec), &store.engine).unwrap();
    assert_eq!(cursor.try_next().unwrap().unwrap_err(), Error::Closed);
}

#[test]
fn a_key_belongs_to_the_longest_prefix() {
    let store = memory(events(9));
    let serve =
        |prefix| store.mirror.start(prefix, Arc::new(RawBytesCodec), &store.engine).unwrap();
    let outer = serve("/registry/services/");
    let specs = serve("/registry/services/specs/");
    store.write(put("/registry/services/specs/a/x", 0, "1")).unwrap();
    store.write(put("/registry/services/other/a/x", 0, "1")).unwrap();
    assert_eq!((outer.len(), specs.len()), (1, 1));
    assert!(Arc::ptr_eq(&store.mirror.resource("/registry/services/specs/b/y").unwrap(), &specs));
    assert!(store.mirror.resource("/elsewhere/x").is_none());
}

#[tokio::test]
async fn whoever_waits_for_a_revision_hears_of_it() {
    let store = memory(events(9));
    let mut waiting = Box::pin(store.pods.wait_for(3));
    assert!(futures_poll(&mut waiting).is_pending());
    store.write(put(LEASE, 0, "")).unwrap();
    assert!(futures_poll(&mut waiting).is_pending());
    store.write(put(LEASE, 2, "")).unwrap();
    tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("it is complete");
}

fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> std::task::Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn what_has_a_time_to_live_expires() {
    let store = memory(events(9));
    let ttl = Some(Duration::from_secs(10));
    let event = store.write(put(X, 0, "1").with_ttl(ttl)).unwrap();
    let kept = store.write(put(Y, 0, "1").with_ttl(ttl)).unwrap();
    store.clock.pass(9);
    store.write(put(Y, kept, "2").with_ttl(ttl)).unwrap();
    assert_eq!(keys(&store.pods.snapshot()), ["a/x", "a/y"]);
    let mut cursor = cursor(&store.pods, Topic::All, kept + 1);
    store.clock.pass(1);
    store.engine.expire();
    assert_eq!(keys(&store.pods.snapshot()), ["a/y"], "written again in time");
    let gone = cursor.try_next().unwrap().unwrap();
    assert_eq!(gone.old.as_ref().map(|old| old.revision), Some(event));
    assert!(gone.new.is_none() && gone.revision == kept + 2);
}
