//! What decides where a pod may run, and where best. A plugin looks at the pod and at
//! all nodes once, and makes a `NodeEvaluator` that looks at one node at a time; both are pure.

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

pub trait Plugin: Debug + Sync {
    fn name(&self) -> &'static str;

    /// How much its score counts.
    fn weight(&self) -> i64 {
        1
    }

    /// The judge of this pod; `None` where the pod does not concern the plugin.
    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        all: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>>;
}

pub trait NodeEvaluator {
    /// Whether the pod may run there.
    fn filter(&self, _node: &NodeInfo) -> Result<(), FilterError> {
        Ok(())
    }

    /// Looks at all nodes that will do before they are scored.
    fn pre_score(&mut self, _fits: &[&NodeInfo]) {}

    /// How good the node is, from 0 to 100 after `normalize_scores`; `None`: no opinion.
    fn score(&self, _node: &NodeInfo) -> Option<i64> {
        None
    }

    /// Brings scores to 0..=100.
    fn normalize_scores(&self, _scores: &mut [i64]) {}
}

/// Why a node is not for the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterError {
    pub reasons: Vec<Text>,
    /// Whether it could be if other pods were gone.
    pub resolvable: bool,
}

impl FilterError {
    pub fn unschedulable(reason: &str) -> Self {
        Self { reasons: vec![reason.into()], resolvable: true }
    }

    pub fn unresolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.into()], resolvable: false }
    }
}

/// In the order in which they are asked.
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

/// Scales to 0..=100 by the highest; `reverse`: the lowest is the best.
pub(crate) fn default_normalize_score(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or_default();
    for score in scores {
        let part = if highest == 0 { 0 } else { *score * 100 / highest };
        *score = if reverse { 100 - part } else { part };
    }
}
