//! The engine suite on an etcd server: ours, and the real one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use object::SystemClock;
use store::{
    CacheCodec, Cursor, Error, EtcdConfig, EtcdEngine, MemoryLog, RingLimits, Topic, WatchCacheSet,
    Write,
    engine_suite::{self, EngineFixture},
};

use crate::{face, real::Real};

fn subject(url: &str, nth: usize) -> EngineFixture {
    let remote = EtcdConfig {
        endpoints: vec!["http://127.0.0.1:1".into(), url.to_owned()], // the first is not there
        prefix: format!("/n{nth}/registry"),
        ..EtcdConfig::default()
    };
    let engine = EtcdEngine::<Bytes>::connect(&remote, Arc::new(SystemClock)).expect("it is there");
    EngineFixture {
        engine: Arc::new(engine),
        mirror: WatchCacheSet::new(RingLimits::default()),
        advance_clock: None,
    }
}

async fn suite(url: &str) {
    let nth = std::cell::Cell::new(0);
    engine_suite::run(|| {
        nth.set(nth.get() + 1);
        subject(url, nth.get())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_on_our_etcd() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 0);
    suite(&etcd.url).await;
    what_others_write_and_nobody_can_read_ends_watches(&etcd.url).await;
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

    fn weight(&self, _: Option<&Bytes>, _: Option<&Bytes>) -> usize {
        2_048
    }
}

/// Another API server, of a newer release or with another encryption key, writes an object that this one cannot read.
async fn what_others_write_and_nobody_can_read_ends_watches(url: &str) {
    const PREFIX: &str = "/registry/things/";
    let here = subject(url, 1_000);
    let things = here.mirror.start(PREFIX, Arc::new(Picky), &*here.engine).expect("served");
    let there = subject(url, 1_000);
    there
        .mirror
        .start(PREFIX, Arc::new(engine_suite::RawBytesCodec), &*there.engine)
        .expect("served");
    let write = async |name: &str, expect: u64, text: &'static str| {
        let write = Write::put(format!("{PREFIX}{name}"), expect, text.into(), text.into());
        there.engine.write(write).await.expect("as expected")
    };
    let good = write("a/x", 0, "good").await;
    let patience = Duration::from_mins(2);
    let in_time = async |revision| {
        let newest = here.engine.latest_revision(PREFIX).await.expect("it can be asked");
        assert!(newest >= revision);
        tokio::time::timeout(patience, things.wait_for(newest)).await.expect("it comes");
    };
    in_time(good).await;
    let mut watch = Cursor::open(&things, Topic::All, good).expect("now");
    let bad = write("a/x", good, "bad").await;
    let other = write("a/y", 0, "good").await;
    let told = tokio::time::timeout(patience, watch.next()).await.expect("it comes");
    let (key, why) = (format!("{PREFIX}a/x"), "it is bad".to_owned());
    let corrupt = Error::Corrupt { key, revision: bad, why };
    assert_eq!(told.map(drop), Err(corrupt.clone()));
    in_time(other).await;
    assert_eq!(watch.next().await.map(drop), Err(corrupt.clone()), "nor what came behind it");
    assert_eq!(Cursor::open(&things, Topic::All, other).map(drop), Err(corrupt.clone()));
    assert_eq!(things.check_decodable(PREFIX), Err(corrupt));
    assert_eq!(things.check_decodable(&format!("{PREFIX}a/y")), Ok(()));
    let mended = write("a/x", bad, "good again").await;
    in_time(mended).await;
    assert_eq!(things.check_decodable(PREFIX), Ok(()));
    let floor = Err(Error::Compacted { floor: mended });
    assert_eq!(watch.next().await.map(drop), floor, "it has missed something");
    assert_eq!(Cursor::open(&things, Topic::All, other).map(drop), floor);
    let mut watch = Cursor::open(&things, Topic::All, mended).expect("now");
    let last = write("a/x", mended, "good").await;
    let event =
        tokio::time::timeout(patience, watch.next()).await.expect("it comes").expect("held");
    assert_eq!((event.revision, things.len()), (last, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs etcd"]
async fn the_contract_on_the_real_etcd() {
    let etcd = Real::start();
    suite(&etcd.url).await;
    what_others_write_and_nobody_can_read_ends_watches(&etcd.url).await;
}
