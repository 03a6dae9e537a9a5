//! Tests from API objects to packets.

use std::time::Duration;

use api::{
    core::{Node, Service},
    discovery::EndpointSlice,
};
use client::{Api, Client, DeleteParams};
use object::{NamespacedName, yaml::from_yaml};
use runtime::Context;
use sys::netlink::run_in_netns;
use testkit::TestCluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use crate::world::{CLUSTER_IP, World, ask, this_node};

/// Timeout; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_mins(2);

const SERVICE: &str = "
metadata: {namespace: default, name: web}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80, protocol: TCP}]}
";
const SLICE: &str = "
metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.2], nodeName: other, conditions: {ready: true}}]
";

const BALANCED: &str = "
metadata: {namespace: default, name: balanced}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000,
  clusterIP: 10.96.0.11, ports: [{name: http, port: 80, protocol: TCP}]}
";

/// The runtime's threads are created within the node's network namespace, and so stay in it.
#[test]
fn rules_follow_the_api() {
    let world = World::new();
    let inside = run_in_netns(&world.node, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(follow(&world));
        proxy::cleanup(proxy::TABLE).expect("removed");
    });
    inside.expect("inside");
}

async fn follow(world: &World) {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let services = Api::<Service>::new(&admin);
    services.create(from_yaml(SERVICE).expect("a service").into()).await.expect("made");
    let cx = Context::new(&cluster.client_as("system:kube-proxy", &[]));
    proxy::start(&cx, proxy::Config { listeners: listeners(), ..proxy::Config::new(this_node()) });
    becomes(world, false).await;
    assert_eq!(answers("127.0.0.1:10249", "/proxyMode", 200).await.1, "nftables");
    answers("127.0.0.1:10256", "/livez", 200).await;
    add_slice(&admin).await;
    becomes(world, true).await;
    observes(&admin).await;
    repairs(world).await;
    checks_health(&admin).await;
    services
        .delete(&NamespacedName::new("default", "web"), &DeleteParams::default())
        .await
        .expect("gone");
    becomes(world, false).await;
    cx.stop().await;
    cluster.stop().await;
}

fn listeners() -> proxy::Listeners {
    let at = |text: &str| Some(text.parse().expect("an address"));
    proxy::Listeners {
        healthz: at("0.0.0.0:10256"),
        metrics: at("127.0.0.1:10249"),
        ..proxy::Listeners::default()
    }
}

/// Sends one request; returns status and body.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status.unwrap_or_else(|| panic!("{answer}")), body.unwrap_or_default())
}

/// Health depends on the Node object; metrics count what was written.
async fn observes(admin: &Client) {
    assert_eq!(get("127.0.0.1:10256", "/healthz").await.0, 503, "the node is not there");
    let nodes = Api::<Node>::new(admin);
    nodes.create(from_yaml("metadata: {name: node}").expect("yaml").into()).await.expect("made");
    answers("127.0.0.1:10256", "/healthz", 200).await;
    assert_eq!(get("127.0.0.1:10256", "/metrics").await.0, 404);
    let (_, metrics) = get("127.0.0.1:10249", "/metrics").await;
    let count = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";
    assert!(metrics.contains(count), "{metrics}");
    assert!(metrics.contains("\nkubeproxy_sync_proxy_rules_endpoint_changes_total "), "{metrics}");
    let (_, configuration) = get("127.0.0.1:10249", "/configz").await;
    assert!(configuration.contains("kubeproxy.config.k8s.io"), "{configuration}");
}

/// The proxy restores what another process removes.
async fn repairs(world: &World) {
    for command in ["flush ruleset"] {
        let done = std::process::Command::new("nft").arg(command).status().expect("nft runs");
        assert!(done.success(), "{command}");
        assert!(ask(&world.pods[0], (CLUSTER_IP, 80)).is_err(), "{command}");
        becomes(world, true).await;
    }
}

/// The node reports the number of local endpoints on the health check node port.
async fn checks_health(admin: &Client) {
    let services = Api::<Service>::new(admin);
    services.create(from_yaml(BALANCED).expect("yaml").into()).await.expect("made");
    answers("192.0.2.1:31000", "/", 503).await;
    let slices = Api::<EndpointSlice>::new(admin);
    let local = SLICE.replace("web", "balanced").replace("nodeName: other", "nodeName: node");
    slices.create(from_yaml(&local).expect("yaml").into()).await.expect("made");
    let (_, body) = answers("192.0.2.1:31000", "/any", 200).await;
    assert!(body.contains("\"localEndpoints\": 1"), "{body}");
    let ends = local.replace("ready: true", "ready: false, serving: true, terminating: true");
    slices
        .delete(&NamespacedName::new("default", "balanced-1"), &DeleteParams::default())
        .await
        .expect("gone");
    slices.create(from_yaml(&ends).expect("yaml").into()).await.expect("made");
    answers("192.0.2.1:31000", "/", 503).await;
    services
        .delete(&NamespacedName::new("default", "balanced"), &DeleteParams::default())
        .await
        .expect("gone");
    let begin = Instant::now();
    while tokio::net::TcpStream::connect("192.0.2.1:31000").await.is_ok() {
        assert!(begin.elapsed() < PATIENCE, "nobody should listen any more");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a response with this status.
async fn answers(address: &str, path: &str, status: u16) -> (u16, String) {
    let begin = Instant::now();
    loop {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            let answer = get(address, path).await;
            if answer.0 == status {
                return answer;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{address}{path} should answer {status}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn add_slice(client: &Client) {
    let slices = Api::<EndpointSlice>::new(client);
    slices.create(from_yaml(SLICE).expect("a slice").into()).await.expect("made");
}

/// Waits until a pod can reach the service, or cannot.
async fn becomes(world: &World, reached: bool) {
    let begin = Instant::now();
    while ask(&world.pods[0], (CLUSTER_IP, 80)).is_ok() != reached {
        assert!(begin.elapsed() < PATIENCE, "should be reached: {reached}");
        sleep(Duration::from_millis(20)).await; // lets the proxy work
    }
}
