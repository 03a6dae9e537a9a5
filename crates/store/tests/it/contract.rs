//! The engine suite on both logs.

use std::sync::Arc;

use store::{
    Directory, DiskLog, DiskLogOptions, EmbeddedEngine, RingLimits, SimulatedDisk, WatchCacheSet,
    engine_suite::{self, EngineFixture},
};

use crate::fixture::{Still, small};

#[tokio::test]
async fn memory() {
    engine_suite::run(|| {
        let mirror = WatchCacheSet::new(RingLimits::default());
        let clock = Arc::new(Still::default());
        let engine = Arc::new(EmbeddedEngine::memory(mirror.clone(), clock.clone()));
        let expires = engine.clone();
        let pass = move |seconds| {
            clock.pass(seconds);
            expires.expire();
        };
        EngineFixture { engine, mirror, advance_clock: Some(Arc::new(pass)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simulated_disk() {
    engine_suite::run(|| {
        let (mirror, clock) =
            (WatchCacheSet::new(RingLimits::default()), Arc::new(Still::default()));
        let options = DiskLogOptions { background: true, ..small() };
        let log = DiskLog::open(Arc::new(SimulatedDisk::default()), clock.clone(), options);
        let engine = EmbeddedEngine::open(log.expect("empty"), mirror.clone(), clock.clone());
        let pass = move |seconds| clock.pass(seconds);
        EngineFixture {
            engine: Arc::new(engine.expect("empty")),
            mirror,
            advance_clock: Some(Arc::new(pass)),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let nth = std::cell::Cell::new(0);
    engine_suite::run(|| {
        nth.set(nth.get() + 1);
        let disk = Directory::open(folder.path().join(nth.get().to_string())).expect("a folder");
        let (mirror, clock) =
            (WatchCacheSet::new(RingLimits::default()), Arc::new(Still::default()));
        let log = DiskLog::open(Arc::new(disk), clock.clone(), DiskLogOptions::default());
        let engine = EmbeddedEngine::open(log.expect("empty"), mirror.clone(), clock.clone());
        let pass = move |seconds| clock.pass(seconds);
        EngineFixture {
            engine: Arc::new(engine.expect("empty")),
            mirror,
            advance_clock: Some(Arc::new(pass)),
        }
    })
    .await;
}
