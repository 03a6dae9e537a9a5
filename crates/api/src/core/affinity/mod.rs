//! core/v1: affinity.

mod matching;
mod rules;

use macros::api;
use object::{LabelSelector, List};

pub(crate) use self::rules::{check_label_keys, warn_term};

#[api]
pub struct Affinity {
    /// Rules about the labels of nodes.
    node_affinity: Option<NodeAffinity>,
    /// Rules to run near other pods.
    pod_affinity: Option<PodAffinity>,
    /// Rules to run away from other pods.
    pod_anti_affinity: Option<PodAntiAffinity>,
}

#[api]
pub struct PodAffinity {
    /// Rules that a node must meet when the pod is scheduled. Later changes do not evict the pod.
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    /// Rules that the scheduler prefers to meet, each with a weight.
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct WeightedPodAffinityTerm {
    /// Weight of the rule, from 1 to 100.
    weight: Must<i32>,
    /// Pods to be near, or away from.
    pod_affinity_term: Must<PodAffinityTerm>,
}

#[api]
pub struct PodAffinityTerm {
    /// Label selector of the pods.
    label_selector: Option<LabelSelector>,
    /// Namespaces of the pods. Defaults to the namespace of this pod.
    namespaces: List<String>,
    /// Node label; nodes with the same value count as the same place.
    topology_key: Must<String>,
    /// Label selector of further namespaces of the pods.
    namespace_selector: Option<LabelSelector>,
    /// Label keys whose values of this pod are added to the selector.
    match_label_keys: List<String>,
    /// Label keys whose values of this pod are excluded by the selector.
    mismatch_label_keys: List<String>,
}

#[api]
pub struct PodAntiAffinity {
    /// Rules that a node must meet when the pod is scheduled. Later changes do not evict the pod.
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    /// Rules that the scheduler prefers to meet, each with a weight.
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct NodeAffinity {
    /// Rules that a node must meet when the pod is scheduled. Later changes do not evict the pod.
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// Rules that the scheduler prefers to meet, each with a weight.
    preferred_during_scheduling_ignored_during_execution: List<PreferredSchedulingTerm>,
}

#[api(atomic)]
pub struct NodeSelector {
    /// Terms, of which at least one must match.
    node_selector_terms: Must<List<NodeSelectorTerm>>,
}

#[api(atomic)]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels; all must hold.
    match_expressions: List<NodeSelectorRequirement>,
    /// Requirements on the node's fields; all must hold.
    match_fields: List<NodeSelectorRequirement>,
}

#[api]
pub struct NodeSelectorRequirement {
    /// Label key or field name.
    key: Must<String>,
    /// Relation of key and values: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    #[api(go_type = "v1.NodeSelectorOperator")]
    #[api(enum_values("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"))]
    operator: Must<String>,
    /// Values to compare with; empty for Exists and DoesNotExist.
    values: List<String>,
}

#[api]
pub struct PreferredSchedulingTerm {
    /// Weight of the rule, from 1 to 100.
    weight: Must<i32>,
    /// Term that a node should match.
    preference: Must<NodeSelectorTerm>,
}
