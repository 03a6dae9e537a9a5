//! What pods say of other pods, read once: which pods they mean, and the topology in
//! which these must or must not be near.

use std::collections::HashMap;

use api::core::{Pod, PodAffinityTerm};
use object::{
    LabelSelector, Lens, List, Map, Text,
    selector::{Operator, Requirement, Selector},
};

/// The labels of every namespace, by name.
pub type Namespaces = HashMap<Text, Map<String>>;

#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub near: Vec<Term>,
    pub apart: Vec<Term>,
    /// With their weights; what is to be apart weighs less than nothing.
    pub preferred: Vec<(i64, Term)>,
}

#[derive(Clone, Debug)]
pub struct Term {
    namespaces: Vec<Text>,
    of_namespaces: Selector,
    selector: Selector,
    pub topology: Text,
}

impl Terms {
    /// `None` where the pod asks nothing of others, as most do.
    pub(crate) fn of(pod: &Pod) -> Option<Box<Self>> {
        let affinity = pod.spec().affinity()?;
        let all = |terms: &List<PodAffinityTerm>| -> Vec<Term> {
            terms.iter().map(|term| Term::new(pod, term)).collect()
        };
        let mut found = Self::default();
        if let Some(near) = affinity.pod_affinity() {
            found.near = all(near.required_during_scheduling_ignored_during_execution());
            for soft in near.preferred_during_scheduling_ignored_during_execution().iter() {
                let term = Term::new(pod, soft.pod_affinity_term());
                found.preferred.push((i64::from(soft.weight()), term));
            }
        }
        if let Some(apart) = affinity.pod_anti_affinity() {
            found.apart = all(apart.required_during_scheduling_ignored_during_execution());
            for soft in apart.preferred_during_scheduling_ignored_during_execution().iter() {
                let term = Term::new(pod, soft.pod_affinity_term());
                found.preferred.push((-i64::from(soft.weight()), term));
            }
        }
        let is_any =
            !(found.near.is_empty() && found.apart.is_empty() && found.preferred.is_empty());
        is_any.then(|| Box::new(found))
    }
}

impl Term {
    fn new(pod: &Pod, term: &PodAffinityTerm) -> Self {
        let mut namespaces: Vec<Text> = term.namespaces().iter().map(Text::from).collect();
        if namespaces.is_empty() && term.namespace_selector().is_none() {
            namespaces.push(pod.metadata().namespace().into());
        }
        let selector = selector(term.label_selector());
        let selector = with_keys(selector, pod, term.match_label_keys(), Operator::In);
        Self {
            namespaces,
            of_namespaces: self::selector(term.namespace_selector()),
            selector: with_keys(selector, pod, term.mismatch_label_keys(), Operator::NotIn),
            topology: term.topology_key().into(),
        }
    }

    /// Whether the term means this pod.
    pub(crate) fn means(&self, pod: &Pod, namespaces: &Namespaces) -> bool {
        let meta = pod.metadata();
        let named = self.namespaces.iter().any(|name| name == meta.namespace());
        let selects = || match namespaces.get(meta.namespace()) {
            Some(labels) => self.of_namespaces.matches(labels),
            None => self.of_namespaces.is_empty(),
        };
        (named || selects()) && self.selector.matches(meta.labels())
    }
}

/// An absent one selects nothing; so does one that cannot be read.
pub(crate) fn selector(given: Option<&LabelSelector>) -> Selector {
    let read = given.and_then(|given| Selector::from_tree(given.tree()).ok());
    read.unwrap_or_else(Selector::nothing)
}

/// Narrows a selector by the pod's own values of some labels; those it lacks do not count.
pub(crate) fn with_keys(
    selector: Selector,
    pod: &Pod,
    keys: &List<String>,
    operator: Operator,
) -> Selector {
    // Nothing stays nothing: only a selector that was given can be narrowed.
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
