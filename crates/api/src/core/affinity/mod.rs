//! core/v1: affinity.

mod matching;
mod rules;

use macros::api;
use object::{LabelSelector, List};

pub(crate) use self::rules::{check_label_keys, warn_term};

#[api]
pub struct Affinity {
    #[api(tag = 1)]
    node_affinity: Option<NodeAffinity>,
    #[api(tag = 2)]
    pod_affinity: Option<PodAffinity>,
    #[api(tag = 3)]
    pod_anti_affinity: Option<PodAntiAffinity>,
}

#[api]
pub struct PodAffinity {
    #[api(tag = 1)]
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    #[api(tag = 2)]
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct WeightedPodAffinityTerm {
    #[api(tag = 1, required, always)]
    weight: i32,
    #[api(tag = 2, required, always)]
    pod_affinity_term: PodAffinityTerm,
}

#[api]
pub struct PodAffinityTerm {
    #[api(tag = 1)]
    label_selector: Option<LabelSelector>,
    #[api(tag = 2)]
    namespaces: List<String>,
    #[api(tag = 3, required, always)]
    topology_key: String,
    #[api(tag = 4)]
    namespace_selector: Option<LabelSelector>,
    #[api(tag = 5)]
    match_label_keys: List<String>,
    #[api(tag = 6)]
    mismatch_label_keys: List<String>,
}

#[api]
pub struct PodAntiAffinity {
    #[api(tag = 1)]
    required_during_scheduling_ignored_during_execution: List<PodAffinityTerm>,
    #[api(tag = 2)]
    preferred_during_scheduling_ignored_during_execution: List<WeightedPodAffinityTerm>,
}

#[api]
pub struct NodeAffinity {
    #[api(tag = 1)]
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    #[api(tag = 2)]
    preferred_during_scheduling_ignored_during_execution: List<PreferredSchedulingTerm>,
}

#[api(atomic)]
pub struct NodeSelector {
    #[api(tag = 1, required, always)]
    node_selector_terms: List<NodeSelectorTerm>,
}

#[api(atomic)]
pub struct NodeSelectorTerm {
    #[api(tag = 1)]
    match_expressions: List<NodeSelectorRequirement>,
    #[api(tag = 2)]
    match_fields: List<NodeSelectorRequirement>,
}

#[api]
pub struct NodeSelectorRequirement {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2, required, always, go = "v1.NodeSelectorOperator")]
    operator: String,
    #[api(tag = 3)]
    values: List<String>,
}

#[api]
pub struct PreferredSchedulingTerm {
    #[api(tag = 1, required, always)]
    weight: i32,
    #[api(tag = 2, required, always)]
    preference: NodeSelectorTerm,
}
