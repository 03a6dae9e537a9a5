//! core/v1: affinity.

mod matching;
mod rules;

use macros::api;
use object::{LabelSelector, List};

pub(crate) use self::rules::{check_label_keys, warn_term};

#[api]
pub struct Affinity {
    /// Which nodes the pod goes to.
    node_affinity: Option<NodeAffinity>,
    /// Which pods it goes near.
    pod_affinity: Option<PodAffinity>,
    /// Which pods it stays away from.
    pod_anti_affinity: Option<PodAntiAffinity>,
}

#[api]
pub struct PodAffinity {
    /// What must hold when the pod is scheduled.
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    /// What had better hold when the pod is scheduled.
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct WeightedPodAffinityTerm {
    /// How much it counts, from 1 to 100.
    weight: Must<i32>,
    /// Near which pods.
    pod_affinity_term: Must<PodAffinityTerm>,
}

#[api]
pub struct PodAffinityTerm {
    /// Which pods, by labels.
    label_selector: Option<LabelSelector>,
    /// In which namespaces; that of the pod when none are named.
    namespaces: List<String>,
    /// The label of nodes that says what is near.
    topology_key: Must<String>,
    /// In which namespaces, by labels.
    namespace_selector: Option<LabelSelector>,
    /// Labels that count pods only with the same value as this pod's.
    match_label_keys: List<String>,
    /// Labels that count pods only with another value than this pod's.
    mismatch_label_keys: List<String>,
}

#[api]
pub struct PodAntiAffinity {
    /// What must hold when the pod is scheduled.
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    /// What had better hold when the pod is scheduled.
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct NodeAffinity {
    /// What must hold when the pod is scheduled.
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// What had better hold when the pod is scheduled.
    preferred_during_scheduling_ignored_during_execution: List<PreferredSchedulingTerm>,
}

#[api(atomic)]
pub struct NodeSelector {
    /// The terms, one of which must fit.
    node_selector_terms: Must<List<NodeSelectorTerm>>,
}

#[api(atomic)]
pub struct NodeSelectorTerm {
    /// What must hold of the node's labels.
    match_expressions: List<NodeSelectorRequirement>,
    /// What must hold of the node's fields.
    match_fields: List<NodeSelectorRequirement>,
}

#[api]
pub struct NodeSelectorRequirement {
    /// The label or field.
    key: Must<String>,
    /// How it is compared: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    #[api(go = "v1.NodeSelectorOperator")]
    #[api(values("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"))]
    operator: Must<String>,
    /// What it is compared with.
    values: List<String>,
}

#[api]
pub struct PreferredSchedulingTerm {
    /// How much it counts, from 1 to 100.
    weight: Must<i32>,
    /// Which nodes.
    preference: Must<NodeSelectorTerm>,
}
