//! InterPodAffinity: pod affinity and anti-affinity.

use std::collections::HashMap;

use api::core::Pod;

use crate::{
    FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot, affinity_terms::AffinityTerm,
};

/// Filters and scores by pod affinity and anti-affinity.
#[derive(Debug)]
pub(crate) struct InterPodAffinity;

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn weight(&self) -> i64 {
        2
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        all: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        if pod.affinity_terms.is_none() && all.with_terms() == 0 {
            return None;
        }
        Some(Box::new(InterPodAffinityEvaluator::new(pod, all)))
    }
}

/// Counts or weights per topology domain: by topology key and value.
type TopologyCounts<'a> = HashMap<(&'a str, &'a str), i64>;

/// The terms of the incoming and of existing pods, counted by topology domain.
struct InterPodAffinityEvaluator<'a> {
    pod: &'a PodInfo,
    all: &'a Snapshot,
    /// Existing pods that match all required affinity terms of the incoming pod.
    affinity_counts: TopologyCounts<'a>,
    /// Existing pods that match one of its required anti-affinity terms.
    anti_affinity_counts: TopologyCounts<'a>,
    /// Existing pods with a required anti-affinity term that matches the incoming pod.
    existing_anti_affinity_counts: TopologyCounts<'a>,
    /// Sums of the weights of preferred terms, of the incoming and of existing pods.
    topology_score: TopologyCounts<'a>,
}

impl<'a> InterPodAffinityEvaluator<'a> {
    fn new(pod: &'a PodInfo, all: &'a Snapshot) -> Self {
        let mut near = Self {
            pod,
            all,
            affinity_counts: TopologyCounts::new(),
            anti_affinity_counts: TopologyCounts::new(),
            existing_anti_affinity_counts: TopologyCounts::new(),
            topology_score: TopologyCounts::new(),
        };
        for node in all
            .nodes
            .iter()
            .filter(|node| pod.affinity_terms.is_some() || node.pods_with_affinity > 0)
        {
            for other in &node.pods {
                near.count_existing_pod(node, other);
            }
        }
        near
    }

    fn count_existing_pod(&mut self, node: &'a NodeInfo, other: &'a PodInfo) {
        let (pod, all) = (self.pod, self.all);
        let means = |term: &AffinityTerm, pod: &Pod| term.matches(pod, &all.namespaces);
        let put = |parts: &mut TopologyCounts<'a>, term: &'a AffinityTerm, weight: i64| {
            if let Some(value) = topology_value(node, term) {
                *parts.entry((&term.topology_key, value)).or_default() += weight;
            }
        };
        if let Some(own) = &pod.affinity_terms {
            if !own.required_affinity.is_empty()
                && own.required_affinity.iter().all(|term| means(term, &other.pod))
            {
                own.required_affinity
                    .iter()
                    .for_each(|term| put(&mut self.affinity_counts, term, 1));
            }
            let apart = own.required_anti_affinity.iter().filter(|term| means(term, &other.pod));
            apart.for_each(|term| put(&mut self.anti_affinity_counts, term, 1));
            let soft = own.preferred.iter().filter(|(_, term)| means(term, &other.pod));
            soft.for_each(|(weight, term)| put(&mut self.topology_score, term, *weight));
        }
        if let Some(theirs) = &other.affinity_terms {
            let apart = theirs.required_anti_affinity.iter().filter(|term| means(term, &pod.pod));
            apart.for_each(|term| put(&mut self.existing_anti_affinity_counts, term, 1));
            // Required affinity terms of existing pods also count for the score (upstream's
            // hardPodAffinityWeight, 1).
            let near = theirs.required_affinity.iter().filter(|term| means(term, &pod.pod));
            near.for_each(|term| put(&mut self.topology_score, term, 1));
            let soft = theirs.preferred.iter().filter(|(_, term)| means(term, &pod.pod));
            soft.for_each(|(weight, term)| put(&mut self.topology_score, term, *weight));
        }
    }

    /// Whether the required affinity terms are satisfied. A pod that matches its own terms may be
    /// the first of its group.
    fn satisfies_affinity(&self, node: &NodeInfo, terms: &[AffinityTerm]) -> bool {
        let there = |term: &AffinityTerm| topology_value(node, term).is_some();
        let near = |term: &AffinityTerm| contains_topology_of(&self.affinity_counts, node, term);
        let first = || {
            let itself = |term: &AffinityTerm| term.matches(&self.pod.pod, &self.all.namespaces);
            self.affinity_counts.is_empty() && terms.iter().all(itself)
        };
        terms.iter().all(there) && (terms.iter().all(near) || first())
    }
}

impl NodeEvaluator for InterPodAffinityEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        if let Some(own) = &self.pod.affinity_terms {
            if !self.satisfies_affinity(node, &own.required_affinity) {
                return Err(FilterError::unresolvable("node(s) didn't match pod affinity rules"));
            }
            if own
                .required_anti_affinity
                .iter()
                .any(|term| contains_topology_of(&self.anti_affinity_counts, node, term))
            {
                return Err(FilterError::unschedulable(
                    "node(s) didn't match pod anti-affinity rules",
                ));
            }
        }
        let labels = node.node.metadata().labels();
        if self
            .existing_anti_affinity_counts
            .keys()
            .any(|(key, value)| labels.get(key) == Some(value))
        {
            let why = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(FilterError::unschedulable(why));
        }
        Ok(())
    }

    fn score(&self, node: &NodeInfo) -> Option<i64> {
        if self.topology_score.is_empty() {
            return None;
        }
        let labels = node.node.metadata().labels();
        let here =
            self.topology_score.iter().filter(|((key, value), _)| labels.get(key) == Some(*value));
        Some(here.map(|(_, weight)| weight).sum())
    }

    fn normalize_scores(&self, scores: &mut [i64]) {
        let lowest = scores.iter().copied().min().unwrap_or_default();
        let range = scores.iter().copied().max().unwrap_or_default() - lowest;
        for score in scores {
            *score = if range == 0 { 0 } else { (*score - lowest) * 100 / range };
        }
    }
}

/// The topology domain of the node for the term.
fn topology_value<'a>(node: &'a NodeInfo, term: &AffinityTerm) -> Option<&'a str> {
    node.node.metadata().labels().get(&term.topology_key)
}

fn contains_topology_of(parts: &TopologyCounts<'_>, node: &NodeInfo, term: &AffinityTerm) -> bool {
    topology_value(node, term)
        .is_some_and(|value| parts.contains_key(&(&*term.topology_key, value)))
}
