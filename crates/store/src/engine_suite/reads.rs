//! Tests of lists and gets.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::{EngineFixture, PREFIX, key, texts};
use crate::{CacheCodec, Cursor, Error, Topic, Write};

pub(super) async fn pages_are_of_one_revision(on: EngineFixture) {
    let things = on.serve();
    let mut revisions = Vec::new();
    for nth in 0..20 {
        revisions.push(on.put(&format!("a/{nth:02}"), 0, "old").await.expect("absent"));
    }
    let first = things.snapshot();
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
        let again = things.snapshot_at(first.revision).expect("the ring holds it");
        let page: Vec<_> = again.range(PREFIX, after.as_deref()).take(3).collect();
        assert!(page.iter().all(|(_, version)| &*version.object == b"old"));
        seen += page.len();
        after = page.last().map(|(key, _)| (*key).to_owned());
        tokio::task::yield_now().await;
    }
    while let Some(done) = writing.join_next().await {
        done.expect("no task fails");
    }
    assert_eq!(texts(&things.snapshot_at(first.revision).expect("held")), texts(&first));
    let now = things.snapshot();
    assert_eq!((now.count(PREFIX, None), now.count(&key("a/0"), None)), (10, 5));
}

pub(super) async fn the_past_is_exact_where_the_ring_does_not_reach(on: &EngineFixture) {
    on.serve();
    let mut states = Vec::new();
    let (mut x, mut y) = (on.put("a/x", 0, "0").await.expect("absent"), 0);
    for nth in 0..6 {
        x = on.put("a/x", x, &nth.to_string()).await.expect("as expected");
        y = match y {
            0 => on.put("a/y", 0, "y").await.expect("absent"),
            there => on.delete("a/y", there).await.map(|_| 0).expect("as expected"),
        };
        let newest = on.engine.durable_revision();
        let past = on.engine.list_at(PREFIX, newest).expect("it is now");
        states.push((
            newest,
            past.into_iter().map(|record| (record.key, record.revision)).collect::<Vec<_>>(),
        ));
    }
    for (revision, state) in states {
        let past = on.engine.list_at(PREFIX, revision).expect("not compacted");
        let past: Vec<_> = past.into_iter().map(|record| (record.key, record.revision)).collect();
        assert_eq!(past, state, "at {revision}");
    }
}

pub(super) async fn a_compacted_list_is_refused(on: &EngineFixture) {
    let things = on.serve();
    let first = on.put("a/x", 0, "1").await.expect("absent");
    let second = on.put("a/x", first, "2").await.expect("as expected");
    on.put("a/x", second, "3").await.expect("as expected");
    let at = |revision| {
        things.snapshot_at_or_load(&*on.engine, PREFIX, revision).map(|pinned| texts(&pinned))
    };
    let text = |text: &'static str| vec![("a/x".to_owned(), Bytes::from_static(text.as_bytes()))];
    assert_eq!((at(first), at(second)), (Ok(text("1")), Ok(text("2"))));
    on.mirror.compact(second);
    assert_eq!((at(first), at(second)), (Err(Error::Compacted { floor: second }), Ok(text("2"))));
    assert!(matches!(things.snapshot_at(first), Err(Error::Compacted { .. })));
}

pub(super) async fn a_prefix_served_late_holds_what_was_written(on: &EngineFixture) {
    let made = on.put("a/x", 0, "1").await.expect("absent");
    on.put("a/y", 0, "1").await.expect("absent");
    on.put("a/x", made, "2").await.expect("as expected");
    let things = on.serve();
    let names: Vec<_> = texts(&things.snapshot()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a/x", "a/y"]);
    // An engine with external writers may not have events from before it was asked.
    let from = things.floor();
    let mut cursor = Cursor::open(&things, Topic::All, from).expect("not before the floor");
    if from < made {
        assert_eq!(cursor.try_next().expect("there").expect("held").revision, made);
    } else {
        assert!(on.engine.has_external_writers() && cursor.try_next().is_none());
    }
    let anew = on.serve();
    assert_eq!(cursor.try_next().expect("ended").map(drop), Err(Error::Closed));
    assert_eq!(texts(&anew.snapshot()), texts(&things.snapshot()));
}

/// A prefix matches at its exact end, and not keys that merely begin alike.
pub(super) async fn a_prefix_is_not_what_merely_begins_alike(on: &EngineFixture) {
    let things = on.serve();
    for name in ["a/x", "a/xy", "a/x/deeper", "ab/x", "b/x"] {
        on.put(name, 0, name).await.expect("absent");
    }
    let pinned = things.snapshot();
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
    assert_eq!(pinned.get(&key("a/x")).map(|version| version.object.clone()), Some("a/x".into()));
    assert!(pinned.get(&key("a/")).is_none() && pinned.get(&key("a")).is_none());
    assert_eq!(
        (pinned.count(&key("a/"), None), pinned.count(&key("a/"), Some(&key("a/x")))),
        (3, 2)
    );
    assert!(things.get("/registry/other/a/x").is_none());
}

/// Pages of any size together are the complete list, once and in order, with the right remaining count.
pub(super) async fn pages_of_any_size_are_all_of_it(on: &EngineFixture) {
    let things = on.serve();
    for nth in 0..13 {
        on.put(&format!("a/{nth:02}"), 0, "x").await.expect("absent");
    }
    let whole = texts(&things.snapshot());
    for size in 1..=14 {
        let (pinned, mut after, mut seen) = (things.snapshot(), None::<String>, Vec::new());
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

/// A list at every past revision shows the state of that revision; a future revision is an error.
pub(super) async fn every_revision_is_listed_as_it_was(on: &EngineFixture) {
    let things = on.serve();
    let mut states = vec![(things.snapshot().revision, Vec::new())];
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
        let pinned = things.snapshot();
        states.push((pinned.revision, texts(&pinned)));
    }
    for (revision, state) in &states {
        let again = things.snapshot_at(*revision).expect("the ring holds it");
        assert_eq!((again.revision, &texts(&again)), (*revision, state));
    }
    let newest = things.snapshot().revision;
    assert!(matches!(things.snapshot_at(newest + 1_000), Err(Error::FutureRevision { .. })));
}

/// A list with a minimum revision contains a write made elsewhere just before.
pub(super) async fn a_list_can_be_asked_to_be_new_enough(on: &EngineFixture) {
    let things = on.serve();
    for nth in 0..5 {
        let made = on.put(&format!("a/{nth}"), 0, "x").await.expect("absent");
        let newest = on.engine.latest_revision(PREFIX).await.expect("it can be asked");
        things.wait_for(newest).await;
        let pinned = things.snapshot();
        assert!(pinned.revision >= made && pinned.get(&key(&format!("a/{nth}"))).is_some());
    }
    assert_eq!((things.len(), things.snapshot().count(PREFIX, None)), (5, 5));
}

/// An undecodable object is reported by key and revision, and is not taken for anything else.
pub(super) async fn what_cannot_be_decoded_is_named(on: &EngineFixture) {
    on.put("a/good", 0, "good").await.expect("absent");
    let was = on.put("a/bad", 0, "well").await.expect("absent");
    let revision = on.put("a/bad", was, "bad").await.expect("as expected");
    let things = on.mirror.start(PREFIX, Arc::new(Picky), &*on.engine).expect("the rest is");
    let corrupt = unread("a/bad", revision);
    assert_eq!(things.check_decodable(&key("a/")), Err(corrupt.clone()));
    assert_eq!(things.try_get(&key("a/bad")), Err(corrupt.clone()), "and not what was before");
    let good = things.try_get(&key("a/good")).expect("readable").expect("there");
    assert_eq!(&*good.object, b"good");
    assert_eq!(Cursor::open(&things, Topic::All, revision).map(drop), Err(corrupt));
    assert_eq!(texts(&on.serve().snapshot()).len(), 2, "nothing was changed by that");
}

/// A get returns the current object, and the past one at every revision that can be listed.
pub(super) async fn one_object_is_read_as_it_is_and_as_it_was(on: &EngineFixture) {
    let things = on.serve();
    let before = things.snapshot().revision;
    assert!(things.get(&key("a/x")).is_none());
    let made = on.put("a/x", 0, "1").await.expect("absent");
    let changed = on.put("a/x", made, "2").await.expect("as expected");
    let other = on.put("a/y", 0, "1").await.expect("absent");
    let now = things.get(&key("a/x")).expect("there");
    assert_eq!((now.revision, &*now.object), (changed, &b"2"[..]));
    let at = |revision: u64| {
        things.wait_for(revision).now_or_never().expect("it has come so far");
        let pinned = things.snapshot_at(revision)?;
        Ok::<_, Error>(pinned.get(&key("a/x")).map(|there| there.object.clone()))
    };
    assert_eq!(at(before), Ok(None));
    assert_eq!(at(made), Ok(Some("1".into())));
    assert_eq!((at(changed), at(other)), (Ok(Some("2".into())), Ok(Some("2".into()))));
    let ahead = things.snapshot_at(other + 1_000).map(drop);
    assert_eq!(ahead, Err(Error::FutureRevision { revision: other + 1_000 }));
    assert!(things.wait_for(other + 1_000).now_or_never().is_none(), "still to come");
}

/// Every page of every size, at every revision, shows the state of that revision.
pub(super) async fn pages_of_every_revision_are_what_there_was(on: &EngineFixture) {
    let things = on.serve();
    let mut there = std::collections::BTreeMap::new();
    let mut states = vec![(things.snapshot().revision, there.clone())];
    let mut revisions = [0; 4];
    for nth in 0..10_usize {
        let (name, expect) = (format!("a/{}", nth % 4), &mut revisions[nth % 4]);
        let revision = if nth % 5 == 4 && *expect > 0 {
            there.remove(&name);
            let gone = on.delete(&name, *expect).await.expect("as expected");
            *expect = 0;
            gone
        } else {
            there.insert(name.clone(), Bytes::from(nth.to_string()));
            *expect = on.put(&name, *expect, &nth.to_string()).await.expect("as expected");
            *expect
        };
        states.push((revision, there.clone()));
    }
    for (revision, state) in &states {
        for size in 1..=4 {
            let (mut after, mut seen) = (None::<String>, Vec::new());
            loop {
                let pinned = things.snapshot_at(*revision).expect("the ring holds it");
                let page: Vec<_> = pinned.range(PREFIX, after.as_deref()).take(size).collect();
                let Some((last, _)) = page.last() else { break };
                after = Some((*last).to_owned());
                seen.extend(page.iter().map(|(found, version)| {
                    (found[PREFIX.len()..].to_owned(), version.object.clone())
                }));
                assert_eq!(pinned.count(PREFIX, after.as_deref()), state.len() - seen.len());
            }
            assert!(seen.iter().map(|(name, text)| (name, text)).eq(state), "{size} at {revision}");
        }
    }
}

/// A paged list whose revision is compacted continues after the last seen key in the newest state.
pub(super) async fn a_list_whose_revision_is_gone_goes_on_in_the_newest(on: &EngineFixture) {
    let things = on.serve();
    let mut revisions = Vec::new();
    for name in ["a/1", "a/3", "a/5"] {
        revisions.push(on.put(name, 0, "old").await.expect("absent"));
    }
    let first = things.snapshot();
    let (last, _) = first.range(PREFIX, None).next().expect("three");
    let last = last.to_owned();
    on.put("a/2", 0, "new").await.expect("absent");
    on.delete("a/3", revisions[1]).await.expect("as expected");
    let newest = on.put("a/5", revisions[2], "new").await.expect("as expected");
    on.mirror.compact(newest);
    let refused = things.snapshot_at_or_load(&*on.engine, PREFIX, first.revision).map(drop);
    assert_eq!(refused, Err(Error::Compacted { floor: newest }));
    let now = things.snapshot();
    let rest = now.range(PREFIX, Some(&last)).map(|(found, version)| {
        (found[PREFIX.len()..].to_owned(), String::from_utf8_lossy(&version.object).into_owned())
    });
    let rest: Vec<_> = rest.collect();
    assert_eq!(rest, [("a/2".to_owned(), "new".to_owned()), ("a/5".to_owned(), "new".to_owned())]);
    assert!(now.revision >= newest);
}

/// Keys that differ only in depth or in their last characters are different keys.
pub(super) async fn keys_of_any_shape_are_kept_apart(on: &EngineFixture) {
    let things = on.serve();
    let names =
        ["", "a", "a/", "a/b", "a/b/", "a/b/c", "a.b", "a..b", ".", "..", "a b", "ä/ö", "%2f"];
    for name in names {
        let made = on.put(name, 0, name).await.expect("absent");
        let there = things.get(&key(name)).expect("written");
        assert_eq!((there.revision, &*there.object), (made, name.as_bytes()));
        assert!(on.put(name, 0, name).await.is_err(), "{name:?} is there once");
    }
    let mut sorted: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    sorted.sort_unstable();
    let listed: Vec<_> = texts(&things.snapshot()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, sorted);
    let elsewhere = Write::put("/registry/thing", 0, Bytes::new(), Bytes::new());
    on.engine.write(elsewhere).await.expect("absent");
    assert_eq!(things.len(), names.len(), "what is outside of the prefix is not in it");
}

/// An undecodable object can be deleted by its revision, and then the rest is served.
pub(super) async fn what_cannot_be_decoded_can_be_deleted(on: &EngineFixture) {
    let good = on.put("a/good", 0, "good").await.expect("absent");
    let bad = on.put("a/bad", 0, "bad").await.expect("absent");
    let things = on.mirror.start(PREFIX, Arc::new(Picky), &*on.engine).expect("the rest is");
    assert_eq!(things.undecodable(&key("a/")), [unread("a/bad", bad)]);
    let stale = on.delete("a/bad", good).await;
    assert_eq!(stale, Err(Error::Conflict { want: good, have: bad }), "not by another revision");
    let gone = on.delete("a/bad", bad).await.expect("nobody has to read it for that");
    assert_eq!(things.check_decodable(PREFIX), Ok(()), "nothing else is wrong");
    assert_eq!(things.try_get(&key("a/bad")), Ok(None));
    assert!(Cursor::open(&things, Topic::All, gone).is_ok(), "watches go on from there");
    let again = on.mirror.start(PREFIX, Arc::new(Picky), &*on.engine).expect("readable");
    for things in [things, again] {
        assert_eq!(texts(&things.snapshot()), [("a/good".to_owned(), "good".into())]);
    }
}

fn unread(name: &str, revision: u64) -> Error {
    Error::Corrupt { key: key(name), revision, why: "it is bad".to_owned() }
}

/// A codec that rejects everything that begins with `bad`.
#[derive(Debug)]
struct Picky;

impl CacheCodec<Bytes> for Picky {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
        if bytes.starts_with(b"bad") { Err("it is bad".to_owned()) } else { Ok(bytes.clone()) }
    }

    fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
        vec![Topic::All]
    }

    fn weight(&self, old: Option<&Bytes>, new: Option<&Bytes>) -> usize {
        new.or(old).map_or(0, Bytes::len)
    }
}
