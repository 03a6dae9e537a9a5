use std::collections::BTreeSet;

use api::{
    apps::{ControllerRevision, DaemonSet},
    core::{Node, Pod},
};

use crate::{World, world::until};

const SET: &str = r#"{"metadata":{"name":"ds"},"spec":{"selector":{"matchLabels":{"app":"ds"}},
    "template":{"metadata":{"labels":{"app":"ds"}},
    "spec":{"containers":[{"name":"c","image":"one"}]}}}}"#;

/// The nodes that have an active pod, each with the pod's image.
fn placed(pods: &[Pod]) -> BTreeSet<(String, String)> {
    let alive = pods.iter().filter(|pod| pod.is_active());
    let place = |pod: &Pod| {
        let affinity = pod.spec().affinity()?.node_affinity()?;
        let required = affinity.required_during_scheduling_ignored_during_execution()?;
        let term = required.node_selector_terms().iter().next()?;
        let node = term.match_fields().iter().next()?.values().iter().next()?.to_owned();
        Some((node, pod.spec().containers().iter().next()?.image().to_owned()))
    };
    alive.filter_map(place).collect()
}

fn pairs(all: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn a_daemon_set_follows_nodes_and_rolls() {
    let world = World::start(&["daemonset-controller"]).await;
    world.node("a").await;
    world.make::<DaemonSet>(SET).await;
    let first = pairs(&[("a", "one")]);
    world.until_all::<Pod>("a pod on a", |pods| placed(pods) == first).await;
    world.node("b").await;
    let both = pairs(&[("a", "one"), ("b", "one")]);
    world.until_all::<Pod>("a pod on b", |pods| placed(pods) == both).await;
    world.run_pods().await;
    world
        .until_one::<DaemonSet>("ds", "all available", |ds| ds.status().number_available() == 2)
        .await;

    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"two"}]}}}}"#;
    world.change::<DaemonSet>("ds", image).await;
    let new = pairs(&[("a", "two"), ("b", "two")]);
    until("the new template everywhere", async || {
        world.run_pods().await;
        let now = placed(&world.all::<Pod>().await);
        if now == new { Ok(()) } else { Err(now) }
    })
    .await;
    world.run_pods().await;
    let done = |ds: &DaemonSet| {
        ds.status().updated_number_scheduled() == 2 && ds.status().number_available() == 2
    };
    world.until_one::<DaemonSet>("ds", "updated", done).await;

    let revisions = world.all::<ControllerRevision>().await;
    let numbers: BTreeSet<i64> = revisions.iter().map(ControllerRevision::revision).collect();
    assert_eq!(numbers, BTreeSet::from([1, 2]));
    let first = revisions.iter().find(|one| one.revision() == 1).expect("it is kept");
    let undo = client::Patch::Strategic(first.data().clone());
    world.api::<DaemonSet>().patch(&crate::world::key::<DaemonSet>("ds"), &undo).await.unwrap();
    let renumbered = |all: &[ControllerRevision]| {
        all.len() == 2
            && all
                .iter()
                .any(|one| one.revision() == 3 && one.metadata().name() == first.metadata().name())
    };
    world.until_all::<ControllerRevision>("the old is the newest", renumbered).await;

    world.delete::<Node>("b").await;
    let one = |ds: &DaemonSet| ds.status().desired_number_scheduled() == 1;
    world.until_one::<DaemonSet>("ds", "one node is left", one).await;
    world.until_event("ds", "SuccessfulCreate").await;
    world.until_event("ds", "SuccessfulDelete").await;
    world.stop().await;
}

#[tokio::test]
async fn a_failed_daemon_is_replaced() {
    let world = World::start(&["daemonset-controller"]).await;
    world.node("a").await;
    world.make::<DaemonSet>(SET).await;
    let pods = world.until_all::<Pod>("a pod", |pods| pods.len() == 1).await;
    world.phase(&pods[0], "Failed", false).await;
    let uid = pods[0].metadata().uid().to_owned();
    let another = |pods: &[Pod]| pods.len() == 1 && pods[0].metadata().uid() != uid;
    world.until_all::<Pod>("another pod", another).await;
    world.until_event("ds", "FailedDaemonPod").await;
    world.stop().await;
}
