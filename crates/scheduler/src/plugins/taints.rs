//! TaintToleration: filters nodes with taints that the pod does not tolerate; PreferNoSchedule
//! taints lower the score.

use api::core::untolerated;

use crate::{
    FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot,
    plugin::default_normalize_score,
};

/// Filters and scores by taints.
#[derive(Debug)]
pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn weight(&self) -> i64 {
        3
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        Some(Box::new(TaintTolerationEvaluator(pod)))
    }
}

struct TaintTolerationEvaluator<'a>(&'a PodInfo);

impl NodeEvaluator for TaintTolerationEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        let taints = node.node.spec().taints();
        let tolerations = self.0.pod.spec().tolerations();
        match untolerated(taints, tolerations, &["NoSchedule", "NoExecute"]) {
            None => Ok(()),
            Some(_) => Err(FilterError::unresolvable("node(s) had untolerated taint(s)")),
        }
    }

    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let tolerations = self.0.pod.spec().tolerations();
        let applies = |effect: &str| effect.is_empty() || effect == "PreferNoSchedule";
        let soft = node.node.spec().taints().iter().filter(|taint| {
            taint.effect() == "PreferNoSchedule"
                && !tolerations.iter().any(|t| applies(t.effect()) && t.tolerates(taint))
        });
        Some(i64::try_from(soft.count()).unwrap_or(i64::MAX))
    }

    fn normalize_scores(&self, scores: &mut [i64]) {
        default_normalize_score(scores, true);
    }
}
