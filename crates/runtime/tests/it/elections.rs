//! Tests of leader election.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use object::{MicroTime, Value};
use runtime::{Context, LeaderElector};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::server::Server;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x";

/// A candidate that counts the leaders while it leads.
fn candidate(
    server: &Server,
    name: &'static str,
    leading: &Arc<AtomicUsize>,
    tasks: &mut JoinSet<()>,
) -> Context {
    let cx = Context::new(&server.client(tasks));
    let (own, leading) = (cx.clone(), leading.clone());
    tasks.spawn(async move {
        let election = LeaderElector::new("kube-system", "x", name);
        let start = |part: &Context| {
            leading.fetch_add(1, Ordering::Relaxed);
            let (inner, leading) = (part.clone(), leading.clone());
            part.spawn("lead", async move {
                let _guard = Guard(leading);
                inner.stopping().await;
            });
        };
        election.run(&own, start).await;
    });
    cx
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lease(server: &Server) -> Value {
    server.all("leases").remove(0)
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_another_follows_at_once() {
    let (server, leading) = (Server::default(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    let a = candidate(&server, "a", &leading, &mut tasks);
    sleep(Duration::from_secs(1)).await;
    let b = candidate(&server, "b", &leading, &mut tasks);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(leading.load(Ordering::Relaxed), 1);
    let spec = lease(&server)["spec"].clone();
    assert_eq!(spec["holderIdentity"].as_str(), Some("a"));
    assert_eq!(spec["leaseDurationSeconds"].as_i64(), Some(15));
    assert_eq!(spec["leaseTransitions"].as_i64(), Some(0));
    assert!(MicroTime::parse_micros(spec["renewTime"].as_str().unwrap()).is_some());

    a.stop().await;
    sleep(Duration::from_secs(5)).await;
    let spec = lease(&server)["spec"].clone();
    assert_eq!(spec["holderIdentity"].as_str(), Some("b"), "a let go");
    assert_eq!(spec["leaseTransitions"].as_i64(), Some(1));
    assert_eq!(leading.load(Ordering::Relaxed), 1);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_after_its_lease() {
    let (server, leading) = (Server::default(), Arc::new(AtomicUsize::new(0)));
    let mut dead = JoinSet::new();
    let a = candidate(&server, "a", &leading, &mut dead);
    sleep(Duration::from_secs(1)).await;
    let mut tasks = JoinSet::new();
    let b = candidate(&server, "b", &leading, &mut tasks);
    sleep(Duration::from_secs(10)).await;
    dead.shutdown().await; // no release, no renewal
    let since = Instant::now();
    while lease(&server)["spec"]["holderIdentity"].as_str() != Some("b") {
        sleep(Duration::from_millis(100)).await;
        assert!(since.elapsed() < Duration::from_secs(30));
    }
    assert!(since.elapsed() >= Duration::from_secs(11), "not before 15 s without a change");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_taken_stops() {
    let (server, leading) = (Server::default(), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    let a = candidate(&server, "a", &leading, &mut tasks);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(leading.load(Ordering::Relaxed), 1);
    let mut stolen = lease(&server);
    stolen["spec"]["holderIdentity"] = "thief".into();
    server.put(LEASE, stolen);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(leading.load(Ordering::Relaxed), 0);
    assert_eq!(lease(&server)["spec"]["holderIdentity"].as_str(), Some("thief"));
    a.stop().await;
}
