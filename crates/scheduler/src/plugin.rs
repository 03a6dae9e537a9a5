//! Scheduler plugins: filter and score. For each pod a plugin reads the snapshot once and returns a
//! `NodeEvaluator`, which then filters and scores one node at a time. Neither does I/O.

use std::fmt::Debug;

use object::Text;

use crate::{
    NodeInfo, PodInfo, Snapshot,
    plugins::{
        fit::{NodeResourcesBalancedAllocation, NodeResourcesFit},
        images::ImageLocality,
        node::{NodeAffinity, NodeName, NodeUnschedulable},
        pods::InterPodAffinity,
        ports::NodePorts,
        spread::PodTopologySpread,
        taints::TaintToleration,
        volumes::VolumeBinding,
    },
};

/// A scheduler plugin.
pub trait Plugin: Debug + Sync {
    fn name(&self) -> &'static str;

    /// The weight of its score.
    fn weight(&self) -> i64 {
        1
    }

    /// The evaluator for this pod; `None` if the plugin does not apply to it.
    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        all: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>>;
}

/// Filters and scores nodes for one pod.
pub trait NodeEvaluator {
    /// Whether the pod fits the node.
    fn filter(&self, _node: &NodeInfo) -> Result<(), FilterError> {
        Ok(())
    }

    /// Prepares scoring with the list of all feasible nodes.
    fn pre_score(&mut self, _fits: &[&NodeInfo]) {}

    /// The score of the node, from 0 to 100 after `normalize_scores`; `None` if it does not score.
    fn score(&self, _node: &NodeInfo) -> Option<i64> {
        None
    }

    /// Scales scores to 0..=100.
    fn normalize_scores(&self, _scores: &mut [i64]) {}
}

/// Why a node does not fit the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterError {
    pub reasons: Vec<Text>,
    /// Whether preemption of other pods could make the node fit.
    pub resolvable: bool,
}

impl FilterError {
    /// An error that preemption may resolve.
    pub fn unschedulable(reason: &str) -> Self {
        Self { reasons: vec![reason.into()], resolvable: true }
    }

    /// An error that preemption cannot resolve (upstream's UnschedulableAndUnresolvable).
    pub fn unresolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.into()], resolvable: false }
    }
}

/// All plugins, in the order in which they run.
pub const PLUGINS: &[&dyn Plugin] = &[
    &NodeUnschedulable,
    &NodeName,
    &TaintToleration,
    &NodeAffinity,
    &NodePorts,
    &NodeResourcesFit,
    &VolumeBinding,
    &PodTopologySpread,
    &InterPodAffinity,
    &NodeResourcesBalancedAllocation,
    &ImageLocality,
];

/// Scales scores to 0..=100 relative to the highest; with `reverse` the lowest is the best.
pub(crate) fn default_normalize_score(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or_default();
    for score in scores {
        let part = if highest == 0 { 0 } else { *score * 100 / highest };
        *score = if reverse { 100 - part } else { part };
    }
}
