//! Decides which nodes a DaemonSet's pods run on, and builds the pod for a node.

use api::{
    apps::DaemonSet,
    core::{
        Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
        PodTemplateSpec, Toleration, untolerated,
    },
};
use object::List;

use crate::{history, template};

const GENERATION: &str = "pod-template-generation";
const GENERATION_NOTE: &str = "deprecated.daemonset.template.generation";

/// Taints that every daemon pod tolerates.
const DEFAULT_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Placement rules of one set.
#[derive(Debug)]
pub(super) struct DaemonPlacement<'a> {
    set: &'a DaemonSet,
    tolerations: List<Toleration>,
}

/// Whether a set's pods belong on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    /// A new pod may start on the node.
    pub(super) should_run: bool,
    /// A pod that runs on the node may stay.
    pub(super) should_continue_running: bool,
}

impl<'a> DaemonPlacement<'a> {
    /// Reads the placement rules of a set.
    pub(super) fn of(set: &'a DaemonSet) -> Self {
        Self { set, tolerations: tolerations(set.spec().template()) }
    }

    /// Whether new pods may start on a node, and whether running ones may stay.
    pub(super) fn fit(&self, node: &Node) -> Fit {
        let spec = self.set.spec().template().spec();
        let named = spec.node_name().is_empty() || spec.node_name() == node.metadata().name();
        if !named || !spec.fits_node(node) {
            return Fit { should_run: false, should_continue_running: false };
        }
        let bars = |effects: &[&str]| {
            untolerated(node.spec().taints(), &self.tolerations, effects).is_some()
        };
        Fit {
            should_run: !bars(&["NoExecute", "NoSchedule"]),
            should_continue_running: !bars(&["NoExecute"]),
        }
    }

    /// Builds the pod for one node. Node affinity pins it to the node; the scheduler binds it.
    pub(super) fn pod(&self, node: &str, hash: &str) -> Pod {
        let mut template = self.set.spec().template().clone();
        let labels = template.metadata_mut().labels_mut();
        labels.insert(history::HASH, hash);
        if let Some(generation) = generation(self.set) {
            labels.insert(GENERATION, generation.to_string());
        }
        let spec = template.spec_mut();
        spec.set_tolerations(self.tolerations.clone());
        let mut affinity = spec.affinity().cloned().unwrap_or_else(Affinity::new);
        pin_to_node(&mut affinity, node);
        spec.set_affinity(affinity);
        template::new_pod(self.set, &template)
    }
}

/// Whether a pod has the current template, by its hash or by the deprecated template generation.
pub(super) fn is_current(pod: &Pod, set: &DaemonSet, hash: &str) -> bool {
    let labels = pod.metadata().labels();
    let numbered = generation(set).is_some_and(|n| labels.get(GENERATION) == Some(&n.to_string()));
    numbered || labels.get(history::HASH) == Some(hash)
}

/// The node that a pod runs on, or that its node affinity pins it to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    if pod.is_scheduled() {
        return Some(pod.spec().node_name());
    }
    let affinity = pod.spec().affinity()?.node_affinity()?;
    let required = affinity.required_during_scheduling_ignored_during_execution()?;
    let mut demands =
        required.node_selector_terms().iter().flat_map(|term| term.match_fields().iter());
    let named = demands.find(|one| one.key() == "metadata.name" && one.operator() == "In")?;
    named.values().iter().next().filter(|_| named.values().len() == 1)
}

fn generation(set: &DaemonSet) -> Option<i64> {
    set.metadata().annotations().get(GENERATION_NOTE)?.parse().ok()
}

fn pin_to_node(affinity: &mut Affinity, node: &str) {
    let by_name = NodeSelectorRequirement::new()
        .with_key("metadata.name")
        .with_operator("In")
        .with_values([node]);
    let only = NodeSelector::new()
        .with_node_selector_terms([NodeSelectorTerm::new().with_match_fields([by_name])]);
    let mut on = affinity.node_affinity().cloned().unwrap_or_else(NodeAffinity::new);
    on.set_required_during_scheduling_ignored_during_execution(only);
    affinity.set_node_affinity(on);
}

fn tolerations(template: &PodTemplateSpec) -> List<Toleration> {
    let mut all = template.spec().tolerations().clone();
    let network = template.spec().host_network().then_some(NO_NETWORK);
    for (key, effect) in DEFAULT_TOLERATIONS.into_iter().chain(network) {
        let one = Toleration::new().with_key(key).with_operator("Exists").with_effect(effect);
        let same = |other: &Toleration| {
            (other.key(), other.effect(), other.operator(), other.value())
                == (key, effect, "Exists", "")
        };
        all.upsert(one, same);
    }
    all
}

#[cfg(test)]
mod tests {
    use api::core::{NodeSpec, Taint};
    use object::ObjectMeta;

    use super::*;

    fn node(name: &str, taints: &[(&str, &str)]) -> Node {
        let taint = |(key, effect): &(&str, &str)| Taint::new().with_key(*key).with_effect(*effect);
        let meta = ObjectMeta::new().with_name(name).with_labels([("disk", "ssd")]);
        let taints: List<Taint> = taints.iter().map(taint).collect();
        Node::new().with_metadata(meta).with_spec(NodeSpec::new().with_taints(taints))
    }

    #[test]
    fn taints_bar_and_drive_away() {
        let mut set = DaemonSet::new();
        let fit = |set: &DaemonSet, taints: &[(&str, &str)]| {
            let fit = DaemonPlacement::of(set).fit(&node("a", taints));
            (fit.should_run, fit.should_continue_running)
        };
        assert_eq!(fit(&set, &[]), (true, true));
        assert_eq!(fit(&set, &DEFAULT_TOLERATIONS), (true, true), "daemons stand these");
        assert_eq!(fit(&set, &[NO_NETWORK]), (false, true));
        assert_eq!(fit(&set, &[("own", "NoExecute")]), (false, false));
        set.spec_mut().template_mut().spec_mut().set_host_network(true);
        assert_eq!(fit(&set, &[NO_NETWORK]), (true, true), "it needs no pod network");
        set.spec_mut().template_mut().spec_mut().set_node_selector([("disk", "hdd")]);
        assert_eq!(fit(&set, &[]), (false, false));
    }

    #[test]
    fn a_pod_is_pinned_to_its_node() {
        let mut set = DaemonSet::new();
        set.metadata_mut().set_name("ds");
        set.metadata_mut().set_annotations([(GENERATION_NOTE, "7")]);
        let pod = DaemonPlacement::of(&set).pod("n1", "abc");
        assert_eq!(target(&pod), Some("n1"));
        assert_eq!(pod.metadata().labels().get(history::HASH), Some("abc"));
        assert!(is_current(&pod, &set, "abc") && is_current(&pod, &set, "other"), "by number");
        set.metadata_mut().set_annotations([(GENERATION_NOTE, "8")]);
        assert!(is_current(&pod, &set, "abc") && !is_current(&pod, &set, "other"));
        assert_eq!(pod.spec().tolerations().len(), DEFAULT_TOLERATIONS.len());
    }
}
