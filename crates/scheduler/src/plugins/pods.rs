//! Pods that want to be near others, or apart from them.

use std::collections::HashMap;

use api::core::Pod;

use crate::{Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit, terms::Term};

#[derive(Debug)]
pub(crate) struct InterPodAffinity;

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn weight(&self) -> i64 {
        2
    }

    fn judge<'a>(&self, pod: &'a PodInfo, all: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        if pod.terms.is_none() && all.with_terms() == 0 {
            return None;
        }
        Some(Box::new(Near::new(pod, all)))
    }
}

/// How much there is of something in each part of a topology: by key and value.
type Parts<'a> = HashMap<(&'a str, &'a str), i64>;

struct Near<'a> {
    pod: &'a PodInfo,
    all: &'a Snapshot,
    /// Pods that are all what the pod wants near.
    wanted: Parts<'a>,
    /// Pods it wants to be apart from.
    shunned: Parts<'a>,
    /// Pods that want to be apart from it.
    shunning: Parts<'a>,
    /// The sum of the weights of what is preferred, on either side.
    preferred: Parts<'a>,
}

impl<'a> Near<'a> {
    fn new(pod: &'a PodInfo, all: &'a Snapshot) -> Self {
        let mut near = Self {
            pod,
            all,
            wanted: Parts::new(),
            shunned: Parts::new(),
            shunning: Parts::new(),
            preferred: Parts::new(),
        };
        for node in all.nodes.iter().filter(|node| pod.terms.is_some() || node.with_terms > 0) {
            for other in &node.pods {
                near.meet(node, other);
            }
        }
        near
    }

    fn meet(&mut self, node: &'a NodeInfo, other: &'a PodInfo) {
        let (pod, all) = (self.pod, self.all);
        let means = |term: &Term, pod: &Pod| term.means(pod, &all.namespaces);
        let put = |parts: &mut Parts<'a>, term: &'a Term, weight: i64| {
            if let Some(value) = part(node, term) {
                *parts.entry((&term.topology, value)).or_default() += weight;
            }
        };
        if let Some(own) = &pod.terms {
            if !own.near.is_empty() && own.near.iter().all(|term| means(term, &other.pod)) {
                own.near.iter().for_each(|term| put(&mut self.wanted, term, 1));
            }
            let apart = own.apart.iter().filter(|term| means(term, &other.pod));
            apart.for_each(|term| put(&mut self.shunned, term, 1));
            let soft = own.preferred.iter().filter(|(_, term)| means(term, &other.pod));
            soft.for_each(|(weight, term)| put(&mut self.preferred, term, *weight));
        }
        if let Some(theirs) = &other.terms {
            let apart = theirs.apart.iter().filter(|term| means(term, &pod.pod));
            apart.for_each(|term| put(&mut self.shunning, term, 1));
            // Who must be near us would like it if we came near, too.
            let near = theirs.near.iter().filter(|term| means(term, &pod.pod));
            near.for_each(|term| put(&mut self.preferred, term, 1));
            let soft = theirs.preferred.iter().filter(|(_, term)| means(term, &pod.pod));
            soft.for_each(|(weight, term)| put(&mut self.preferred, term, *weight));
        }
    }

    /// Whether all it wants near is there, or it is the first of its own kind.
    fn has_near(&self, node: &NodeInfo, terms: &[Term]) -> bool {
        let there = |term: &Term| part(node, term).is_some();
        let near = |term: &Term| has(&self.wanted, node, term);
        let first = || {
            let itself = |term: &Term| term.means(&self.pod.pod, &self.all.namespaces);
            self.wanted.is_empty() && terms.iter().all(itself)
        };
        terms.iter().all(there) && (terms.iter().all(near) || first())
    }
}

impl Judge for Near<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        if let Some(own) = &self.pod.terms {
            if !self.has_near(node, &own.near) {
                return Err(Unfit::for_good("node(s) didn't match pod affinity rules"));
            }
            if own.apart.iter().any(|term| has(&self.shunned, node, term)) {
                return Err(Unfit::for_now("node(s) didn't match pod anti-affinity rules"));
            }
        }
        let labels = node.node.metadata().labels();
        if self.shunning.keys().any(|(key, value)| labels.get(key) == Some(value)) {
            let why = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(Unfit::for_now(why));
        }
        Ok(())
    }

    fn score(&self, node: &NodeInfo) -> Option<i64> {
        if self.preferred.is_empty() {
            return None;
        }
        let labels = node.node.metadata().labels();
        let here =
            self.preferred.iter().filter(|((key, value), _)| labels.get(key) == Some(*value));
        Some(here.map(|(_, weight)| weight).sum())
    }

    fn normalize(&self, scores: &mut [i64]) {
        let lowest = scores.iter().copied().min().unwrap_or_default();
        let range = scores.iter().copied().max().unwrap_or_default() - lowest;
        for score in scores {
            *score = if range == 0 { 0 } else { (*score - lowest) * 100 / range };
        }
    }
}

/// Which part of the term's topology the node is in.
fn part<'a>(node: &'a NodeInfo, term: &Term) -> Option<&'a str> {
    node.node.metadata().labels().get(&term.topology)
}

fn has(parts: &Parts<'_>, node: &NodeInfo, term: &Term) -> bool {
    part(node, term).is_some_and(|value| parts.contains_key(&(&*term.topology, value)))
}
