//! A taint keeps away pods that do not tolerate it, or makes the node a poor choice.

use api::core::untolerated;

use crate::{Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit, plugin::by_highest};

#[derive(Debug)]
pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn weight(&self) -> i64 {
        3
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        Some(Box::new(Tolerates(pod)))
    }
}

struct Tolerates<'a>(&'a PodInfo);

impl Judge for Tolerates<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        let taints = node.node.spec().taints();
        let tolerations = self.0.pod.spec().tolerations();
        match untolerated(taints, tolerations, &["NoSchedule", "NoExecute"]) {
            None => Ok(()),
            Some(_) => Err(Unfit::for_good("node(s) had untolerated taint(s)")),
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

    fn normalize(&self, scores: &mut [i64]) {
        by_highest(scores, true);
    }
}
