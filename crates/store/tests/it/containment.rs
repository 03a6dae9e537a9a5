//! A kind whose code panics on an object: only that object cannot be read, and the commit thread continues.

use std::sync::Arc;

use bytes::Bytes;
use store::{CacheCodec, Error, MemoryLog, RingLimits, Topic};

use crate::fixture::{open, put};

const THINGS: &str = "/registry/things/";

/// A codec that panics on the topics of a bad object, and on decoding a worse one.
#[derive(Debug)]
struct Fragile;

impl CacheCodec<Bytes> for Fragile {
    fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
        assert!(!bytes.starts_with(b"worse"), "it cannot be read");
        Ok(bytes.clone())
    }

    fn topics(&self, _: &str, object: &Bytes) -> Vec<Topic> {
        assert!(!object.starts_with(b"bad"), "it cannot be found");
        vec![Topic::All]
    }

    fn weight(&self, old: Option<&Bytes>, new: Option<&Bytes>) -> usize {
        new.or(old).map_or(0, Bytes::len)
    }
}

#[test]
fn an_object_that_panics_harms_no_other() {
    let log = Arc::new(MemoryLog::default());
    let store = open(log.clone(), RingLimits::default()).expect("empty");
    let things = store.mirror.start(THINGS, Arc::new(Fragile), &store.engine).expect("served");
    let key = |name: &str| format!("{THINGS}a/{name}");
    for (name, text) in [("one", "good"), ("two", "bad"), ("four", "worse"), ("three", "good")] {
        store.write(put(&key(name), 0, text)).expect("durable");
    }
    assert!(matches!(things.try_get(&key("two")), Err(Error::Corrupt { .. })));
    assert!(things.try_get(&key("one")).expect("readable").is_some());
    assert!(things.try_get(&key("three")).expect("readable").is_some(), "what came after too");
    drop(store);
    let again = open(log, RingLimits::default()).expect("the same log");
    let things = again.mirror.start(THINGS, Arc::new(Fragile), &again.engine).expect("served");
    assert!(matches!(things.try_get(&key("four")), Err(Error::Corrupt { .. })));
    assert!(things.try_get(&key("three")).expect("readable").is_some(), "a start is not hindered");
}
