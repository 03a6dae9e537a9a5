//! A store of bytes, and time that stands still.

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
    Bounds, Cursor, DiskLog, Embedded, Engine, Error, Event, Log, Mirror, Options, Pinned,
    Resource, Simulated, Topic, Write, contract::Plain,
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
    pub(crate) engine: Embedded<Bytes>,
    pub(crate) mirror: Arc<Mirror<Bytes>>,
    pub(crate) pods: Arc<Resource<Bytes>>,
    pub(crate) leases: Arc<Resource<Bytes>>,
    pub(crate) clock: Arc<Still>,
}

/// Rings that hold about that many events of a few bytes.
pub(crate) fn events(count: usize) -> Bounds {
    let weight = size_of::<Event<Bytes>>() + 3;
    Bounds { spare: 0, age: Duration::MAX, budget: weight * count }
}

pub(crate) fn open(log: Arc<dyn Log>, bounds: Bounds) -> Result<Store, Error> {
    open_at(log, bounds, Arc::default())
}

pub(crate) fn open_at(
    log: Arc<dyn Log>,
    bounds: Bounds,
    clock: Arc<Still>,
) -> Result<Store, Error> {
    let mirror = Mirror::new(bounds);
    let engine = Embedded::open(log, mirror.clone(), clock.clone())?;
    let serve = |prefix| mirror.serve(prefix, Arc::new(Plain), &engine);
    let (pods, leases) = (serve(PODS)?, serve(LEASES)?);
    Ok(Store { engine, mirror, pods, leases, clock })
}

pub(crate) fn memory(bounds: Bounds) -> Store {
    open(Arc::new(store::MemoryLog::default()), bounds).expect("an empty log")
}

/// Long runs do a so manieth part of it: to see that they can be run at all.
pub(crate) fn part() -> u64 {
    let part = std::env::var_os("ROBUSTNESS_PART");
    let part = part.and_then(|part| part.to_str()?.parse().ok());
    part.filter(|part| *part > 0).unwrap_or(1)
}

/// Small files, so that everything happens soon.
pub(crate) fn small() -> Options {
    let retain = Duration::from_secs(75);
    let (segment, reserve, compact) = (2_048, 1_024, 6_000);
    Options { segment, reserve, compact, retain, background: false, stop: false }
}

pub(crate) fn on_disk(disk: &Simulated, options: Options) -> Result<Store, Error> {
    let clock = Arc::new(Still::default());
    let log = DiskLog::open(Arc::new(disk.clone()), clock.clone(), options)?;
    open_at(log, Bounds::default(), clock)
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

/// Waits in this thread: what is waited for is done by another, or done already.
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

pub(crate) fn keys(pinned: &Pinned<Bytes>) -> Vec<String> {
    pinned.range(PODS, None).map(|(key, _)| key[PODS.len()..].to_owned()).collect()
}

pub(crate) fn cursor(resource: &Arc<Resource<Bytes>>, topic: Topic, after: u64) -> Cursor<Bytes> {
    Cursor::open(resource, topic, after).expect("in the ring")
}
