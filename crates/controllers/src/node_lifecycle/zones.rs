//! Limits the rate of evictions from nodes that are not ready, by zone. When a large part of a zone
//! fails at once, the network is more likely at fault than the nodes.

use std::collections::{BTreeMap, HashMap};

use api::core::Node;

use super::taints::EvictionPermission;

/// Seconds between two nodes of a zone that get a NoExecute taint.
const EVICTION_INTERVAL: i64 = 10;
/// Seconds between two nodes in a large zone of which at least 55% is not ready.
const SECONDARY_EVICTION_INTERVAL: i64 = 100;
/// Number of nodes above which a zone is large.
const LARGE_CLUSTER_THRESHOLD: usize = 50;

/// Label of nodes that do not count for the health of their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// Numbers of ready and not ready nodes of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    ready: usize,
    lost: usize,
}

/// When a node of each zone last got a NoExecute taint, by the steady clock.
pub(super) type ZoneEvictionTimes = HashMap<String, i64>;

/// Whether `node` may get a NoExecute taint now. If it may and has none (`tainted`), records the
/// time for its zone.
pub(super) fn decide(
    node: &Node,
    tainted: bool,
    all: &[Node],
    turns: &mut ZoneEvictionTimes,
    now: i64,
) -> EvictionPermission {
    let mut zones = BTreeMap::<String, Zone>::new();
    for other in all.iter().filter(|other| counts_for_zone(other)) {
        let zone = zones.entry(zone_of(other)).or_default();
        *if other.is_ready() { &mut zone.ready } else { &mut zone.lost } += 1;
    }
    if !zones.is_empty() && zones.values().all(|zone| zone.ready == 0) {
        return EvictionPermission::Never;
    }
    if tainted {
        return EvictionPermission::Later;
    }
    let name = zone_of(node);
    let Some(pause) = zones.get(&name).copied().unwrap_or_default().eviction_interval() else {
        return EvictionPermission::Later;
    };
    match turns.get(&name) {
        Some(last) if now - last < pause => EvictionPermission::Later,
        _ => {
            turns.insert(name, now);
            EvictionPermission::Now
        }
    }
}

impl Zone {
    /// The interval between evictions; `None`: no node is tainted.
    fn eviction_interval(self) -> Option<i64> {
        let Self { ready, lost } = self;
        let partly = ready > 0 && lost > 2 && lost * 100 >= (ready + lost) * 55;
        if partly {
            (ready + lost > LARGE_CLUSTER_THRESHOLD).then_some(SECONDARY_EVICTION_INTERVAL)
        } else {
            Some(EVICTION_INTERVAL)
        }
    }
}

/// Whether the node counts for the health of its zone.
pub(super) fn counts_for_zone(node: &Node) -> bool {
    node.metadata().labels().get(EXCLUDED).is_none()
}

/// The region and the zone of a node, empty where it has none.
pub(super) fn region_and_zone(node: &Node) -> (&str, &str) {
    let label = |name| node.metadata().labels().get(name).unwrap_or_default();
    (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn zone_of(node: &Node) -> String {
    let (region, zone) = region_and_zone(node);
    format!("{region}/{zone}")
}

#[cfg(test)]
mod tests {
    use api::core::{NodeCondition, NodeStatus};

    use super::*;

    fn node(zone: &str, ready: bool) -> Node {
        let status = if ready { "True" } else { "Unknown" };
        let condition = NodeCondition::new().with_type("Ready").with_status(status);
        let mut node = Node::new().with_status(NodeStatus::new().with_conditions([condition]));
        node.metadata_mut().labels_mut().insert("topology.kubernetes.io/zone", zone);
        node
    }

    #[test]
    fn the_more_are_lost_the_slower() {
        // Ready and lost nodes of zone a, ready ones of zone b.
        let cases = [
            (1, 1, 0, EvictionPermission::Now, "one of two"),
            (0, 3, 0, EvictionPermission::Never, "all there are"),
            (0, 3, 1, EvictionPermission::Now, "all of one zone"),
            (2, 3, 0, EvictionPermission::Later, "most of a small zone"),
            (20, 40, 0, EvictionPermission::Now, "most of a large zone"),
        ];
        for (ready, lost, others, expected, what) in cases {
            let mut all = vec![node("a", true); ready];
            all.extend(vec![node("a", false); lost]);
            all.extend(vec![node("b", true); others]);
            let decided =
                decide(&node("a", false), false, &all, &mut ZoneEvictionTimes::new(), 100);
            assert_eq!(decided, expected, "{what}");
        }
    }

    #[test]
    fn one_node_after_the_other() {
        let all = [node("a", true), node("a", true), node("a", false), node("b", false)];
        let mut turns = ZoneEvictionTimes::new();
        let mut decide = |at: usize, now| decide(&all[at], false, &all, &mut turns, now);
        assert_eq!(decide(2, 100), EvictionPermission::Now);
        assert_eq!(decide(2, 109), EvictionPermission::Later);
        assert_eq!(decide(3, 109), EvictionPermission::Now, "zones do not wait for each other");
        assert_eq!(decide(2, 110), EvictionPermission::Now);
    }

    #[test]
    fn large_zones_that_are_mostly_lost_take_long() {
        let mut all = vec![node("a", true); 20];
        all.extend(vec![node("a", false); 40]);
        let mut turns = ZoneEvictionTimes::from([("/a".to_owned(), 100)]);
        assert_eq!(decide(&all[20], false, &all, &mut turns, 150), EvictionPermission::Later);
        assert_eq!(decide(&all[20], false, &all, &mut turns, 200), EvictionPermission::Now);
    }
}
