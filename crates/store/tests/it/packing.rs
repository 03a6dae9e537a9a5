//! Tests of the compression of unread objects: readers notice no difference.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use store::{CacheCodec, Cursor, EmbeddedEngine, RingLimits, Topic, WatchCacheSet};

use crate::fixture::{Still, delete, put, wait};

const PREFIX: &str = "/registry/events/";

#[derive(Debug)]
struct Packs;

impl CacheCodec<Bytes> for Packs {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
        Ok(bytes.clone())
    }

    fn packs(&self) -> bool {
        true
    }

    fn pack(&self, object: &Bytes) -> Option<Vec<u8>> {
        Some(object.to_vec())
    }

    fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
        vec![Topic::All]
    }

    fn weight(&self, _: Option<&Bytes>, _: Option<&Bytes>) -> usize {
        1
    }
}

#[test]
fn what_is_packed_is_read_listed_watched_and_deleted_as_before() {
    let bounds = RingLimits { min_bytes: 0, min_age: Duration::from_secs(75), max_bytes: 64 << 20 };
    let (mirror, clock) = (WatchCacheSet::new(bounds), Arc::new(Still::default()));
    let engine = EmbeddedEngine::memory(mirror.clone(), clock.clone());
    let events = mirror.start(PREFIX, Arc::new(Packs), &engine).expect("nothing is wrong");
    let write = |write| wait(store::Engine::write(&engine, write)).expect("written");
    let key = |nth: u64| format!("{PREFIX}default/web.{nth:04}");
    let text = |nth: u64| format!("Started container web-{nth} on n1");
    let revisions: Vec<u64> = (0..300).map(|nth| write(put(&key(nth), 0, &text(nth)))).collect();
    let first = events.get(&key(0)).expect("there");
    clock.pass(80);
    mirror.trim(80, &engine);
    assert!(Arc::ptr_eq(&first, &events.get(&key(0)).expect("there")), "somebody has it");
    let other = || events.get(&key(1)).expect("there");
    assert!(!Arc::ptr_eq(&other(), &other()), "nobody has it: it is made for each reader");
    let before = events.snapshot();
    let mut seen = 0;
    for ((found, version), (nth, revision)) in before.range(PREFIX, None).zip((0..).zip(&revisions))
    {
        assert_eq!((found, version.revision), (&*key(nth), *revision));
        assert_eq!(version.object, Bytes::from(text(nth)));
        assert_eq!(events.try_get(&key(nth)), Ok(Some(version.into_version())));
        seen += 1;
    }
    assert_eq!((seen, before.count(PREFIX, Some(&key(9)))), (300, 290));

    let mut watch = Cursor::open(&events, Topic::All, before.revision).expect("now");
    write(put(&key(7), revisions[7], "changed"));
    write(delete(&key(8), revisions[8]));
    let mut next = || watch.try_next().expect("it has happened").expect("whole");
    let changed = next();
    assert_eq!(changed.old.as_ref().expect("it was there").object, Bytes::from(text(7)));
    assert_eq!(changed.new.as_ref().expect("it is there").object, "changed");
    let gone = next();
    assert_eq!(gone.old.as_ref().expect("it was there").object, Bytes::from(text(8)));
    assert!(gone.new.is_none() && events.get(&key(8)).is_none());
    assert_eq!(before.get(&key(8)).expect("as of then").object, Bytes::from(text(8)));
    let past = events.snapshot_at(before.revision).expect("the ring reaches back");
    assert_eq!(past.get(&key(7)).expect("as of then").object, Bytes::from(text(7)));
}

#[test]
fn events_are_forgotten_by_the_timer_too() {
    let bounds = RingLimits { min_bytes: 0, min_age: Duration::from_secs(75), max_bytes: 64 << 20 };
    let (mirror, clock) = (WatchCacheSet::new(bounds), Arc::new(Still::default()));
    let engine = EmbeddedEngine::memory(mirror.clone(), clock);
    mirror.start(PREFIX, Arc::new(Packs), &engine).expect("nothing is wrong");
    for nth in 0..10 {
        let key = format!("{PREFIX}default/{nth}");
        wait(store::Engine::write(&engine, put(&key, 0, "x"))).expect("written");
    }
    let held = || mirror.held().pop().expect("one resource").1;
    assert_eq!((held().objects, held().events), (10, 10));
    mirror.trim(75, &engine);
    assert_eq!(held().events, 10);
    mirror.trim(76, &engine);
    assert_eq!((held().objects, held().events, held().event_bytes), (10, 0, 0));
}
