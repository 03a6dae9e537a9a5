//! From the API's objects to packets.

use std::time::Duration;

use api::{core::Service, discovery::EndpointSlice};
use client::{Api, Client, Delete};
use object::{Key, yaml::from_yaml};
use runtime::Context;
use sys::netlink::within;
use testkit::Cluster;
use tokio::time::{Instant, sleep};

use crate::world::{CLUSTER_IP, World, ask, this_node};

/// Only a failing test waits this long.
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

/// The runtime's threads are made within the node's namespace, and so stay in it.
#[test]
fn rules_follow_the_api() {
    let world = World::new();
    let inside = within(&world.node, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(follow(&world));
        proxy::cleanup(proxy::TABLE).expect("removed");
    });
    inside.expect("inside");
}

async fn follow(world: &World) {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let services = Api::<Service>::new(&admin);
    services.create(from_yaml(SERVICE).expect("a service").into()).await.expect("made");
    let cx = Context::new(&cluster.client("system:kube-proxy", &[]));
    proxy::start(&cx, proxy::Config { node: this_node() });
    becomes(world, false).await;
    add_slice(&admin).await;
    becomes(world, true).await;
    services.delete(&Key::new("default", "web"), &Delete::default()).await.expect("gone");
    becomes(world, false).await;
    cx.stop().await;
    cluster.stop().await;
}

async fn add_slice(client: &Client) {
    let slices = Api::<EndpointSlice>::new(client);
    slices.create(from_yaml(SLICE).expect("a slice").into()).await.expect("made");
}

/// Waits until the service answers a pod, or does not.
async fn becomes(world: &World, reached: bool) {
    let begin = Instant::now();
    while ask(&world.pods[0], (CLUSTER_IP, 80)).is_ok() != reached {
        assert!(begin.elapsed() < PATIENCE, "should be reached: {reached}");
        sleep(Duration::from_millis(20)).await; // lets the proxy work
    }
}
