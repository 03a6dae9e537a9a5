//! Parsed inter-pod affinity and anti-affinity terms: which pods they match, and their topology
//! key.

use std::collections::HashMap;

use api::core::{Pod, PodAffinityTerm};
use object::{
    LabelSelector, Lens, List, Map, Text,
    selector::{Operator, Requirement, Selector},
};

/// The labels of every namespace, by name.
pub type NamespaceLabels = HashMap<Text, Map<String>>;

/// The affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default)]
pub struct AffinityTerms {
    pub required_affinity: Vec<AffinityTerm>,
    pub required_anti_affinity: Vec<AffinityTerm>,
    /// Preferred terms with their weights; anti-affinity terms have negative weights.
    pub preferred: Vec<(i64, AffinityTerm)>,
}

/// A parsed `PodAffinityTerm`.
#[derive(Clone, Debug)]
pub struct AffinityTerm {
    namespaces: Vec<Text>,
    namespace_selector: Selector,
    selector: Selector,
    pub topology_key: Text,
}

impl AffinityTerms {
    /// `None` if the pod has no affinity terms, as most pods.
    pub(crate) fn of(pod: &Pod) -> Option<Box<Self>> {
        let affinity = pod.spec().affinity()?;
        let all = |terms: &List<PodAffinityTerm>| -> Vec<AffinityTerm> {
            terms.iter().map(|term| AffinityTerm::new(pod, term)).collect()
        };
        let mut found = Self::default();
        if let Some(near) = affinity.pod_affinity() {
            found.required_affinity =
                all(near.required_during_scheduling_ignored_during_execution());
            for soft in near.preferred_during_scheduling_ignored_during_execution().iter() {
                let term = AffinityTerm::new(pod, soft.pod_affinity_term());
                found.preferred.push((i64::from(soft.weight()), term));
            }
        }
        if let Some(apart) = affinity.pod_anti_affinity() {
            found.required_anti_affinity =
                all(apart.required_during_scheduling_ignored_during_execution());
            for soft in apart.preferred_during_scheduling_ignored_during_execution().iter() {
                let term = AffinityTerm::new(pod, soft.pod_affinity_term());
                found.preferred.push((-i64::from(soft.weight()), term));
            }
        }
        let is_any = !(found.required_affinity.is_empty()
            && found.required_anti_affinity.is_empty()
            && found.preferred.is_empty());
        is_any.then(|| Box::new(found))
    }
}

impl AffinityTerm {
    fn new(pod: &Pod, term: &PodAffinityTerm) -> Self {
        let mut namespaces: Vec<Text> = term.namespaces().iter().map(Text::from).collect();
        if namespaces.is_empty() && term.namespace_selector().is_none() {
            namespaces.push(pod.metadata().namespace().into());
        }
        let selector = selector(term.label_selector());
        let selector = with_match_label_keys(selector, pod, term.match_label_keys(), Operator::In);
        Self {
            namespaces,
            namespace_selector: self::selector(term.namespace_selector()),
            selector: with_match_label_keys(
                selector,
                pod,
                term.mismatch_label_keys(),
                Operator::NotIn,
            ),
            topology_key: term.topology_key().into(),
        }
    }

    /// Whether the term matches this pod.
    pub(crate) fn matches(&self, pod: &Pod, namespaces: &NamespaceLabels) -> bool {
        let meta = pod.metadata();
        let named = self.namespaces.iter().any(|name| name == meta.namespace());
        let selects = || match namespaces.get(meta.namespace()) {
            Some(labels) => self.namespace_selector.matches(labels),
            None => self.namespace_selector.is_empty(),
        };
        (named || selects()) && self.selector.matches(meta.labels())
    }
}

/// Parses a label selector. An absent or invalid one selects nothing.
pub(crate) fn selector(given: Option<&LabelSelector>) -> Selector {
    let read = given.and_then(|given| Selector::from_label_selector(given.tree()).ok());
    read.unwrap_or_else(Selector::nothing)
}

/// Adds requirements for the pod's own values of `matchLabelKeys`; keys that the pod lacks are
/// ignored.
pub(crate) fn with_match_label_keys(
    selector: Selector,
    pod: &Pod,
    keys: &List<String>,
    operator: Operator,
) -> Selector {
    // A selector that selects nothing stays so: only a given one can be narrowed.
    if keys.is_empty() || (selector.requirements().is_empty() && !selector.is_empty()) {
        return selector;
    }
    let labels = pod.metadata().labels();
    let own = keys.iter().filter_map(|key| {
        let value = labels.get(key)?;
        Some(Requirement { key: key.into(), operator, values: vec![value.into()] })
    });
    Selector::new(selector.requirements().iter().cloned().chain(own).collect())
}
