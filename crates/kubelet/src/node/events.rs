//! Events about the node itself, with upstream's reasons and messages.

use std::collections::BTreeMap;

use api::core::Node;
use object::{Lens, Value};
use runtime::EventType;

use super::text;
use crate::KubeletContext;

/// Event reasons by condition: when it becomes true, and when it becomes false.
const CONDITIONS: [(&str, &str, &str); 4] = [
    ("MemoryPressure", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    ("DiskPressure", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    ("PIDPressure", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
    ("Ready", "NodeReady", "NodeNotReady"),
];

/// The node state that events have been recorded for.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Last recorded status, by condition type.
    conditions: BTreeMap<&'static str, String>,
    unschedulable: bool,
    rebooted: bool,
}

impl Recorded {
    /// No pressure condition is known yet, so the first status after each start records an event. A new node counts as
    /// not ready before.
    pub(super) fn new() -> Self {
        Self { conditions: BTreeMap::new(), unschedulable: false, rebooted: false }
    }

    /// The reasons of the events to record for a status that replaced the one in `before`.
    fn changes(&mut self, before: Option<&Node>, status: &Value) -> Vec<&'static str> {
        let known = before.map_or(&object::NULL, |node| &node.tree()["status"]);
        let was_ready = match text(&find(known, "Ready")["status"]) {
            "" => "False",
            status => status,
        };
        self.conditions.insert("Ready", was_ready.to_owned());
        let mut reasons = Vec::new();
        for (kind, on, off) in CONDITIONS {
            let now = text(&find(status, kind)["status"]).to_owned();
            let last = self.conditions.insert(kind, now.clone());
            if last.as_ref() != Some(&now) {
                reasons.push(if now == "True" { on } else { off });
            }
        }
        reasons
    }

    /// The reason of the event for `kubectl cordon` or `uncordon`; `None` if nothing changed.
    fn schedulable(&mut self, node: &Node) -> Option<&'static str> {
        let unschedulable = node.spec().unschedulable();
        if std::mem::replace(&mut self.unschedulable, unschedulable) == unschedulable {
            return None;
        }
        Some(if unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" })
    }

    /// Whether the host has rebooted since the last status in the API (its boot id differs); returns true once only.
    fn rebooted(&mut self, before: Option<&Node>, status: &Value) -> bool {
        let known = before.map_or("", |node| text(&node.tree()["status"]["nodeInfo"]["bootID"]));
        let now = text(&status["nodeInfo"]["bootID"]);
        let rebooted = !self.rebooted && !known.is_empty() && known != now;
        self.rebooted |= rebooted;
        rebooted
    }

    /// Records events for the changes of a written status. `before` is the previous Node; `None` if it was just
    /// created.
    pub(super) fn record_status(
        &mut self,
        host: &KubeletContext,
        before: Option<&Node>,
        status: &Value,
    ) {
        if self.rebooted(before, status) {
            let name = &host.config.node_name;
            let boot = text(&status["nodeInfo"]["bootID"]);
            let message = format!("Node {name} has been rebooted, boot id: {boot}");
            host.record_node_event(EventType::Warning, "Rebooted", message);
        }
        for reason in self.changes(before, status) {
            record(host, reason);
        }
    }

    /// Records an event if the node was cordoned or uncordoned.
    pub(super) fn record_schedulable(&mut self, host: &KubeletContext) {
        if let Some(reason) = host.node().and_then(|node| self.schedulable(&node)) {
            record(host, reason);
        }
    }
}

fn record(host: &KubeletContext, reason: &str) {
    let message = format!("Node {} status is now: {reason}", host.config.node_name);
    host.record_node_event(EventType::Normal, reason, message);
}

fn find<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].items().iter();
    conditions.into_iter().find(|one| text(&one["type"]) == kind).unwrap_or(&object::NULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(memory: &str, ready: &str, boot: &str) -> Value {
        let text = format!(
            "{{nodeInfo: {{bootID: {boot}}}, conditions: [{{type: MemoryPressure, status: '{memory}'}},
              {{type: DiskPressure, status: 'False'}}, {{type: PIDPressure, status: 'False'}},
              {{type: Ready, status: '{ready}'}}]}}"
        );
        object::yaml::from_yaml(&text).unwrap()
    }

    fn node(status: &Value) -> Node {
        let mut tree = Value::object();
        tree["status"] = status.clone();
        Node::from(tree)
    }

    const FIRST: [&str; 3] =
        ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];

    #[test]
    fn a_new_node_tells_all_and_later_only_what_changes() {
        let mut recorded = Recorded::new();
        let (unwell, well) = (status("False", "False", "b"), status("False", "True", "b"));
        assert_eq!(recorded.changes(None, &unwell), FIRST);
        assert_eq!(recorded.changes(Some(&node(&unwell)), &well), ["NodeReady"]);
        assert!(recorded.changes(Some(&node(&well)), &well).is_empty());
        let short = status("True", "True", "b");
        assert_eq!(recorded.changes(Some(&node(&well)), &short), ["NodeHasInsufficientMemory"]);
        let both = ["NodeHasSufficientMemory", "NodeNotReady"];
        assert_eq!(recorded.changes(Some(&node(&short)), &unwell), both);
    }

    #[test]
    fn after_a_restart_a_node_that_was_ready_does_not_become_so() {
        let well = status("False", "True", "b");
        assert_eq!(Recorded::new().changes(Some(&node(&well)), &well), FIRST);
        let all = [&FIRST[..], &["NodeReady"]].concat();
        assert_eq!(Recorded::new().changes(None, &well), all, "one that is ready at once");
        let lost = status("Unknown", "Unknown", "b");
        assert_eq!(Recorded::new().changes(Some(&node(&lost)), &well), all);
    }

    #[test]
    fn cordons_and_reboots_are_told_once() {
        let mut recorded = Recorded::new();
        let mut cordoned = node(&status("False", "True", "old"));
        assert_eq!(recorded.schedulable(&cordoned), None);
        cordoned.spec_mut().set_unschedulable(true);
        let seen = [1, 2].map(|_| recorded.schedulable(&cordoned));
        assert_eq!(seen, [Some("NodeNotSchedulable"), None]);
        assert_eq!(recorded.schedulable(&Node::new()), Some("NodeSchedulable"));

        let now = status("False", "True", "new");
        assert!(!recorded.rebooted(None, &now));
        assert!(!recorded.rebooted(Some(&node(&now)), &now));
        let seen = [1, 2].map(|_| recorded.rebooted(Some(&cordoned), &now));
        assert_eq!(seen, [true, false]);
    }
}
