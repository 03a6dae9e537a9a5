//! Registration and status of the node.

use api::{coordination::Lease, core::Node};
use client::Api;
use object::NamespacedName;
use testkit::until;

use crate::World;

fn ready(node: &Node) -> (String, String) {
    let status = node.status();
    let found = status.conditions().iter().find(|one| one.type_() == "Ready");
    found.map(|one| (one.status().to_owned(), one.message().to_owned())).unwrap_or_default()
}

#[tokio::test]
async fn a_node_is_registered_and_follows_its_runtime() {
    let world = World::start().await;
    let node = world.until::<Node>("n", "ready", |node| ready(node).0 == "True").await;
    let status = node.status();
    assert_eq!(status.node_info().container_runtime_version(), "scripted://1.2.3");
    let address = |kind: &str| {
        status
            .addresses()
            .iter()
            .find(|one| one.type_() == kind)
            .map(|one| one.address().to_owned())
    };
    assert_eq!(address("InternalIP").as_deref(), Some("192.0.2.7"));
    assert_eq!(address("Hostname").as_deref(), Some("n"));
    let pods = status.allocatable().get("pods").map(|pods| pods.value());
    assert_eq!(pods, Some(110));
    assert_eq!(node.metadata().labels().get("kubernetes.io/hostname"), Some("n"));

    let leases = Api::<Lease>::new(&world.admin()).namespaced("kube-node-lease");
    let key = NamespacedName::new("kube-node-lease", "n");
    until("the node's lease", async || leases.get(&key).await.map(drop)).await;

    world.runtime.set_network(Err("no bridge".into()));
    let node = world.until::<Node>("n", "not ready", |node| ready(node).0 == "False").await;
    assert!(ready(&node).1.contains("no bridge"), "{:?}", ready(&node));
    world.runtime.set_network(Ok(()));
    world.until::<Node>("n", "ready again", |node| ready(node).0 == "True").await;
    world.stop().await;
}
