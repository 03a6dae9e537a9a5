//! What is promised to who lists.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{PREFIX, Subject, key, texts};
use crate::{Cursor, Error, Resident, Topic};

pub(super) async fn pages_are_of_one_revision(on: Subject) {
    let things = on.serve();
    let mut revisions = Vec::new();
    for nth in 0..20 {
        revisions.push(on.put(&format!("a/{nth:02}"), 0, "old").await.expect("absent"));
    }
    let first = things.pin();
    let mut writing = JoinSet::new();
    for (nth, revision) in revisions.into_iter().enumerate() {
        let on = on.clone();
        writing.spawn(async move {
            let name = format!("a/{nth:02}");
            let done = if nth % 2 == 0 {
                on.put(&name, revision, "new").await
            } else {
                on.delete(&name, revision).await
            };
            done.expect("as expected");
        });
    }
    let mut after = None::<String>;
    let mut seen = 0;
    while seen < 20 {
        let again = things.pin_at(first.revision).expect("the ring holds it");
        let page: Vec<_> = again.range(PREFIX, after.as_deref()).take(3).collect();
        assert!(page.iter().all(|(_, version)| &*version.object == b"old"));
        seen += page.len();
        after = page.last().map(|(key, _)| (*key).to_owned());
        tokio::task::yield_now().await;
    }
    while let Some(done) = writing.join_next().await {
        done.expect("no task fails");
    }
    assert_eq!(texts(&things.pin_at(first.revision).expect("held")), texts(&first));
    let now = things.pin();
    assert_eq!((now.count(PREFIX, None), now.count(&key("a/0"), None)), (10, 5));
}

pub(super) async fn the_past_is_exact_where_the_ring_does_not_reach(on: &Subject) {
    on.serve();
    let mut states = Vec::new();
    let (mut x, mut y) = (on.put("a/x", 0, "0").await.expect("absent"), 0);
    for nth in 0..6 {
        x = on.put("a/x", x, &nth.to_string()).await.expect("as expected");
        y = match y {
            0 => on.put("a/y", 0, "y").await.expect("absent"),
            there => on.delete("a/y", there).await.map(|_| 0).expect("as expected"),
        };
        let newest = on.engine.durable();
        let past = on.engine.past(PREFIX, newest).expect("it is now");
        states.push((
            newest,
            past.into_iter().map(|record| (record.key, record.revision)).collect::<Vec<_>>(),
        ));
    }
    for (revision, state) in states {
        let past = on.engine.past(PREFIX, revision).expect("not compacted");
        let past: Vec<_> = past.into_iter().map(|record| (record.key, record.revision)).collect();
        assert_eq!(past, state, "at {revision}");
    }
}

pub(super) async fn a_compacted_list_is_refused(on: &Subject) {
    let things = on.serve();
    let first = on.put("a/x", 0, "1").await.expect("absent");
    let second = on.put("a/x", first, "2").await.expect("as expected");
    on.put("a/x", second, "3").await.expect("as expected");
    let at = |revision| things.pin_past(&*on.engine, PREFIX, revision).map(|pinned| texts(&pinned));
    let text = |text: &'static str| vec![("a/x".to_owned(), Bytes::from_static(text.as_bytes()))];
    assert_eq!((at(first), at(second)), (Ok(text("1")), Ok(text("2"))));
    on.mirror.compact(second);
    assert_eq!((at(first), at(second)), (Err(Error::Compacted { floor: second }), Ok(text("2"))));
    assert!(matches!(things.pin_at(first), Err(Error::Compacted { .. })));
}

pub(super) async fn a_prefix_served_late_holds_what_was_written(on: &Subject) {
    let made = on.put("a/x", 0, "1").await.expect("absent");
    on.put("a/y", 0, "1").await.expect("absent");
    on.put("a/x", made, "2").await.expect("as expected");
    let things = on.serve();
    let names: Vec<_> = texts(&things.pin()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a/x", "a/y"]);
    // One that others write to as well may know nothing of before it was asked.
    let from = things.floor();
    let mut cursor = Cursor::open(&things, Topic::All, from).expect("not before the floor");
    if from < made {
        assert_eq!(cursor.try_next().expect("there").expect("held").revision, made);
    } else {
        assert!(on.engine.is_shared() && cursor.try_next().is_none());
    }
    let anew = on.serve();
    assert_eq!(cursor.try_next().expect("ended").map(drop), Err(Error::Closed));
    assert_eq!(texts(&anew.pin()), texts(&things.pin()));
}

/// A prefix ends where it says: neither more nor less lies under it.
pub(super) async fn a_prefix_is_not_what_merely_begins_alike(on: &Subject) {
    let things = on.serve();
    for name in ["a/x", "a/xy", "a/x/deeper", "ab/x", "b/x"] {
        on.put(name, 0, name).await.expect("absent");
    }
    let pinned = things.pin();
    let under = |prefix: &str| -> Vec<String> {
        let prefix = key(prefix);
        let all = pinned.range(&prefix, None);
        all.map(|(found, _)| found[PREFIX.len()..].to_owned()).collect()
    };
    assert_eq!(under("a/"), ["a/x", "a/x/deeper", "a/xy"]);
    assert_eq!(under("a/x/"), ["a/x/deeper"]);
    assert_eq!(under("ab/"), ["ab/x"]);
    assert_eq!(under("c/"), Vec::<String>::new());
    assert_eq!(under("").len(), 5);
    assert_eq!(pinned.get(&key("a/x")).map(|version| &*version.object), Some(&b"a/x"[..]));
    assert!(pinned.get(&key("a/")).is_none() && pinned.get(&key("a")).is_none());
    assert_eq!(
        (pinned.count(&key("a/"), None), pinned.count(&key("a/"), Some(&key("a/x")))),
        (3, 2)
    );
    assert!(things.get("/registry/other/a/x").is_none());
}

/// However small the pages, they are all of it, once and in order, and tell what remains.
pub(super) async fn pages_of_any_size_are_all_of_it(on: &Subject) {
    let things = on.serve();
    for nth in 0..13 {
        on.put(&format!("a/{nth:02}"), 0, "x").await.expect("absent");
    }
    let whole = texts(&things.pin());
    for size in 1..=14 {
        let (pinned, mut after, mut seen) = (things.pin(), None::<String>, Vec::new());
        loop {
            let page: Vec<_> = pinned.range(PREFIX, after.as_deref()).take(size).collect();
            let Some((last, _)) = page.last() else { break };
            after = Some((*last).to_owned());
            seen.extend(page.iter().map(|(found, version)| {
                (found[PREFIX.len()..].to_owned(), version.object.clone())
            }));
            assert_eq!(pinned.count(PREFIX, after.as_deref()), whole.len() - seen.len());
        }
        assert_eq!(seen, whole, "pages of {size}");
    }
}

/// A list is of the revision that it says, at every one of them; a later one is to come.
pub(super) async fn every_revision_is_listed_as_it_was(on: &Subject) {
    let things = on.serve();
    let mut states = vec![(things.pin().revision, Vec::new())];
    let (mut x, mut y) = (0, 0);
    for nth in 0..12 {
        if nth % 3 == 2 {
            on.delete("a/y", y).await.expect("as expected");
            y = 0;
        } else if nth % 3 == 1 {
            y = on.put("a/y", y, &nth.to_string()).await.expect("as expected");
        } else {
            x = on.put("a/x", x, &nth.to_string()).await.expect("as expected");
        }
        let pinned = things.pin();
        states.push((pinned.revision, texts(&pinned)));
    }
    for (revision, state) in &states {
        let again = things.pin_at(*revision).expect("the ring holds it");
        assert_eq!((again.revision, &texts(&again)), (*revision, state));
    }
    let newest = things.pin().revision;
    assert!(matches!(things.pin_at(newest + 1_000), Err(Error::Ahead { .. })));
}

/// What was written elsewhere a moment ago is in a list that must not be older.
pub(super) async fn a_list_can_be_asked_to_be_new_enough(on: &Subject) {
    let things = on.serve();
    for nth in 0..5 {
        let made = on.put(&format!("a/{nth}"), 0, "x").await.expect("absent");
        let newest = on.engine.newest().await.expect("it can be asked");
        things.wait_for(newest).await;
        let pinned = things.pin();
        assert!(pinned.revision >= made && pinned.get(&key(&format!("a/{nth}"))).is_some());
    }
    assert_eq!((things.len(), things.pin().count(PREFIX, None)), (5, 5));
}

/// What cannot be read is named, and nobody takes it for something else.
pub(super) async fn what_cannot_be_decoded_is_named(on: &Subject) {
    #[derive(Debug)]
    struct Picky;
    impl Resident<Bytes> for Picky {
        fn decode(&self, key: &str, bytes: &Bytes) -> Result<Bytes, Error> {
            if bytes.starts_with(b"bad") {
                Err(Error::Corrupt(key.to_owned()))
            } else {
                Ok(bytes.clone())
            }
        }

        fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
            vec![Topic::All]
        }

        fn weight(&self, object: &Bytes) -> usize {
            object.len()
        }
    }
    on.put("a/good", 0, "good").await.expect("absent");
    on.put("a/bad", 0, "bad").await.expect("absent");
    let served = on.mirror.serve(PREFIX, Arc::new(Picky), &*on.engine).map(drop);
    assert_eq!(served, Err(Error::Corrupt(key("a/bad"))));
    assert_eq!(texts(&on.serve().pin()).len(), 2, "nothing was changed by that");
}
