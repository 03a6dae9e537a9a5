//! Which pods of an old template may be replaced now.
//!
//! ```text
//!  maxUnavailable 1   old pod deleted ─► manage() makes the new one ─► available ─► next node
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

/// How many pods may be missing, or too many, at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RolloutLimits {
    pub(super) unavailable: usize,
    pub(super) surge: usize,
}

/// What may be done now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RolloutStep<'a> {
    /// Old pods that may go.
    pub(super) pods: Vec<&'a Pod>,
    /// Nodes that may have a new pod beside the old.
    pub(super) nodes: Vec<&'a str>,
}

impl RolloutLimits {
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
            unavailable = 1; // or nothing would ever move
        }
        Self { unavailable, surge }
    }

    /// Whether a node may have two pods at all.
    pub(super) fn surges(set: &DaemonSet) -> bool {
        Self::of(set, 1).surge > 0
    }
}

pub(super) fn is_available(pod: &Pod, scene: &PlanInput<'_>) -> bool {
    pod.is_available(scene.set.spec().min_ready_seconds(), scene.now)
}

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

/// The pods of a node, of which there may be one of each.
#[derive(Clone, Copy, Debug, Default)]
struct OldAndNewPod<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

impl<'a> OldAndNewPod<'a> {
    /// `None`: there are too many.
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

/// Deletes old pods: those that are not available, and as many others as may be missing.
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

/// Makes new pods beside old ones, and deletes old ones that a new one stands in for. On
/// nodes that the set has left, an old pod goes when there are enough elsewhere.
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
