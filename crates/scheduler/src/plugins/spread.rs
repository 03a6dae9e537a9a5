//! PodTopologySpread: spreads matching pods evenly over topology domains, such as zones or nodes.

use std::collections::{HashMap, HashSet};

use api::core::{TopologySpreadConstraint, untolerated};
use object::{
    Text,
    selector::{Operator, Selector},
};

use crate::{
    FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot,
    affinity_terms::{selector, with_match_label_keys},
};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REASON_MISSING_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";
const REASON_MAX_SKEW: &str = "node(s) didn't match pod topology spread constraints";

/// Filters and scores by topology spread constraints.
#[derive(Debug)]
pub(crate) struct PodTopologySpread;

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn weight(&self) -> i64 {
        2
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        all: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let given = pod.pod.spec().topology_spread_constraints();
        let of = |when: &str| -> Vec<Constraint> {
            let those = given.iter().filter(|given| given.when_unsatisfiable() == when);
            those.map(|given| Constraint::new(pod, given)).collect()
        };
        let (hard, mut soft) = (of("DoNotSchedule"), of("ScheduleAnyway"));
        let by_default = given.is_empty();
        if by_default && let Some(peers) = &pod.default_selector {
            soft =
                vec![Constraint::default(HOSTNAME, 3, peers), Constraint::default(ZONE, 5, peers)];
        }
        if hard.is_empty() && soft.is_empty() {
            return None;
        }
        let hard = hard.iter().map(|c| DomainCounts::count(c, &hard, pod, all)).collect();
        Some(Box::new(TopologySpreadEvaluator {
            pod,
            all,
            hard,
            soft,
            uses_default_constraints: by_default,
            score_state: Vec::new(),
        }))
    }
}

/// A parsed topology spread constraint.
struct Constraint {
    max_skew: i64,
    topology_key: Text,
    selector: Selector,
    min_domains: usize,
    honors_affinity: bool,
    honors_taints: bool,
}

impl Constraint {
    fn new(pod: &PodInfo, given: &TopologySpreadConstraint) -> Self {
        let keys = given.match_label_keys();
        Self {
            max_skew: i64::from(given.max_skew()),
            topology_key: given.topology_key().into(),
            selector: with_match_label_keys(
                selector(given.label_selector()),
                &pod.pod,
                keys,
                Operator::In,
            ),
            min_domains: usize::try_from(given.min_domains().unwrap_or(1)).unwrap_or(1),
            honors_affinity: given.node_affinity_policy() != Some("Ignore"),
            honors_taints: given.node_taints_policy() == Some("Honor"),
        }
    }

    /// The default constraints, for pods that have none.
    fn default(topology: &str, max_skew: i64, peers: &Selector) -> Self {
        Self {
            max_skew,
            topology_key: topology.into(),
            selector: peers.clone(),
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }
    }

    /// Whether the pods of this node are counted (nodeAffinityPolicy, nodeTaintsPolicy).
    fn includes_node(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let spec = pod.pod.spec();
        let effects = ["NoSchedule", "NoExecute"];
        (!self.honors_affinity || spec.fits_node(&node.node))
            && (!self.honors_taints
                || untolerated(node.node.spec().taints(), spec.tolerations(), &effects).is_none())
    }

    fn topology_value<'a>(&self, node: &'a NodeInfo) -> Option<&'a str> {
        node.node.metadata().labels().get(&self.topology_key)
    }

    /// The number of matching pods on the node.
    fn count_matching_pods(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let namespace = pod.pod.metadata().namespace();
        let those = node.pods.iter().filter(|other| {
            let meta = other.pod.metadata();
            meta.namespace() == namespace
                && !meta.is_terminating()
                && self.selector.matches(meta.labels())
        });
        i64::try_from(those.count()).unwrap_or(i64::MAX)
    }
}

/// The number of matching pods in each topology domain.
struct DomainCounts<'a> {
    topology: Text,
    max_skew: i64,
    /// 1 if the incoming pod matches its own constraint.
    self_match: i64,
    min_match: i64,
    counts: HashMap<&'a str, i64>,
}

impl<'a> DomainCounts<'a> {
    fn count(of: &Constraint, hard: &[Constraint], pod: &PodInfo, all: &'a Snapshot) -> Self {
        let mut counts = HashMap::new();
        for node in &all.nodes {
            let in_all = hard.iter().all(|other| other.topology_value(node).is_some());
            if let Some(part) =
                of.topology_value(node).filter(|_| in_all && of.includes_node(pod, node))
            {
                *counts.entry(part).or_default() += of.count_matching_pods(pod, node);
            }
        }
        let fewest = counts.values().copied().min().unwrap_or_default();
        Self {
            topology: of.topology_key.clone(),
            max_skew: of.max_skew,
            self_match: i64::from(of.selector.matches(pod.pod.metadata().labels())),
            min_match: if counts.len() < of.min_domains { 0 } else { fewest },
            counts,
        }
    }
}

/// The constraints of a pod, with the counts for filtering and scoring.
struct TopologySpreadEvaluator<'a> {
    pod: &'a PodInfo,
    all: &'a Snapshot,
    hard: Vec<DomainCounts<'a>>,
    soft: Vec<Constraint>,
    uses_default_constraints: bool,
    /// For each soft constraint: the pods of each domain, and the weight of their number.
    score_state: Vec<(HashMap<&'a str, i64>, f64)>,
}

impl TopologySpreadEvaluator<'_> {
    /// Nodes without a topology label are ignored in scoring, except for default constraints.
    fn is_ignored(&self, node: &NodeInfo) -> bool {
        !self.uses_default_constraints
            && self.soft.iter().any(|soft| soft.topology_value(node).is_none())
    }
}

impl NodeEvaluator for TopologySpreadEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        let labels = node.node.metadata().labels();
        for hard in &self.hard {
            let Some(part) = labels.get(&hard.topology) else {
                return Err(FilterError::unresolvable(REASON_MISSING_LABEL));
            };
            let there = hard.counts.get(part).copied().unwrap_or_default();
            if there + hard.self_match - hard.min_match > hard.max_skew {
                return Err(FilterError::unschedulable(REASON_MAX_SKEW));
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
    fn pre_score(&mut self, fits: &[&NodeInfo]) {
        let (pod, all) = (self.pod, self.all);
        let fits: Vec<_> = fits.iter().filter(|node| !self.is_ignored(node)).collect();
        let of = |soft: &Constraint| {
            let weight = |parts: usize| ((parts + 2) as f64).ln();
            if soft.topology_key == HOSTNAME {
                return (HashMap::new(), weight(fits.len())); // counted node by node
            }
            let parts: HashSet<_> =
                fits.iter().filter_map(|node| soft.topology_value(node)).collect();
            let mut counts = HashMap::new();
            let nodes: &[_] = if parts.is_empty() { &[] } else { &all.nodes };
            for node in nodes.iter().filter(|node| soft.includes_node(pod, node)) {
                if let Some(part) = soft.topology_value(node).filter(|part| parts.contains(part)) {
                    *counts.entry(part).or_default() += soft.count_matching_pods(pod, node);
                }
            }
            (counts, weight(parts.len()))
        };
        self.score_state = self.soft.iter().map(of).collect();
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "small numbers"
    )]
    fn score(&self, node: &NodeInfo) -> Option<i64> {
        if self.soft.is_empty() {
            return None;
        }
        if self.is_ignored(node) {
            return Some(-1);
        }
        let mut sum = 0.0;
        for (soft, (counts, weight)) in self.soft.iter().zip(&self.score_state) {
            let Some(part) = soft.topology_value(node) else { continue };
            let there = if soft.topology_key == HOSTNAME {
                soft.count_matching_pods(self.pod, node)
            } else {
                counts.get(part).copied().unwrap_or_default()
            };
            sum += there as f64 * weight + (soft.max_skew - 1) as f64;
        }
        Some(sum.round() as i64)
    }

    fn normalize_scores(&self, scores: &mut [i64]) {
        let counted = || scores.iter().copied().filter(|score| *score >= 0);
        let (least, most) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                ..0 => 0,
                _ if most == 0 => 100,
                score => 100 * (most + least - score) / most,
            };
        }
    }
}
