//! NodeName, NodeUnschedulable and NodeAffinity (with nodeSelector).

use api::core::Toleration;

use crate::{
    FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot,
    plugin::default_normalize_score,
};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Filters by `spec.nodeName`.
#[derive(Debug)]
pub(crate) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let name = pod.pod.spec().node_name();
        (!name.is_empty()).then(|| Box::new(NodeNameEvaluator(name)) as Box<dyn NodeEvaluator>)
    }
}

struct NodeNameEvaluator<'a>(&'a str);

impl NodeEvaluator for NodeNameEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        if node.name() == self.0 {
            return Ok(());
        }
        Err(FilterError::unresolvable("node(s) didn't match the requested node name"))
    }
}

/// Filters cordoned nodes (`spec.unschedulable`).
#[derive(Debug)]
pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let taint = api::core::Taint::new().with_key(UNSCHEDULABLE).with_effect("NoSchedule");
        let tolerates = |toleration: &Toleration| toleration.tolerates(&taint);
        let all = pod.pod.spec().tolerations().iter().any(tolerates);
        (!all).then(|| Box::new(NodeUnschedulableEvaluator) as Box<dyn NodeEvaluator>)
    }
}

struct NodeUnschedulableEvaluator;

impl NodeEvaluator for NodeUnschedulableEvaluator {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        if node.node.spec().unschedulable() {
            return Err(FilterError::unresolvable("node(s) were unschedulable"));
        }
        Ok(())
    }
}

/// Filters and scores by node affinity, and filters by nodeSelector.
#[derive(Debug)]
pub(crate) struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn weight(&self) -> i64 {
        2
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let spec = pod.pod.spec();
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let asks = affinity.is_some() || !spec.node_selector().is_empty();
        asks.then(|| Box::new(NodeAffinityEvaluator(pod)) as Box<dyn NodeEvaluator>)
    }
}

struct NodeAffinityEvaluator<'a>(&'a PodInfo);

impl NodeEvaluator for NodeAffinityEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        if self.0.pod.spec().fits_node(&node.node) {
            return Ok(());
        }
        Err(FilterError::unresolvable("node(s) didn't match Pod's node affinity/selector"))
    }

    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let affinity = self.0.pod.spec().affinity()?.node_affinity()?;
        Some(affinity.preference(&node.node))
    }

    fn normalize_scores(&self, scores: &mut [i64]) {
        default_normalize_score(scores, false);
    }
}
