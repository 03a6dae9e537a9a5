//! Computes the status of a DaemonSet.

use api::{apps::DaemonSetStatus, core::Pod};
use object::{Time, seconds_left};

use super::{
    placement::{DaemonPlacement, is_current},
    plan::{ByNode, PlanInput},
    rollout::is_available,
};

/// Counts the pods of a DaemonSet.
pub(super) fn status(
    scene: &PlanInput<'_>,
    placing: &DaemonPlacement<'_>,
    nodes: &ByNode<'_>,
    hash: &str,
) -> DaemonSetStatus {
    let (mut desired, mut current, mut misplaced) = (0, 0, 0);
    let (mut ready, mut available, mut updated) = (0, 0, 0);
    for node in &scene.nodes {
        // The oldest pod counts for the node.
        let pod = nodes.get(node.metadata().name()).and_then(|pods| pods.first());
        if !placing.fit(node).should_run {
            misplaced += i32::from(pod.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = pod else { continue };
        current += 1;
        ready += i32::from(pod.is_ready());
        available += i32::from(is_available(pod, scene));
        updated += i32::from(is_current(pod, scene.set, hash));
    }
    scene
        .set
        .status()
        .clone()
        .with_observed_generation(scene.set.metadata().generation())
        .with_desired_number_scheduled(desired)
        .with_current_number_scheduled(current)
        .with_number_misscheduled(misplaced)
        .with_number_ready(ready)
        .with_number_available(available)
        .with_number_unavailable(desired - available)
        .with_updated_number_scheduled(updated)
}

/// The seconds until the next ready pod becomes available.
pub(super) fn next(scene: &PlanInput<'_>) -> Option<i64> {
    let wait = i64::from(scene.set.spec().min_ready_seconds());
    let left = |pod: &Pod| {
        let ready = pod.status().condition("Ready")?;
        Some(seconds_left(Time::parse_seconds(ready.last_transition_time())?, wait, scene.now))
    };
    let ready = scene.pods.iter().filter(|pod| pod.is_ready());
    ready.filter_map(left).filter(|left| *left > 0).min()
}
