//! What every engine promises, as a suite: each implementation runs it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{Cursor, Engine, Error, Mirror, Pinned, Resident, Resource, Topic, Write};

const PREFIX: &str = "/registry/things/";

/// An engine with nothing in it, and the mirror that it fills.
#[derive(Clone, Debug)]
pub struct Subject {
    pub engine: Arc<dyn Engine<Bytes>>,
    pub mirror: Arc<Mirror<Bytes>>,
}

/// Bytes as they are. Keys end with `namespace/name`; the text is the index `text`.
#[derive(Debug)]
pub struct Plain;

impl Resident<Bytes> for Plain {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, Error> {
        Ok(bytes.clone())
    }

    fn topics(&self, key: &str, object: &Bytes) -> Vec<Topic> {
        let namespace = key.rsplit('/').nth(1).unwrap_or_default();
        let text = String::from_utf8_lossy(object);
        let text = Topic::Index("text".into(), text.as_ref().into());
        vec![Topic::All, Topic::Namespace(namespace.into()), text]
    }

    fn weight(&self, object: &Bytes) -> usize {
        object.len()
    }
}

/// Runs all of it; `make` gives a fresh engine for each part.
pub async fn run(make: impl Fn() -> Subject) {
    writes_are_judged_by_revision(&make()).await;
    revisions_only_grow(&make()).await;
    a_watch_sees_every_change_in_order(&make()).await;
    one_of_many_wins(make()).await;
    pages_are_of_one_revision(make()).await;
    notes_are_kept(&make()).await;
    a_prefix_served_late_holds_what_was_written(&make()).await;
    the_past_is_exact_where_the_ring_does_not_reach(&make()).await;
    what_is_made_again_is_new(&make()).await;
    progress_moves_though_nothing_happens_here(&make()).await;
    a_compacted_list_is_refused(&make()).await;
    a_stale_writer_changes_nothing(&make()).await;
}

impl Subject {
    fn serve(&self) -> Arc<Resource<Bytes>> {
        self.mirror.serve(PREFIX, Arc::new(Plain), &*self.engine).expect("served")
    }

    async fn put(&self, name: &str, expect: u64, text: &str) -> Result<u64, Error> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.engine.write(Write::put(key(name), expect, bytes.clone(), bytes)).await
    }

    async fn delete(&self, name: &str, expect: u64) -> Result<u64, Error> {
        self.engine.write(Write::delete(key(name), expect)).await
    }
}

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn texts(pinned: &Pinned<Bytes>) -> Vec<(String, Bytes)> {
    let all = pinned.range(PREFIX, None);
    all.map(|(key, version)| (key[PREFIX.len()..].to_owned(), version.object.clone())).collect()
}

async fn writes_are_judged_by_revision(on: &Subject) {
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
    assert!(things.get(&key("a/x")).is_none() && things.complete_through() >= gone);
    assert!(on.put("a/x", 0, "3").await.expect("absent again") > gone);
}

async fn revisions_only_grow(on: &Subject) {
    let things = on.serve();
    let mut last = on.engine.durable();
    assert!(last > 0 && things.pin().revision == last, "an empty list can be watched from");
    for nth in 0..20 {
        let revision = on.put(&format!("a/{nth}"), 0, "").await.expect("absent");
        assert!(revision > last && on.engine.durable() >= revision);
        last = revision;
    }
}

async fn a_watch_sees_every_change_in_order(on: &Subject) {
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
    assert_eq!(ahead, Err(Error::Ahead { revision: gone + 1 }));
}

/// Everybody adds one to a number, reading and writing until it was the first.
async fn one_of_many_wins(on: Subject) {
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

async fn pages_are_of_one_revision(on: Subject) {
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

async fn notes_are_kept(on: &Subject) {
    on.serve();
    let first = on.put("a/x", 0, "1").await.expect("absent");
    let note = Bytes::from_static(b"because");
    let write = Write::delete(key("a/x"), first).with_note(Some(note.clone()));
    let gone = on.engine.write(write).await.expect("as expected");
    let notes = on.engine.notes(first);
    assert_eq!(notes.len(), 1);
    assert_eq!((notes[0].revision, &notes[0].note), (gone, &note));
    assert_eq!(on.engine.notes(gone), []);
}

async fn the_past_is_exact_where_the_ring_does_not_reach(on: &Subject) {
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

async fn what_is_made_again_is_new(on: &Subject) {
    let things = on.serve();
    let mut watch = Cursor::open(&things, Topic::All, things.pin().revision).expect("now");
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

async fn progress_moves_though_nothing_happens_here(on: &Subject) {
    let things = on.serve();
    let before = things.complete_through();
    let elsewhere = Write::put("/registry/others/x", 0, Bytes::new(), Bytes::new());
    let written = on.engine.write(elsewhere).await.expect("absent");
    assert!(written > before);
    let newest = on.engine.newest().await.expect("it can be asked");
    assert!(newest >= written, "{newest} is older than {written}");
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, things.wait_for(newest)).await.expect("a bookmark can be sent");
    assert!(things.is_empty() && things.pin().revision >= written);
    Cursor::open(&things, Topic::All, written).expect("a watch can begin there");
}

async fn a_compacted_list_is_refused(on: &Subject) {
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

async fn a_stale_writer_changes_nothing(on: &Subject) {
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

async fn a_prefix_served_late_holds_what_was_written(on: &Subject) {
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
