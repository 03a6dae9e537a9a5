//! Node heartbeats: the Ready condition and the lease. A heartbeat is any change of one of them.
//! The timestamps in them come from the node, whose clock may be wrong, so what counts is when the
//! change was observed here.

use api::{
    coordination::Lease,
    core::{Node, NodeCondition},
};
use object::{Text, Time};

use crate::conditions::Conditions;

/// Grace period for the first heartbeat of a new node, in seconds.
const STARTUP_GRACE: i64 = 60;

/// Conditions that the kubelet reports; `NetworkUnavailable` is set by others.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The last heartbeat of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeHealth {
    /// Uid of the node; a new node of the same name starts over.
    pub(super) uid: Text,
    heartbeat: Option<Text>,
    renewed: Option<Text>,
    /// When the heartbeat was observed.
    at: i64,
}

impl NodeHealth {
    /// Updates the last heartbeat from the node and its lease.
    pub(super) fn observe(
        before: Option<&Self>,
        node: &Node,
        lease: Option<&Lease>,
        now: i64,
    ) -> Self {
        let uid = Text::from(node.metadata().uid());
        let heartbeat = node.condition("Ready").map(|ready| ready.last_heartbeat_time().into());
        let renewed = lease.and_then(|lease| lease.spec().renew_time()).map(Text::from);
        let known = before.filter(|before| before.uid == uid);
        // A lease that is missing or older than the known one is ignored.
        let renewed = renewed.max(known.and_then(|known| known.renewed.clone()));
        let at = match known {
            Some(known) if known.heartbeat == heartbeat && known.renewed == renewed => known.at,
            None if heartbeat.is_none() && renewed.is_none() => {
                Time::parse_seconds(node.metadata().creation_timestamp()).unwrap_or(now)
            }
            _ => now,
        };
        Self { uid, heartbeat, renewed, at }
    }

    /// The seconds until the node's status becomes Unknown; it does if they are not positive.
    pub(super) fn remaining_grace(&self, grace: i64, now: i64) -> i64 {
        let grace = if self.heartbeat.is_some() { grace } else { grace.max(STARTUP_GRACE) };
        self.at.saturating_add(grace).saturating_add(1).saturating_sub(now)
    }
}

/// The node with all reported conditions set to Unknown; `None` if they are.
pub(super) fn with_unknown_conditions(node: &Node, now: i64) -> Option<Node> {
    let mut lost = node.clone();
    for name in REPORTED {
        let condition = match node.condition(name) {
            Some(known) if known.status() == "Unknown" => continue,
            Some(known) => known
                .clone()
                .with_reason("NodeStatusUnknown")
                .with_message("Kubelet stopped posting node status."),
            None => NodeCondition::new()
                .with_type(name)
                .with_last_heartbeat_time(node.metadata().creation_timestamp())
                .with_reason("NodeStatusNeverUpdated")
                .with_message("Kubelet never posted node status."),
        };
        lost.status_mut().conditions_mut().set_condition(condition.with_status("Unknown"), now);
    }
    (lost != *node).then_some(lost)
}

#[cfg(test)]
mod tests {
    use api::{coordination::LeaseSpec, core::NodeStatus};
    use object::{MicroTime, ObjectMeta};

    use super::*;

    fn node(heartbeat: Option<i64>) -> Node {
        let meta = ObjectMeta::new().with_uid("1").with_creation_timestamp(Time::format(100));
        let ready = heartbeat.map(|at| {
            NodeCondition::new()
                .with_type("Ready")
                .with_status("True")
                .with_reason("KubeletReady")
                .with_last_heartbeat_time(Time::format(at))
        });
        let status =
            NodeStatus::new().with_conditions(ready.into_iter().collect::<object::List<_>>());
        Node::new().with_metadata(meta).with_status(status)
    }

    fn lease(renewed: i64) -> Lease {
        let spec = LeaseSpec::new().with_renew_time(MicroTime::format(renewed * 1_000_000));
        Lease::new().with_spec(spec)
    }

    #[test]
    fn any_change_is_a_sign_of_life() {
        let known = NodeHealth::observe(None, &node(Some(5)), Some(&lease(5)), 1_000);
        assert_eq!(known.remaining_grace(40, 1_000), 41, "first seen now, whatever its clock says");
        let cases = [
            (node(Some(5)), Some(lease(5)), 1),
            (node(Some(6)), Some(lease(5)), 41),
            (node(Some(5)), Some(lease(6)), 41),
            (node(Some(5)), Some(lease(4)), 1),
            (node(Some(5)), None, 1),
        ];
        for (case, (node, lease, left)) in cases.into_iter().enumerate() {
            let sign = NodeHealth::observe(Some(&known), &node, lease.as_ref(), 1_040);
            assert_eq!(sign.remaining_grace(40, 1_040), left, "case {case}");
        }
        let mut other = node(Some(5));
        other.metadata_mut().set_uid("2");
        assert_eq!(
            NodeHealth::observe(Some(&known), &other, None, 1_040).remaining_grace(40, 1_040),
            41
        );
    }

    #[test]
    fn a_node_that_never_reported_has_longer() {
        let sign = NodeHealth::observe(None, &node(None), None, 120);
        assert_eq!(sign.remaining_grace(40, 120), 41, "60 seconds from its creation");
    }

    #[test]
    fn lost_nodes_know_nothing() {
        let lost = with_unknown_conditions(&node(Some(5)), 200).unwrap();
        let all: Vec<_> =
            lost.status().conditions().iter().map(|c| (c.type_(), c.reason())).collect();
        assert_eq!(
            all,
            [
                ("Ready", "NodeStatusUnknown"),
                ("MemoryPressure", "NodeStatusNeverUpdated"),
                ("DiskPressure", "NodeStatusNeverUpdated"),
                ("PIDPressure", "NodeStatusNeverUpdated"),
            ]
        );
        let ready = lost.condition("Ready").unwrap();
        assert_eq!(ready.status(), "Unknown");
        assert_eq!(ready.last_heartbeat_time(), Time::format(5), "not a sign of life");
        assert_eq!(with_unknown_conditions(&lost, 300), None);
    }
}
