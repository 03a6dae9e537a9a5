//! Tests of preemption: victims are deleted, and their room is kept for the nominated pod.

use api::{core::Pod, policy::PodDisruptionBudget, scheduling::PriorityClass};
use testkit::condition;

use crate::World;

async fn start() -> World {
    let world = World::start().await;
    for (name, value, policy) in [
        ("low", 10, "PreemptLowerPriority"),
        ("high", 1000, "PreemptLowerPriority"),
        ("polite", 1000, "Never"),
    ] {
        let class = format!(
            r#"{{"metadata":{{"name":"{name}"}},"value":{value},"preemptionPolicy":"{policy}"}}"#
        );
        world.create::<PriorityClass>(&class).await;
    }
    world
}

const LOW: &str = r#""priorityClassName":"low","#;
const HIGH: &str = r#""priorityClassName":"high","#;

#[tokio::test]
async fn the_least_important_goes_and_its_place_is_kept() {
    let world = start().await;
    world.create_node("n", "", r#""cpu":"3","pods":"10""#).await;
    world.pod("low", "1", LOW).await;
    world.until_placed("low", "n").await;
    world.pod("other", "2", HIGH).await;
    world.until_placed("other", "n").await;

    world.pod("polite", "1", r#""priorityClassName":"polite","#).await;
    let never = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to \
        preemptionPolicy=Never.";
    world.until_unschedulable("polite", never).await;
    let low = world.get::<Pod>("low").await;
    assert!(!low.metadata().is_terminating(), "nobody goes for a pod that may not preempt");
    world.delete_now::<Pod>("polite").await;

    world.pod("high", "1", HIGH).await;
    let going =
        world.until::<Pod>("low", "on its way", |pod| pod.metadata().is_terminating()).await;
    let why = "default-scheduler: preempting to accommodate a higher priority pod";
    assert_eq!(
        condition(&going, "DisruptionTarget"),
        Some(("True".into(), "PreemptionByScheduler".into(), why.into()))
    );
    let uid = world.get::<Pod>("high").await.metadata().uid().to_owned();
    let event = world.until_event("low", "Preempted").await;
    assert_eq!(event.message(), format!("Preempted by pod {uid} on node n"));
    let waiting = world
        .until::<Pod>("high", "a promise", |pod| pod.status().nominated_node_name() == "n")
        .await;
    assert_eq!(waiting.spec().node_name(), "", "not before the other has gone");
    assert!(!world.get::<Pod>("other").await.metadata().is_terminating(), "one is enough");

    // A pod of lower priority requests the same room at the moment it becomes free.
    world.pod("late", "1", LOW).await;
    world.until_event("late", "FailedScheduling").await;
    world.delete_now::<Pod>("low").await;
    world.until_placed("high", "n").await;
    assert_eq!(world.get::<Pod>("late").await.spec().node_name(), "");
    world.stop().await;
}

/// Of two nodes the one without a PDB violation is selected; if all pods are too important, none is
/// preempted.
#[tokio::test]
async fn budgets_choose_the_victim() {
    let world = start().await;
    for name in ["a", "b"] {
        world.create_node(name, &format!(r#""name":"{name}""#), r#""cpu":"1","pods":"10""#).await;
        world.pod(name, "1", &format!(r#"{LOW}"nodeSelector":{{"name":"{name}"}},"#)).await;
        world.until_placed(name, name).await;
    }
    world.patch::<Pod>("a", r#"{"metadata":{"labels":{"app":"guarded"}}}"#).await;
    let budget = r#"{"metadata":{"name":"guard"},"spec":{"minAvailable":1,
        "selector":{"matchLabels":{"app":"guarded"}}}}"#;
    world.create::<PodDisruptionBudget>(budget).await;
    // The scheduler knows both once it has scheduled a pod that was created after them.
    world.create_node("c", r#""name":"c""#, r#""cpu":"1","pods":"10""#).await;
    world.pod("c", "1", &format!(r#"{HIGH}"nodeSelector":{{"name":"c"}},"#)).await;
    world.until_placed("c", "c").await;

    world.pod("high", "1", HIGH).await;
    world.until::<Pod>("b", "on its way", |pod| pod.metadata().is_terminating()).await;
    world.delete_now::<Pod>("b").await;
    world.until_placed("high", "b").await;
    assert!(!world.get::<Pod>("a").await.metadata().is_terminating(), "its budget protects it");
    assert!(!world.get::<Pod>("c").await.metadata().is_terminating(), "no less important");
    world.stop().await;
}
