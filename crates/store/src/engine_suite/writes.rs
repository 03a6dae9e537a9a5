//! Tests of writes.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{EngineFixture, key, soon};
use crate::{Cursor, Error, Topic, Write};

pub(super) async fn writes_are_judged_by_revision(on: &EngineFixture) {
    let things = on.serve();
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let again = on.put("a/x", 0, "2").await;
    assert_eq!(again, Err(Error::Conflict { want: 0, have: made }), "it is there");
    assert!(matches!(on.put("a/y", 7, "1").await, Err(Error::Conflict { want: 7, have: 0 })));
    assert!(matches!(on.delete("a/y", 7).await, Err(Error::Conflict { want: 7, have: 0 })));
    let changed = on.put("a/x", made, "2").await.expect("as expected");
    assert_eq!(on.delete("a/x", made).await, Err(Error::Conflict { want: made, have: changed }));
    let version = things.get(&key("a/x")).expect("answered, so it can be read");
    assert_eq!((version.revision, &*version.object), (changed, &b"2"[..]));
    let gone = on.delete("a/x", changed).await.expect("as expected");
    assert!(things.get(&key("a/x")).is_none() && things.progress_revision() >= gone);
    assert!(on.put("a/x", 0, "3").await.expect("absent again") > gone);
}

pub(super) async fn revisions_only_grow(on: &EngineFixture) {
    let things = on.serve();
    let mut last = on.engine.durable_revision();
    assert!(last > 0 && things.snapshot().revision == last, "an empty list can be watched from");
    for nth in 0..20 {
        let revision = on.put(&format!("a/{nth}"), 0, "").await.expect("absent");
        assert!(revision > last && on.engine.durable_revision() >= revision);
        last = revision;
    }
}

/// Concurrent tasks increment one number, each retrying until its write wins.
pub(super) async fn one_of_many_wins(on: EngineFixture) {
    const TASKS: usize = 64;
    const TIMES: usize = 8;
    let things = on.serve();
    on.put("a/sum", 0, "0").await.expect("absent");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (on, things) = (on.clone(), things.clone());
        tasks.spawn(async move {
            for _ in 0..TIMES {
                loop {
                    let read = things.get(&key("a/sum")).expect("never deleted");
                    let text = std::str::from_utf8(&read.object).expect("a number");
                    let next = text.parse::<u64>().expect("a number") + 1;
                    match on.put("a/sum", read.revision, &next.to_string()).await {
                        Ok(_) => break,
                        Err(Error::Conflict { have, .. }) => {
                            let now = things.get(&key("a/sum")).expect("never deleted");
                            assert!(now.revision >= have, "what it lost against can be read");
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task fails");
    }
    let sum = things.get(&key("a/sum")).expect("never deleted");
    assert_eq!(sum.object, (TASKS * TIMES).to_string());
}

pub(super) async fn notes_are_kept(on: &EngineFixture) {
    on.serve();
    let first = on.put("a/x", 0, "1").await.expect("absent");
    let note = Bytes::from_static(b"because");
    let write = Write::delete(key("a/x"), first).with_note(Some(note.clone()));
    let gone = on.engine.write(write).await.expect("as expected");
    let notes = on.engine.provenance_after(first);
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].revision, &notes[0].note), (gone, &note));
    assert_eq!(on.engine.provenance_after(gone), []);
}

pub(super) async fn a_stale_writer_changes_nothing(on: &EngineFixture) {
    let things = on.serve();
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let changed = on.put("a/x", made, "2").await.expect("as expected");
    let mut watch = Cursor::open(&things, Topic::All, changed).expect("now");
    for _ in 0..3 {
        assert_eq!(
            on.put("a/x", made, "3").await,
            Err(Error::Conflict { want: made, have: changed })
        );
        assert_eq!(
            on.delete("a/x", made).await,
            Err(Error::Conflict { want: made, have: changed })
        );
        assert_eq!(on.put("a/x", 0, "3").await, Err(Error::Conflict { want: 0, have: changed }));
    }
    assert!(watch.try_next().is_none(), "who fails makes no event");
    let next = on.put("a/y", 0, "1").await.expect("absent");
    assert_eq!(next, changed + 1, "and uses no revision");
    assert_eq!(watch.next().await.expect("held").revision, next);
}

pub(super) async fn what_has_a_time_to_live_goes_unless_it_is_written_again(on: &EngineFixture) {
    let things = on.serve();
    let short = Some(Duration::from_secs(2));
    let put = |name: &str, expect: u64, ttl: Option<Duration>| {
        Write::put(key(name), expect, Bytes::from_static(b"1"), Bytes::from_static(b"1"))
            .with_ttl(ttl)
    };
    let goes = on.engine.write(put("a/goes", 0, short)).await.expect("absent");
    let stays = on.engine.write(put("a/stays", 0, Some(Duration::from_hours(1)))).await;
    let stays = stays.expect("absent");
    let kept = on.engine.write(put("a/kept", 0, short)).await.expect("absent");
    let kept = on.engine.write(put("a/kept", kept, None)).await.expect("as expected");
    let mut watch = Cursor::open(&things, Topic::All, goes).expect("in the ring");
    soon(|| {
        on.pass(3);
        things.get(&key("a/goes")).is_none()
    })
    .await;
    let gone = loop {
        let event = watch.next().await.expect("held");
        if event.key == key("a/goes").as_str() {
            break event;
        }
    };
    assert!(gone.new.is_none() && gone.old.as_ref().is_some_and(|old| old.revision == goes));
    let revision = |name: &str| things.get(&key(name)).map(|version| version.revision);
    assert_eq!((revision("a/stays"), revision("a/kept")), (Some(stays), Some(kept)));
}

pub(super) async fn any_bytes_are_kept_as_they_are(on: &EngineFixture) {
    let things = on.serve();
    let all: Vec<u8> = (0..=255).collect();
    for (nth, bytes) in [Bytes::new(), all.into(), vec![7; 1 << 20].into()].into_iter().enumerate()
    {
        let name = format!("a/{nth}");
        let write = Write::put(key(&name), 0, bytes.clone(), bytes.clone());
        let made = on.engine.write(write).await.expect("absent");
        let read = things.get(&key(&name)).expect("written");
        assert_eq!((read.revision, &read.object), (made, &bytes));
        let past = on.engine.list_at(&key(&name), made).expect("it is now");
        assert_eq!(past[0].bytes.as_ref(), Some(&bytes), "and so they are stored");
    }
}

/// Writing the same bytes again creates a new revision: whether to write is the caller's choice.
pub(super) async fn the_same_bytes_again_are_another_revision(on: &EngineFixture) {
    let things = on.serve();
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let again = on.put("a/x", made, "1").await.expect("as expected");
    assert!(again > made);
    assert_eq!(things.get(&key("a/x")).expect("there").revision, again);
    assert_eq!(on.delete("a/x", made).await, Err(Error::Conflict { want: made, have: again }));
}

/// A deletion with a stale revision gets a conflict; after reading again it succeeds.
pub(super) async fn a_deletion_by_an_old_reading_is_tried_again(on: &EngineFixture) {
    let things = on.serve();
    let mut read = on.put("a/x", 0, "1").await.expect("absent");
    let mut changed = on.put("a/x", read, "2").await.expect("as expected");
    for nth in 0..3 {
        assert_eq!(
            on.delete("a/x", read).await,
            Err(Error::Conflict { want: read, have: changed })
        );
        read = things.get(&key("a/x")).expect("there").revision;
        assert_eq!(read, changed, "what it lost against can be read");
        if nth < 2 {
            changed = on.put("a/x", read, "3").await.expect("as expected");
        }
    }
    on.delete("a/x", read).await.expect("as expected");
    assert_eq!(on.delete("a/x", read).await, Err(Error::Conflict { want: read, have: 0 }));
    assert_eq!(on.put("a/x", read, "4").await, Err(Error::Conflict { want: read, have: 0 }));
}

/// Of many concurrent creations of one key, exactly one succeeds.
pub(super) async fn only_one_can_make_it(on: EngineFixture) {
    on.serve();
    let mut tasks = JoinSet::new();
    for nth in 0..32 {
        let on = on.clone();
        tasks.spawn(async move { on.put("a/x", 0, &nth.to_string()).await });
    }
    let done: Vec<_> = tasks.join_all().await;
    let made: Vec<_> = done.iter().filter_map(|done| done.as_ref().ok()).collect();
    assert_eq!(made.len(), 1, "{done:?}");
    let lost = Err(Error::Conflict { want: 0, have: *made[0] });
    assert!(done.iter().all(|done| done.is_ok() || *done == lost), "{done:?}");
}
