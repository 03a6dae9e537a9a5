//! Flags about the server as a whole.

use std::sync::{Arc, Mutex};

use api::core::{Endpoints, Event, Node, Pod, Service};
use client::Patch;
use object::{Clock, Key, SystemClock, Value};
use testkit::Cluster;

use crate::{
    backend::Backend,
    code,
    connections::with_kubelet,
    default_account,
    flags::{get, refused, with},
    of, pod, tree,
};

#[tokio::test]
async fn default_tolerations() {
    let cluster = with(|flags| {
        flags.whole.default_not_ready_toleration_seconds = 7;
        flags.whole.default_unreachable_toleration_seconds = 8;
    })
    .await;
    let admin = cluster.admin();
    default_account(&admin).await;
    let made = of::<Pod>(&admin).create(pod("p", "")).await.unwrap();
    let seconds: Vec<_> = made["spec"]["tolerations"]
        .items()
        .iter()
        .map(|own| (own["key"].as_str().unwrap(), own["tolerationSeconds"].as_i64().unwrap()))
        .collect();
    let expected = [("node.kubernetes.io/not-ready", 7), ("node.kubernetes.io/unreachable", 8)];
    assert_eq!(seconds, expected);
}

/// A clock that can be put forward.
#[derive(Debug, Default)]
struct Ahead(Mutex<i64>);

impl Clock for Ahead {
    fn now(&self) -> i64 {
        SystemClock.now() + *self.0.lock().unwrap()
    }
}

#[tokio::test]
async fn event_ttl() {
    let event = r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"default",
        "name":"p"},"reason":"r","message":"m"}"#;
    for (ttl, there) in [("10m", false), ("10h", true)] {
        let clock = Arc::new(Ahead::default());
        let cluster =
            Cluster::start_flags(clock.clone(), |flags| flags.whole.event_ttl = ttl.to_owned())
                .await;
        let events = of::<Event>(&cluster.admin());
        events.create(tree(event)).await.unwrap();
        *clock.0.lock().unwrap() = 3600;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
        let key = Key::new("default", "e");
        // What has passed goes within a while; what has not does not.
        while !there && events.get(&key).await.is_ok() && std::time::Instant::now() < until {
            events.create(tree(&event.replace("\"e\"", "\"other\""))).await.ok();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(events.get(&key).await.is_ok(), there, "{ttl}");
    }
}

#[tokio::test]
async fn the_kubernetes_service_and_its_endpoints() {
    let cluster = with(|flags| {
        flags.whole.endpoint_reconciler_type = "none".to_owned();
        flags.whole.kubernetes_service_node_port = 30_443;
    })
    .await;
    let admin = cluster.admin();
    let key = Key::new("default", "kubernetes");
    assert_eq!(code(of::<Endpoints>(&admin).get(&key).await), 404);
    let service = of::<Service>(&admin).get(&key).await.unwrap();
    assert_eq!(service["spec"]["type"].as_str(), Some("NodePort"));
    assert_eq!(service["spec"]["ports"].items()[0]["nodePort"].as_i64(), Some(30_443));
    let outside = refused(|flags| flags.whole.kubernetes_service_node_port = 9);
    assert!(outside.contains("doesn't contain 9"), "{outside}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_kubelets_are_called() {
    let kubelet = Backend::start(|_, _| tree(r#"{"fine":true}"#)).await;
    let cluster = with(|flags| {
        flags.whole.kubelet_preferred_address_types = vec!["ExternalIP".to_owned()];
        flags.whole.kubelet_timeout = "20s".to_owned();
    })
    .await;
    with_kubelet(&kubelet, &cluster).await;
    let admin = cluster.admin();
    let log = "/api/v1/namespaces/default/pods/p/log";
    let (code, said) = get(&admin, log).await;
    assert_eq!(code, 500, "the node has no such address: {said:?}");
    let key = Key::new("", "n1");
    let node = of::<Node>(&admin).get(&key).await.unwrap();
    let inner = node["status"]["addresses"].items()[0]["address"].as_str().unwrap().to_owned();
    let patch: Value = tree(&format!(
        r#"{{"status":{{"addresses":[{{"type":"ExternalIP","address":"{inner}"}},
        {{"type":"InternalIP","address":"192.0.2.1"}}]}}}}"#
    ));
    of::<Node>(&admin).patch_status(&key, &Patch::Merge(patch)).await.unwrap();
    assert_eq!(get(&admin, log).await.0, 200);
    let odd = refused(|flags| {
        flags.whole.kubelet_preferred_address_types = vec!["Street".to_owned()];
    });
    assert!(odd.contains("Street"), "{odd}");
}

#[test]
fn what_cannot_be_turned_off_or_on_is_refused() {
    let off = refused(|flags| flags.whole.watch_cache = false);
    assert!(off.contains("--watch-cache=false"), "{off}");
    let off = refused(|flags| flags.whole.enable_aggregator_routing = false);
    assert!(off.contains("--enable-aggregator-routing=false"), "{off}");
    let off = refused(|flags| flags.whole.enable_garbage_collector = false);
    assert!(off.contains("--enable-garbage-collector=false"), "{off}");
    let on = refused(|flags| flags.whole.profiling = true);
    assert!(on.contains("--profiling"), "{on}");
    let on = refused(|flags| flags.whole.contention_profiling = true);
    assert!(on.contains("--contention-profiling"), "{on}");
}

#[test]
fn how_much_is_logged() {
    let mut flags = apiserver::Flags::new(std::path::Path::new("/nowhere"));
    assert_eq!(flags.whole.log_level(), "info");
    flags.whole.v = 5;
    assert_eq!(flags.whole.log_level(), "debug");
}
