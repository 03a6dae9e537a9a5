//! A request that panics gets an error response and disturbs no other request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use api::core::ConfigMap;
use bytes::Bytes;
use client::{Api, Error, Selectors, WatchEvent, WatchStart};
use http::{HeaderMap, Method};
use object::{Clock, SystemClock, from_json};
use testkit::TestCluster;
use tokio::time::timeout;

/// A clock that panics while it is broken, except in the thread that commits to the store, where
/// nothing could contain the panic.
#[derive(Debug, Default)]
struct Broken(AtomicBool);

impl Clock for Broken {
    fn now(&self) -> i64 {
        let commits = thread::current().name() == Some("store-log");
        assert!(commits || !self.0.load(Relaxed), "the clock is broken");
        SystemClock.now()
    }

    fn now_micros(&self) -> i64 {
        SystemClock.now_micros()
    }
}

fn map(name: &str) -> ConfigMap {
    let text = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default"}}}}"#);
    ConfigMap::from(from_json(text.as_bytes()).expect("an object"))
}

#[tokio::test]
async fn a_request_that_panics_fails_alone() {
    let clock = Arc::new(Broken::default());
    let cluster = TestCluster::start_with_clock(clock.clone()).await;
    let admin = cluster.admin_client();
    let maps = Api::<ConfigMap>::new(&admin).namespaced("default");
    let mut watch = maps.watch(&Selectors::default(), WatchStart::List).await.expect("a watch");
    clock.0.store(true, Relaxed);
    let failed = maps.create(map("a")).await.expect_err("it panics");
    clock.0.store(false, Relaxed);
    let Error::Status(status) = &failed else { panic!("no answer: {failed}") };
    assert_eq!((status.code(), status.reason()), (500, "InternalError"));
    assert!(status.message().contains("This request caused apiserver to panic"), "{failed}");
    maps.create(map("b")).await.expect("the next one is served");
    let told = async {
        loop {
            if let Some(WatchEvent::Added(map)) = watch.next().await.expect("it goes on")
                && map.metadata().name() == "b"
            {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), told).await.expect("the watch was not disturbed");
    let metrics = admin.request(Method::GET, "/metrics", HeaderMap::new(), Bytes::new());
    let metrics = metrics.await.expect("an answer").bytes().await.expect("a body");
    let metrics = String::from_utf8_lossy(&metrics);
    let counted =
        metrics.lines().find(|line| line.starts_with("tiphys_panics_total{part=\"request\"}"));
    assert!(counted.is_some(), "it is counted");
    cluster.stop().await;
}
