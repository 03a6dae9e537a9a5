//! Node heartbeats: the Ready condition and the lease. A heartbeat is any change of one of them.
//! The timestamps in them come from the node, whose clock may be wrong, so what counts is when the
//! change was observed here, by a clock that does not jump when the time of day is set.

use api::{
    coordination::Lease,
    core::{Node, NodeCondition},
};
use object::{Clock, SteadyClock, Text, Time};

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
    renewal: Option<Renewal>,
    /// When the heartbeat was observed, by the steady clock.
    at: i64,
}

/// A renewal of the lease: the order is that of the writes, because a node's clock may be set back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Renewal {
    revision: u64,
    time: Text,
}

/// The time of an observation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By the steady clock.
    pub(super) steady: i64,
    /// The time of day, which may jump.
    pub(super) wall: i64,
}

impl Now {
    pub(super) fn of(steady: SteadyClock, wall: &dyn Clock) -> Self {
        Self { steady: steady.now(), wall: wall.now() }
    }
}

impl NodeHealth {
    /// Updates the last heartbeat from the node and its lease.
    pub(super) fn observe(
        before: Option<&Self>,
        node: &Node,
        lease: Option<&Lease>,
        now: Now,
    ) -> Self {
        let uid = Text::from(node.metadata().uid());
        let heartbeat = node.condition("Ready").map(|ready| ready.last_heartbeat_time().into());
        let known = before.filter(|before| before.uid == uid);
        // A lease that is missing or older than the known one is ignored.
        let renewal = lease.and_then(Renewal::of);
        let renewal = renewal.max(known.and_then(|known| known.renewal.clone()));
        let time = |renewal: &Option<Renewal>| renewal.as_ref().map(|renewal| renewal.time.clone());
        let at = match known {
            Some(known)
                if known.heartbeat == heartbeat && time(&known.renewal) == time(&renewal) =>
            {
                known.at
            }
            None if heartbeat.is_none() && renewal.is_none() => {
                now.steady.saturating_sub(age(node, now.wall))
            }
            _ => now.steady,
        };
        Self { uid, heartbeat, renewal, at }
    }

    /// The seconds until the node's status becomes Unknown; it does if they are not positive. `now`
    /// is by the steady clock.
    pub(super) fn remaining_grace(&self, grace: i64, now: i64) -> i64 {
        let grace = if self.heartbeat.is_some() { grace } else { grace.max(STARTUP_GRACE) };
        self.at.saturating_add(grace).saturating_add(1).saturating_sub(now)
    }
}

impl Renewal {
    fn of(lease: &Lease) -> Option<Self> {
        let revision = lease.metadata().resource_version().parse().unwrap_or_default();
        Some(Self { revision, time: lease.spec().renew_time()?.into() })
    }
}

/// The seconds since the node was created; none if that is in the future.
fn age(node: &Node, now: i64) -> i64 {
    let created = Time::parse_seconds(node.metadata().creation_timestamp()).unwrap_or(now);
    now.saturating_sub(created).max(0)
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

    fn lease(revision: u64, renewed: i64) -> Lease {
        let spec = LeaseSpec::new().with_renew_time(MicroTime::format(renewed * 1_000_000));
        let meta = ObjectMeta::new().with_resource_version(revision.to_string());
        Lease::new().with_metadata(meta).with_spec(spec)
    }

    /// An observation at this time of the steady clock; the time of day is another.
    fn at(steady: i64) -> Now {
        Now { steady, wall: 5_000_000 - steady }
    }

    #[test]
    fn any_change_is_a_sign_of_life() {
        let known = NodeHealth::observe(None, &node(Some(5)), Some(&lease(5, 5)), at(1_000));
        assert_eq!(known.remaining_grace(40, 1_000), 41, "first seen now, whatever its clock says");
        let cases = [
            (node(Some(5)), Some(lease(5, 5)), 1),
            (node(Some(6)), Some(lease(5, 5)), 41),
            (node(Some(5)), Some(lease(6, 6)), 41),
            (node(Some(5)), Some(lease(6, 5)), 1), // written, and not renewed
            (node(Some(5)), Some(lease(6, -3_600)), 41), // the node's clock was set back
            (node(Some(5)), Some(lease(4, 4)), 1),
            (node(Some(5)), None, 1),
        ];
        for (case, (node, lease, left)) in cases.into_iter().enumerate() {
            let sign = NodeHealth::observe(Some(&known), &node, lease.as_ref(), at(1_040));
            assert_eq!(sign.remaining_grace(40, 1_040), left, "case {case}");
        }
        let mut other = node(Some(5));
        other.metadata_mut().set_uid("2");
        assert_eq!(
            NodeHealth::observe(Some(&known), &other, None, at(1_040)).remaining_grace(40, 1_040),
            41
        );
    }

    #[test]
    fn a_node_that_never_reported_has_longer() {
        let now = Now { steady: 7, wall: 120 };
        let sign = NodeHealth::observe(None, &node(None), None, now);
        assert_eq!(sign.remaining_grace(40, 7), 41, "60 seconds from its creation");
        let early = Now { steady: 7, wall: -1_000_000 };
        let sign = NodeHealth::observe(None, &node(None), None, early);
        assert_eq!(sign.remaining_grace(40, 7), 61, "the clock was set back since its creation");
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
