//! The rules for where a pod wants to be, or not to be.

use std::collections::{BTreeSet, HashMap};

use object::{LabelSelector, List, names};
use schema::{ErrorList, FieldPath, WarningList};

use super::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodAffinityTerm, WeightedPodAffinityTerm,
};
use crate::{advice::deprecated_node_label, rules::ValidateField};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

impl Affinity {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        at.if_present("nodeAffinity", self.node_affinity(), |affinity, at| {
            affinity.check(at, errs);
        });
        if let Some(affinity) = self.pod_affinity() {
            check_terms(
                affinity.required_during_scheduling_ignored_during_execution(),
                affinity.preferred_during_scheduling_ignored_during_execution(),
                &at.field("podAffinity"),
                errs,
            );
        }
        if let Some(affinity) = self.pod_anti_affinity() {
            check_terms(
                affinity.required_during_scheduling_ignored_during_execution(),
                affinity.preferred_during_scheduling_ignored_during_execution(),
                &at.field("podAntiAffinity"),
                errs,
            );
        }
    }
}

impl NodeAffinity {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        if let Some(selector) = self.required_during_scheduling_ignored_during_execution() {
            selector.check(&at.field(REQUIRED), errs);
        }
        let terms = self.preferred_during_scheduling_ignored_during_execution();
        at.field(PREFERRED).for_each_item(terms.iter(), |term, at| {
            check_weight(term.weight(), at, errs);
            term.preference().check(true, &at.field("preference"), errs);
        });
    }
}

impl NodeSelector {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at = at.field("nodeSelectorTerms");
        if self.node_selector_terms().is_empty() {
            errs.required(&at, "must have at least one node selector term");
        }
        at.for_each_item(self.node_selector_terms().iter(), |term, at| term.check(false, at, errs));
    }
}

impl NodeSelectorTerm {
    /// `lenient`: values need not be those of labels.
    fn check(&self, lenient: bool, at: &FieldPath, errs: &mut ErrorList) {
        for (i, requirement) in self.match_expressions().iter().enumerate() {
            requirement.check(lenient, &at.field("matchExpressions").index(i), errs);
        }
        at.field("matchFields")
            .for_each_item(self.match_fields().iter(), |it, at| it.check_field(at, errs));
    }
}

impl NodeSelectorRequirement {
    fn check(&self, lenient: bool, at: &FieldPath, errs: &mut ErrorList) {
        let (values, at_values) = (self.values(), at.field("values"));
        match self.operator() {
            "In" | "NotIn" if values.is_empty() => {
                errs.required(&at_values, "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => errs.forbidden(
                &at_values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "Gt" | "Lt" if values.len() != 1 => errs.required(
                &at_values,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errs.invalid(&at.field("operator"), other, "not a valid selector operator"),
        }
        errs.qualified(&at.field("key"), self.key());
        if !lenient {
            at_values.for_each_item(values.iter(), |it, at| {
                errs.invalid_each(at, it, names::label_value(it));
            });
        }
    }

    fn check_field(&self, at: &FieldPath, errs: &mut ErrorList) {
        let at_values = at.field("values");
        match self.operator() {
            "In" | "NotIn" if self.values().len() != 1 => errs.required(
                &at_values,
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            other => errs.invalid(&at.field("operator"), other, "not a valid selector operator"),
        }
        if self.key() != "metadata.name" {
            return errs.invalid(&at.field("key"), self.key(), "not a valid field selector key");
        }
        at_values.for_each_item(self.values().iter(), |value, at| errs.subdomain(at, value));
    }
}

fn check_terms(
    required: &List<PodAffinityTerm>,
    preferred: &List<WeightedPodAffinityTerm>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    at.field(REQUIRED).for_each_item(required.iter(), |term, at| term.check(at, errs));
    at.field(PREFERRED).for_each_item(preferred.iter(), |term, at| {
        check_weight(term.weight(), at, errs);
        term.pod_affinity_term().check(&at.field("podAffinityTerm"), errs);
    });
}

fn check_weight(weight: i32, at: &FieldPath, errs: &mut ErrorList) {
    if !(1..=100).contains(&weight) {
        errs.invalid(&at.field("weight"), weight, "must be in the range 1-100");
    }
}

impl PodAffinityTerm {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.selector(&at.field("labelSelector"), self.label_selector());
        errs.selector(&at.field("namespaceSelector"), self.namespace_selector());
        for namespace in self.namespaces().iter() {
            errs.label(&at.field("namespace"), namespace);
        }
        check_label_keys(
            self.match_label_keys(),
            self.mismatch_label_keys(),
            self.label_selector(),
            at,
            errs,
        );
        if self.topology_key().is_empty() {
            errs.required(&at.field("topologyKey"), "can not be empty");
        }
        errs.qualified(&at.field("topologyKey"), self.topology_key());
    }
}

/// Keys whose values are taken from the pod itself.
pub(crate) fn check_label_keys(
    same: &List<String>,
    other: &List<String>,
    selector: Option<&LabelSelector>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    for (name, keys) in [("matchLabelKeys", same), ("mismatchLabelKeys", other)] {
        let at = at.field(name);
        if selector.is_none() && !keys.is_empty() {
            errs.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        at.for_each_item(keys.iter(), |key, at| errs.qualified(at, key));
    }
    if let Some(selector) = selector {
        let mut keys: BTreeSet<_> = selector.match_labels().iter().map(|(key, _)| key).collect();
        // Of equal keys the first has the place.
        let places: HashMap<_, _> =
            same.iter().enumerate().rev().map(|(i, key)| (key, i)).collect();
        for expression in selector.match_expressions().iter() {
            let key = expression.key();
            if let Some(i) = places.get(key).filter(|_| keys.contains(key)) {
                let why = "exists in both matchLabelKeys and labelSelector";
                errs.invalid(&at.index(*i), key, why);
            }
            keys.insert(key);
        }
    }
    let other = other.by_key(|key| *key);
    for (i, key) in same.iter().enumerate() {
        if other.contains_key(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            errs.invalid(&at.field("matchLabelKeys").index(i), key, why);
        }
    }
}

/// Labels of nodes that are out of use, and values that no label has.
pub(crate) fn warn_term(
    term: &NodeSelectorTerm,
    values: bool,
    at: &FieldPath,
    warnings: &mut WarningList,
) {
    for (i, expression) in term.match_expressions().iter().enumerate() {
        let at = at.field("matchExpressions");
        let (at, key) = (at.index(i), expression.key());
        if let Some(why) = deprecated_node_label(key) {
            warnings.push_at(&at.field("key"), format!("{key} is {why}"));
        }
        for (i, value) in expression.values().iter().enumerate().filter(|_| values) {
            for why in names::label_value(value) {
                let at = at.field("values");
                warnings.push_at(&at.index(i), format!("{value} is invalid, {why}"));
            }
        }
    }
}
