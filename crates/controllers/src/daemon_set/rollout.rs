//! Decides which outdated pods may be replaced now.
//!
//! ```text
//!  maxUnavailable 1   old pod deleted ─► manage() creates the new pod ─► available ─► next node
//!  maxSurge 1         new pod beside the old ─► available ─► old pod deleted ─► next node
//! ```

use api::{
    apps::DaemonSet,
    core::{Node, Pod},
};
use object::{IntOrString, saturating_i32};

use super::{
    placement::{DaemonPlacement, is_current},
    plan::{ByNode, PlanInput},
};

/// `maxUnavailable` and `maxSurge` as numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RolloutLimits {
    pub(super) unavailable: usize,
    pub(super) surge: usize,
}

/// What the limits permit now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RolloutStep<'a> {
    /// Outdated pods that may be deleted.
    pub(super) pods: Vec<&'a Pod>,
    /// Nodes on which a new pod may start beside the old one.
    pub(super) nodes: Vec<&'a str>,
}

impl RolloutLimits {
    /// Computes the limits for a set that should run on `wanted` nodes.
    pub(super) fn of(set: &DaemonSet, wanted: usize) -> Self {
        let strategy = set.spec().update_strategy();
        let rolling = strategy.rolling_update().filter(|_| strategy.type_() == "RollingUpdate");
        let amount = |share: Option<IntOrString>| {
            let n = share
                .and_then(|share| share.scaled_value(saturating_i32(wanted), true))
                .unwrap_or_default();
            usize::try_from(n).unwrap_or_default()
        };
        let mut unavailable = amount(rolling.and_then(|rolling| rolling.max_unavailable()));
        let surge = amount(rolling.and_then(|rolling| rolling.max_surge()));
        if wanted > 0 && unavailable == 0 && surge == 0 {
            unavailable = 1; // otherwise the rollout would never progress
        }
        Self { unavailable, surge }
    }

    /// Whether the set's strategy permits two pods on a node (`maxSurge`).
    pub(super) fn surges(set: &DaemonSet) -> bool {
        Self::of(set, 1).surge > 0
    }
}

/// Whether a pod is available: ready for `minReadySeconds`.
pub(super) fn is_available(pod: &Pod, scene: &PlanInput<'_>) -> bool {
    pod.is_available(scene.set.spec().min_ready_seconds(), scene.now)
}

/// Computes which pods may be deleted, and on which nodes new ones may start beside the old.
pub(super) fn roll<'a>(
    scene: &'a PlanInput<'_>,
    placing: &DaemonPlacement<'_>,
    nodes: &ByNode<'a>,
    hash: &str,
) -> RolloutStep<'a> {
    let fits = |node: &&Node| placing.fit(node).should_run;
    let wanted: Vec<&str> =
        scene.nodes.iter().filter(fits).map(|node| node.metadata().name()).collect();
    let limits = RolloutLimits::of(scene.set, wanted.len());
    let mut all: Vec<(&str, Option<OldAndNewPod<'_>>)> =
        nodes.iter().map(|(node, pods)| (*node, OldAndNewPod::of(pods, scene.set, hash))).collect();
    let bare = wanted.iter().filter(|node| !nodes.contains_key(**node));
    all.extend(bare.map(|node| (*node, Some(OldAndNewPod::default()))));
    if limits.surge == 0 {
        replace(scene, &all, limits.unavailable)
    } else {
        surge(scene, &all, &wanted, limits.surge)
    }
}

/// The current and the outdated pod of a node.
#[derive(Clone, Copy, Debug, Default)]
struct OldAndNewPod<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

impl<'a> OldAndNewPod<'a> {
    /// Sorts the pods of a node; `None` if there are several of one kind.
    fn of(pods: &[&'a Pod], set: &DaemonSet, hash: &str) -> Option<Self> {
        let mut pair = Self::default();
        for pod in pods.iter().filter(|pod| !pod.metadata().is_terminating()) {
            let one = if is_current(pod, set, hash) { &mut pair.new } else { &mut pair.old };
            if one.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}

/// Deletes outdated pods: all that are unavailable, and available ones up to `maxUnavailable`.
fn replace<'a>(
    scene: &PlanInput<'_>,
    all: &[(&'a str, Option<OldAndNewPod<'a>>)],
    most: usize,
) -> RolloutStep<'a> {
    let (mut missing, mut candidates, mut rolled) = (0, Vec::new(), RolloutStep::default());
    for (_, pair) in all {
        match pair {
            Some(OldAndNewPod { new: Some(new), old: None }) => {
                missing += usize::from(!is_available(new, scene));
            }
            Some(OldAndNewPod { new: None, old: Some(old) }) if is_available(old, scene) => {
                candidates.push(*old);
            }
            Some(OldAndNewPod { new: None, old: Some(old) }) => {
                rolled.pods.push(old);
                missing += 1;
            }
            _ => missing += 1,
        }
    }
    rolled.pods.extend(candidates.into_iter().take(most.saturating_sub(missing)));
    rolled
}

/// Starts new pods beside outdated ones, up to `maxSurge`, and deletes outdated pods whose
/// replacement is available. On a node that the set no longer fits, an outdated pod is deleted when
/// enough pods are available elsewhere.
fn surge<'a>(
    scene: &PlanInput<'_>,
    all: &[(&'a str, Option<OldAndNewPod<'a>>)],
    wanted: &[&str],
    most: usize,
) -> RolloutStep<'a> {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut misplaced, mut rolled) =
        (Vec::new(), Vec::new(), RolloutStep::default());
    for (node, pair) in all {
        let Some(OldAndNewPod { new, old }) = pair else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(*new).is_some_and(|pod| is_available(pod, scene)));
        let Some(old) = old else { continue };
        let (serves, belongs) = (is_available(old, scene), wanted.contains(node));
        match new {
            Some(new) if is_available(new, scene) => rolled.pods.push(old),
            Some(_) => surging += 1,
            None if !belongs && serves => misplaced.push(*old),
            None if !belongs => rolled.pods.push(old),
            None if serves => candidates.push(*node),
            None => rolled.nodes.push(node),
        }
    }
    rolled.pods.extend(misplaced.into_iter().take(available.saturating_sub(wanted.len())));
    rolled.nodes.extend(candidates.into_iter().take(most.saturating_sub(surging)));
    rolled
}
