//! The taints and labels that follow from a node's conditions.

use api::core::{Node, Taint};
use object::{List, Time};

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, its status, and the NoSchedule taint that it leads to.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// Labels and the deprecated names under which they are copied.
const OLD_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Whether a node may get a NoExecute taint, which evicts its pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EvictionPermission {
    Now,
    /// Not now; a node that has the taint keeps it.
    Later,
    /// No node in any zone is ready. The control plane has probably lost its own network, so no pod
    /// is evicted.
    Never,
}

/// The NoExecute taint that matches the node's Ready condition.
pub(super) fn no_execute_taint(node: &Node) -> Option<&'static str> {
    match node.condition("Ready")?.status() {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

/// Whether the node has a NoExecute taint of this controller.
pub(super) fn is_evicting(node: &Node) -> bool {
    node.spec().taints().iter().any(|taint| {
        taint.effect() == "NoExecute" && matches!(taint.key(), NOT_READY | UNREACHABLE)
    })
}

/// The node with the taints and labels that it should have; `None` if it has them.
pub(super) fn with_expected_taints(
    node: &Node,
    evict: EvictionPermission,
    now: i64,
) -> Option<Node> {
    let mut new = node.clone();
    let wanted = wanted(node, evict);
    let old = node.spec().taints();
    if old.iter().filter(|taint| is_ours(taint)).count() != wanted.len()
        || wanted.iter().any(|wanted| !old.iter().any(|taint| is(taint, *wanted)))
    {
        new.spec_mut().set_taints(merged(old, &wanted, now));
    }
    for (name, old_name) in OLD_LABELS {
        let labels = node.metadata().labels();
        if let Some(value) = labels.get(name).filter(|value| labels.get(old_name) != Some(*value)) {
            new.metadata_mut().labels_mut().insert(old_name, value);
        }
    }
    (new != *node).then_some(new)
}

/// Key and effect of a taint.
type Wanted = (&'static str, &'static str);

fn wanted(node: &Node, evict: EvictionPermission) -> Vec<Wanted> {
    let holds = |(name, status, _): &&(&str, &str, &str)| {
        node.condition(name).is_some_and(|condition| condition.status() == *status)
    };
    let conditions = BY_CONDITION.iter().filter(holds).map(|(_, _, key)| *key);
    let cordoned = node.spec().unschedulable().then_some(UNSCHEDULABLE);
    let mut wanted: Vec<_> = conditions.chain(cordoned).map(|key| (key, "NoSchedule")).collect();
    let evict =
        evict == EvictionPermission::Now || evict == EvictionPermission::Later && is_evicting(node);
    wanted.extend(no_execute_taint(node).filter(|_| evict).map(|key| (key, "NoExecute")));
    wanted
}

/// The taints with ours replaced by the wanted ones; taints that stay keep their `timeAdded`.
fn merged(old: &List<Taint>, wanted: &[Wanted], now: i64) -> List<Taint> {
    let stays = |taint: &&Taint| !is_ours(taint) || wanted.iter().any(|wanted| is(taint, *wanted));
    let missing = wanted.iter().filter(|wanted| !old.iter().any(|taint| is(taint, **wanted)));
    let new = missing.map(|(key, effect)| {
        Taint::new().with_key(*key).with_effect(*effect).with_time_added(Time::format(now))
    });
    old.iter().filter(stays).cloned().chain(new).collect()
}

fn is_ours(taint: &Taint) -> bool {
    let key = taint.key();
    match taint.effect() {
        "NoSchedule" => {
            key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, known)| *known == key)
        }
        "NoExecute" => matches!(key, NOT_READY | UNREACHABLE),
        _ => false,
    }
}

fn is(taint: &Taint, (key, effect): Wanted) -> bool {
    taint.key() == key && taint.effect() == effect
}

#[cfg(test)]
mod tests {
    use api::core::{NodeCondition, NodeSpec, NodeStatus};
    use object::ObjectMeta;

    use super::*;

    type Pair = (&'static str, &'static str);
    /// Conditions, eviction permission, taints before and after.
    type Case<'a> = (&'a [Pair], EvictionPermission, &'a [Pair], &'a [&'a str]);

    fn node(conditions: &[Pair], taints: &[Pair]) -> Node {
        let condition = |(name, status): &(&str, &str)| {
            NodeCondition::new().with_type(*name).with_status(*status)
        };
        let taint = |(key, effect): &(&str, &str)| Taint::new().with_key(*key).with_effect(*effect);
        let conditions: List<NodeCondition> = conditions.iter().map(condition).collect();
        let taints: List<Taint> = taints.iter().map(taint).collect();
        Node::new()
            .with_spec(NodeSpec::new().with_taints(taints))
            .with_status(NodeStatus::new().with_conditions(conditions))
    }

    fn keys(node: &Node) -> Vec<String> {
        let short = |taint: &Taint| {
            let key = taint.key().rsplit('/').next().unwrap_or_default();
            format!("{key}:{}", taint.effect())
        };
        node.spec().taints().iter().map(short).collect()
    }

    #[test]
    fn taints_follow_conditions() {
        let (not_ready, unreachable) = ((NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute"));
        let cases: [Case; 7] = [
            (
                &[("Ready", "False")],
                EvictionPermission::Now,
                &[],
                &["not-ready:NoSchedule", "not-ready:NoExecute"],
            ),
            (&[("Ready", "Unknown")], EvictionPermission::Later, &[], &["unreachable:NoSchedule"]),
            (
                &[("Ready", "Unknown")],
                EvictionPermission::Later,
                &[not_ready],
                &["unreachable:NoSchedule", "unreachable:NoExecute"],
            ),
            (
                &[("Ready", "Unknown")],
                EvictionPermission::Never,
                &[unreachable],
                &["unreachable:NoSchedule"],
            ),
            (
                &[("Ready", "True")],
                EvictionPermission::Now,
                &[unreachable, ("x", "NoExecute")],
                &["x:NoExecute"],
            ),
            (
                &[("Ready", "True"), ("DiskPressure", "True")],
                EvictionPermission::Now,
                &[],
                &["disk-pressure:NoSchedule"],
            ),
            (
                &[("NetworkUnavailable", "True")],
                EvictionPermission::Now,
                &[(UNSCHEDULABLE, "NoSchedule")],
                &["network-unavailable:NoSchedule"],
            ),
        ];
        for (conditions, evict, taints, expected) in cases {
            let aligned = with_expected_taints(&node(conditions, taints), evict, 100).unwrap();
            assert_eq!(keys(&aligned), expected, "{conditions:?} {evict:?}");
            assert_eq!(
                super::with_expected_taints(&aligned, evict, 200),
                None,
                "{conditions:?}: once"
            );
        }
    }

    #[test]
    fn cordoned_nodes_take_no_pods() {
        let mut cordoned = node(&[("Ready", "True")], &[]);
        assert_eq!(with_expected_taints(&cordoned, EvictionPermission::Now, 100), None);
        cordoned.spec_mut().set_unschedulable(true);
        let tainted = with_expected_taints(&cordoned, EvictionPermission::Now, 100).unwrap();
        assert_eq!(keys(&tainted), ["unschedulable:NoSchedule"]);
        let taint = tainted.spec().taints().iter().next().unwrap();
        assert_eq!(taint.time_added(), Some(&*Time::format(100)));
    }

    #[test]
    fn old_names_of_labels_follow_the_new() {
        let labels = [("kubernetes.io/os", "linux"), ("beta.kubernetes.io/arch", "arm64")];
        let mut meta = ObjectMeta::new();
        for (name, value) in labels {
            meta.labels_mut().insert(name, value);
        }
        let aligned =
            with_expected_taints(&Node::new().with_metadata(meta), EvictionPermission::Now, 0)
                .unwrap();
        let labels = aligned.metadata().labels();
        assert_eq!(labels.get("beta.kubernetes.io/os"), Some("linux"));
        assert_eq!(labels.get("beta.kubernetes.io/arch"), Some("arm64"));
    }
}
