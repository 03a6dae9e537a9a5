//! The contract suite on both logs.

use std::sync::Arc;

use store::{
    Bounds, DiskLog, Embedded, Folder, Mirror, Options, Simulated,
    contract::{self, Subject},
};

use crate::fixture::{Still, small};

#[tokio::test]
async fn memory() {
    contract::run(|| {
        let mirror = Mirror::new(Bounds::default());
        let clock = Arc::new(Still::default());
        let engine = Arc::new(Embedded::memory(mirror.clone(), clock.clone()));
        let expires = engine.clone();
        let pass = move |seconds| {
            clock.pass(seconds);
            expires.expire();
        };
        Subject { engine, mirror, pass: Some(Arc::new(pass)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simulated_disk() {
    contract::run(|| {
        let (mirror, clock) = (Mirror::new(Bounds::default()), Arc::new(Still::default()));
        let options = Options { background: true, ..small() };
        let log = DiskLog::open(Arc::new(Simulated::default()), clock.clone(), options);
        let engine = Embedded::open(log.expect("empty"), mirror.clone(), clock.clone());
        let pass = move |seconds| clock.pass(seconds);
        Subject { engine: Arc::new(engine.expect("empty")), mirror, pass: Some(Arc::new(pass)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let nth = std::cell::Cell::new(0);
    contract::run(|| {
        nth.set(nth.get() + 1);
        let disk = Folder::open(folder.path().join(nth.get().to_string())).expect("a folder");
        let (mirror, clock) = (Mirror::new(Bounds::default()), Arc::new(Still::default()));
        let log = DiskLog::open(Arc::new(disk), clock.clone(), Options::default());
        let engine = Embedded::open(log.expect("empty"), mirror.clone(), clock.clone());
        let pass = move |seconds| clock.pass(seconds);
        Subject { engine: Arc::new(engine.expect("empty")), mirror, pass: Some(Arc::new(pass)) }
    })
    .await;
}
