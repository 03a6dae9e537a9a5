//! Tests of watches.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{EngineFixture, key};
use crate::{Cursor, Error, Topic, Write};

pub(super) async fn a_watch_sees_every_change_in_order(on: &EngineFixture) {
    let things = on.serve();
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let mut late = Cursor::open(&things, Topic::Namespace("a".into()), made).expect("in the ring");
    let changed = on.put("a/x", made, "2").await.expect("as expected");
    on.put("b/x", 0, "1").await.expect("absent");
    let gone = on.delete("a/x", changed).await.expect("as expected");
    let event = late.next().await.expect("still there");
    let old = event.old.as_ref().map(|old| (old.revision, old.object.clone()));
    assert_eq!((event.revision, old), (changed, Some((made, Bytes::from_static(b"1")))));
    let event = late.next().await.expect("still there");
    assert_eq!((event.revision, event.new.is_none()), (gone, true));
    assert!(late.try_next().is_none());
    let ahead = Cursor::open(&things, Topic::All, gone + 1).map(drop);
    assert_eq!(ahead, Err(Error::FutureRevision { revision: gone + 1 }));
}

pub(super) async fn what_is_made_again_is_new(on: &EngineFixture) {
    let things = on.serve();
    let mut watch = Cursor::open(&things, Topic::All, things.snapshot().revision).expect("now");
    let mut revisions = Vec::new();
    for _ in 0..3 {
        let made = on.put("a/x", 0, "1").await.expect("absent");
        let gone = on.delete("a/x", made).await.expect("as expected");
        assert_eq!(on.delete("a/x", made).await, Err(Error::Conflict { want: made, have: 0 }));
        revisions.extend([made, gone]);
    }
    for (nth, revision) in revisions.into_iter().enumerate() {
        let event = watch.next().await.expect("held");
        assert_eq!((event.revision, event.new.is_some()), (revision, nth % 2 == 0));
        assert_eq!(event.old.is_some(), nth % 2 == 1, "nothing of the one before");
    }
}

pub(super) async fn progress_moves_though_nothing_happens_here(on: &EngineFixture) {
    let things = on.serve();
    let before = things.progress_revision();
    let elsewhere = Write::put("/registry/others/x", 0, Bytes::new(), Bytes::new());
    let written = on.engine.write(elsewhere).await.expect("absent");
    assert!(written > before);
    let newest = on.engine.latest_revision(super::PREFIX).await.expect("it can be asked");
    assert!(newest >= written, "{newest} is older than {written}");
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, things.wait_for(newest)).await.expect("a bookmark can be sent");
    assert!(things.is_empty() && things.snapshot().revision >= written);
    Cursor::open(&things, Topic::All, written).expect("a watch can begin there");
}

/// A watch from any revision delivers all later events and nothing else.
pub(super) async fn a_watch_can_begin_anywhere(on: &EngineFixture) {
    let things = on.serve();
    let mut revisions = vec![things.snapshot().revision];
    let mut x = 0;
    for nth in 0..10 {
        x = on.put("a/x", x, &nth.to_string()).await.expect("as expected");
        revisions.push(x);
    }
    for (nth, from) in revisions.iter().enumerate() {
        let mut watch = Cursor::open(&things, Topic::All, *from).expect("in the ring");
        for revision in &revisions[nth + 1..] {
            let event = watch.next().await.expect("held");
            assert_eq!((event.revision, event.key.as_str()), (*revision, key("a/x").as_str()));
        }
        assert!(watch.try_next().is_none(), "nothing else");
    }
}

/// Under concurrent writes, all watches deliver each write once and in the same order.
pub(super) async fn all_who_watch_see_the_same(on: EngineFixture) {
    let things = on.serve();
    let from = things.snapshot().revision;
    let mut writing = JoinSet::new();
    for writer in 0..8 {
        let on = on.clone();
        writing.spawn(async move {
            let mut made = Vec::new();
            let name = format!("a/{writer}");
            for nth in 0..10 {
                let expect = made.last().copied().unwrap_or_default();
                made.push(on.put(&name, expect, &nth.to_string()).await.expect("nobody else"));
            }
            made
        });
    }
    let mut watching = JoinSet::new();
    for _ in 0..4 {
        let mut watch = Cursor::open(&things, Topic::All, from).expect("in the ring");
        watching.spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..80 {
                seen.push(watch.next().await.expect("held").revision);
            }
            seen
        });
    }
    let made: BTreeSet<_> = writing.join_all().await.concat().into_iter().collect();
    assert_eq!(made.len(), 80, "no revision is given twice");
    for seen in watching.join_all().await {
        assert!(seen.iter().eq(made.iter()), "each once, in order");
    }
}

/// A slow watch misses nothing, and a dropped watch disturbs no other.
pub(super) async fn who_reads_late_misses_nothing(on: &EngineFixture) {
    let things = on.serve();
    let from = things.snapshot().revision;
    let mut late = Cursor::open(&things, Topic::All, from).expect("in the ring");
    let gone = Cursor::open(&things, Topic::All, from).expect("in the ring");
    for nth in 0..200 {
        on.put(&format!("a/{nth:03}"), 0, "x").await.expect("absent");
    }
    drop(gone);
    for nth in 0..200 {
        let event = late.next().await.expect("held");
        assert_eq!(event.key.as_str(), key(&format!("a/{nth:03}")), "in order");
    }
    assert!(late.try_next().is_none());
}

/// A filtered watch delivers objects that start to match the filter, and those that cease to.
pub(super) async fn a_watch_of_some_sees_what_comes_and_goes(on: &EngineFixture) {
    let things = on.serve();
    let from = things.snapshot().revision;
    let open = |topic: Topic| Cursor::open(&things, topic, from).expect("in the ring");
    let text = |text: &str| Topic::Index("text".into(), text.into());
    let (mut red, mut blue) = (open(text("red")), open(text("blue")));
    let mut space = open(Topic::Namespace("b".into()));
    let made = on.put("a/x", 0, "red").await.expect("absent");
    let changed = on.put("a/x", made, "blue").await.expect("as expected");
    let gone = on.delete("a/x", changed).await.expect("as expected");
    let other = on.put("b/x", 0, "green").await.expect("absent");
    for (watch, expected) in [(&mut red, [made, changed]), (&mut blue, [changed, gone])] {
        for revision in expected {
            assert_eq!(watch.next().await.expect("held").revision, revision);
        }
        assert!(watch.try_next().is_none());
    }
    assert_eq!(space.next().await.expect("held").revision, other);
    assert!(space.try_next().is_none());
}

/// A deletion event has the revision of the deletion, and contains the old object.
pub(super) async fn a_deletion_has_a_revision_of_its_own(on: &EngineFixture) {
    let things = on.serve();
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let mut watch = Cursor::open(&things, Topic::All, made).expect("now");
    on.engine
        .write(Write::put("/registry/others/y", 0, Bytes::new(), Bytes::new()))
        .await
        .expect("absent");
    let gone = on.delete("a/x", made).await.expect("as expected");
    let event = watch.next().await.expect("held");
    let old = event.old.as_ref().expect("it was there");
    assert_eq!((event.revision, old.revision, &*old.object), (gone, made, &b"1"[..]));
    assert!(gone > made + 1 && event.new.is_none());
}

/// A watch from a compacted revision is rejected, since it could not deliver all events.
pub(super) async fn a_watch_from_too_long_ago_is_refused(on: &EngineFixture) {
    let made = on.put("a/x", 0, "1").await.expect("absent");
    on.put("a/x", made, "2").await.expect("as expected");
    let things = on.serve();
    match things.floor() {
        0 => {} // nothing is compacted
        floor => {
            let early = Cursor::open(&things, Topic::All, floor - 1).map(drop);
            assert_eq!(early, Err(Error::Compacted { floor }));
        }
    }
    on.mirror.stop(super::PREFIX);
    let over =
        Cursor::open(&things, Topic::All, things.floor()).map(|mut cursor| cursor.try_next());
    assert!(matches!(over, Err(Error::Closed) | Ok(Some(Err(Error::Closed)))), "{over:?}");
}

/// A list followed by a watch from its revision misses nothing and repeats nothing, also under concurrent writes.
pub(super) async fn a_list_and_then_a_watch_miss_nothing(on: EngineFixture) {
    let things = on.serve();
    let mut writing = JoinSet::new();
    for writer in 0..4 {
        let on = on.clone();
        writing.spawn(async move {
            let (name, mut revision) = (format!("a/{writer}"), 0);
            for nth in 0..25 {
                revision = match revision {
                    there if nth % 7 == 6 => on.delete(&name, there).await.map(|_| 0),
                    there => on.put(&name, there, &nth.to_string()).await,
                }
                .expect("nobody else");
            }
        });
    }
    let mut watching = JoinSet::new();
    for _ in 0..6 {
        let things = things.clone();
        watching.spawn(async move {
            tokio::task::yield_now().await;
            let listed = things.snapshot();
            let watch = Cursor::open(&things, Topic::All, listed.revision).expect("now");
            (listed, watch)
        });
    }
    let watching = watching.join_all().await;
    writing.join_all().await;
    let newest = on.engine.latest_revision(super::PREFIX).await.expect("it can be asked");
    things.wait_for(newest).await;
    let last = things.snapshot();
    for (listed, mut watch) in watching {
        let mut there: BTreeMap<_, _> = listed
            .range(super::PREFIX, None)
            .map(|(key, version)| (key.to_owned(), version.revision))
            .collect();
        while let Some(event) = watch.try_next() {
            let event = event.expect("held");
            assert!(event.revision > listed.revision, "not what was listed");
            let old = event.old.as_ref().map(|old| old.revision);
            assert_eq!(there.remove(event.key.as_str()), old, "as it was known");
            if event.new.is_some() {
                there.insert(event.key.to_string(), event.revision);
            }
        }
        let now = last.range(super::PREFIX, None).map(|(key, version)| (key, version.revision));
        assert!(there.iter().map(|(key, revision)| (key.as_str(), *revision)).eq(now));
    }
}

/// The revision of a bookmark is never ahead of the events delivered before it.
pub(super) async fn progress_is_never_ahead_of_events(on: EngineFixture) {
    let things = on.serve();
    let mut watch = Cursor::open(&things, Topic::All, things.snapshot().revision).expect("now");
    let mut writing = JoinSet::new();
    writing.spawn({
        let on = on.clone();
        async move {
            let (mut made, mut revision) = (Vec::new(), 0);
            for nth in 0..60 {
                revision = on.put("a/x", revision, &nth.to_string()).await.expect("nobody else");
                made.push(revision);
            }
            made
        }
    });
    let (mut told, mut seen) = (Vec::new(), Vec::new());
    let begun = std::time::Instant::now();
    while seen.len() < 60 {
        assert!(begun.elapsed() < std::time::Duration::from_mins(2), "{} of 60", seen.len());
        let complete = things.progress_revision();
        while let Some(event) = watch.try_next() {
            seen.push(event.expect("held").revision);
        }
        told.push((complete, seen.len()));
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let made = writing.join_all().await.concat();
    assert_eq!(seen, made);
    for (complete, count) in told {
        let due = made.iter().filter(|revision| **revision <= complete).count();
        assert!(count >= due, "{complete} was told, and {count} of {due} events");
    }
}

/// A watch that is not read delays no other.
pub(super) async fn who_does_not_read_holds_up_nobody(on: &EngineFixture) {
    let things = on.serve();
    let from = things.snapshot().revision;
    let open = || Cursor::open(&things, Topic::All, from).expect("now");
    let mut idle: Vec<_> = (0..50).map(|_| open()).collect();
    let mut reads = open();
    for nth in 0..30 {
        let made = on.put(&format!("a/{nth}"), 0, "x").await.expect("absent");
        assert_eq!(reads.next().await.expect("held").revision, made);
    }
    for late in &mut idle {
        assert_eq!(late.next().await.expect("held").key.as_str(), key("a/0"));
    }
}

/// A watch of one object delivers its events only, also where other names are similar.
pub(super) async fn a_watch_of_one_hears_of_no_other(on: &EngineFixture) {
    let things = on.serve();
    let from = things.snapshot().revision;
    let mut watch = Cursor::open(&things, Topic::Name("a/x".into()), from).expect("now");
    for name in ["a/xy", "a-bad/x", "b/x"] {
        on.put(name, 0, "1").await.expect("absent");
    }
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let changed = on.put("a/x", made, "2").await.expect("as expected");
    on.put("a/x/deeper", 0, "1").await.expect("absent");
    let gone = on.delete("a/x", changed).await.expect("as expected");
    for revision in [made, changed, gone] {
        assert_eq!(watch.next().await.expect("held").revision, revision);
    }
    assert!(watch.try_next().is_none());
}
