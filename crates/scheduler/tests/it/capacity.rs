//! Tests with many pods at once: assumed pods count before the API server confirms them.

use std::collections::BTreeMap;

use api::core::{Pod, Service};
use testkit::until;

use crate::World;

async fn counts(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in world.list::<Pod>().await {
        *counts.entry(pod.spec().node_name().to_owned()).or_default() += 1;
    }
    counts
}

fn named(all: &[(&str, usize)]) -> BTreeMap<String, usize> {
    all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[tokio::test]
async fn no_node_is_given_more_than_it_has() {
    let world = World::start().await;
    for at in 0..26 {
        world.pod(&format!("p{at}"), "500m", "").await;
    }
    // All pods are pending by now and scheduled together. Limited by CPU, by the number of pods, by
    // both.
    for (name, room) in [
        ("cpu", r#""cpu":"5","pods":"99""#),
        ("pods", r#""cpu":"99","pods":"7""#),
        ("both", r#""cpu":"3","pods":"6""#),
    ] {
        world.create_node(name, "", room).await;
    }
    let full = named(&[("", 3), ("both", 6), ("cpu", 10), ("pods", 7)]);
    until("every place taken, and no more", async || {
        let now = counts(&world).await;
        if now == full { Ok(()) } else { Err(now) }
    })
    .await;
    for pod in world.list::<Pod>().await.iter().filter(|pod| pod.spec().node_name().is_empty()) {
        let message = "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu";
        world
            .until::<Pod>(pod.metadata().name(), message, |pod| {
                let found = testkit::condition(pod, "PodScheduled").unwrap_or_default();
                // a node that lacks both is counted for both
                found.1 == "Unschedulable"
                    && found.2.starts_with("0/3 nodes are available: ")
                    && found.2.contains("Too many pods")
                    && found.2.contains("Insufficient cpu")
            })
            .await;
    }
    assert_eq!(counts(&world).await, full);
    world.stop().await;
}

/// Required pod anti-affinity, and the default topology spreading of a service's pods.
#[tokio::test]
async fn pods_are_kept_apart() {
    let world = World::start().await;
    for name in ["a", "b"] {
        world
            .create_node(
                name,
                &format!(r#""kubernetes.io/hostname":"{name}""#),
                r#""cpu":"8","pods":"20""#,
            )
            .await;
    }
    let apart = r#""affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}},"#;
    world.pod("one", "1", apart).await;
    world.pod("two", "1", apart).await;
    until("one on each", async || {
        let now = counts(&world).await;
        if now == named(&[("a", 1), ("b", 1)]) { Ok(()) } else { Err(now) }
    })
    .await;
    world.pod("three", "1", apart).await;
    let message = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: \
        0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    world.until_unschedulable("three", message).await;
    for name in ["one", "two", "three"] {
        world.delete_now::<Pod>(name).await;
    }

    let service =
        r#"{"metadata":{"name":"web"},"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}}"#;
    world.create::<Service>(service).await;
    for at in 0..6 {
        let name = format!("replica{at}");
        world.pod(&name, "100m", "").await;
        world.until::<Pod>(&name, "a node", |pod| !pod.spec().node_name().is_empty()).await;
    }
    assert_eq!(counts(&world).await, named(&[("a", 3), ("b", 3)]), "a service's pods are spread");
    world.stop().await;
}
