//! A store of bytes with a simulated clock.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use object::Clock;
use store::{
    CacheSnapshot, Cursor, DiskLog, DiskLogOptions, EmbeddedEngine, Engine, Error, Event, Log,
    RingLimits, SimulatedDisk, Topic, WatchCache, WatchCacheSet, Write,
    engine_suite::RawBytesCodec,
};

pub(crate) const PODS: &str = "/registry/pods/";
pub(crate) const LEASES: &str = "/registry/leases/";

#[derive(Debug, Default)]
pub(crate) struct Still(pub(crate) AtomicI64);

impl Clock for Still {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Still {
    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

pub(crate) struct Store {
    pub(crate) engine: EmbeddedEngine<Bytes>,
    pub(crate) mirror: Arc<WatchCacheSet<Bytes>>,
    pub(crate) pods: Arc<WatchCache<Bytes>>,
    pub(crate) leases: Arc<WatchCache<Bytes>>,
    pub(crate) clock: Arc<Still>,
}

/// Limits for a ring of about that many small events.
pub(crate) fn events(count: usize) -> RingLimits {
    let weight = size_of::<Event<Bytes>>() + 3;
    RingLimits { min_bytes: 0, min_age: Duration::MAX, max_bytes: weight * count }
}

pub(crate) fn open(log: Arc<dyn Log>, bounds: RingLimits) -> Result<Store, Error> {
    open_at(log, bounds, Arc::default())
}

pub(crate) fn open_at(
    log: Arc<dyn Log>,
    bounds: RingLimits,
    clock: Arc<Still>,
) -> Result<Store, Error> {
    let mirror = WatchCacheSet::new(bounds);
    let engine = EmbeddedEngine::open(log, mirror.clone(), clock.clone())?;
    let serve = |prefix| mirror.start(prefix, Arc::new(RawBytesCodec), &engine);
    let (pods, leases) = (serve(PODS)?, serve(LEASES)?);
    Ok(Store { engine, mirror, pods, leases, clock })
}

pub(crate) fn memory(bounds: RingLimits) -> Store {
    open(Arc::new(store::MemoryLog::default()), bounds).expect("an empty log")
}

/// Normal runs do a fraction of what the long ones do, to check that those can run.
pub(crate) fn part() -> u64 {
    let part = std::env::var_os("ROBUSTNESS_PART");
    let part = part.and_then(|part| part.to_str()?.parse().ok());
    part.filter(|part| *part > 0).unwrap_or(1)
}

/// Small files, so that segments and snapshots change often.
pub(crate) fn small() -> DiskLogOptions {
    let retain = Duration::from_secs(75);
    let (segment, reserve, compact) = (2_048, 1_024, 6_000);
    DiskLogOptions {
        segment_size: segment,
        reserve_size: reserve,
        essential_prefixes: &[LEASES],
        compact_threshold: compact,
        retain,
        background: false,
        exit_on_failure: false,
    }
}

pub(crate) fn on_disk(disk: &SimulatedDisk, options: DiskLogOptions) -> Result<Store, Error> {
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(disk.clone()), clock.clone(), options)?;
    open_at(log, RingLimits::default(), clock)
}

pub(crate) fn put(key: &str, expect: u64, text: &str) -> Write<Bytes> {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    Write::put(key, expect, bytes.clone(), bytes)
}

pub(crate) fn delete(key: &str, expect: u64) -> Write<Bytes> {
    Write::delete(key, expect)
}

impl Store {
    pub(crate) fn write(&self, write: Write<Bytes>) -> Result<u64, Error> {
        wait(self.engine.write(write))
    }
}

/// Blocks this thread on a future that another thread completes, or that is complete.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

pub(crate) fn text_topic(text: &str) -> Topic {
    Topic::Index("text".into(), text.into())
}

pub(crate) fn keys(pinned: &CacheSnapshot<Bytes>) -> Vec<String> {
    pinned.range(PODS, None).map(|(key, _)| key[PODS.len()..].to_owned()).collect()
}

pub(crate) fn cursor(resource: &Arc<WatchCache<Bytes>>, topic: Topic, after: u64) -> Cursor<Bytes> {
    Cursor::open(resource, topic, after).expect("in the ring")
}
