//! VolumeBinding: a node must satisfy the node affinity of the pod's volumes.

use crate::{FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, PodVolumeClaims, Snapshot};

/// Filters by the pod's persistent volumes.
#[derive(Debug)]
pub(crate) struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        let PodVolumeClaims { bound_volumes: bound, unbound_delayed: unmade, .. } =
            &pod.volume_claims;
        let claims = !bound.is_empty() || !unmade.is_empty();
        claims
            .then(|| Box::new(VolumeBindingEvaluator(&pod.volume_claims)) as Box<dyn NodeEvaluator>)
    }
}

struct VolumeBindingEvaluator<'a>(&'a PodVolumeClaims);

impl NodeEvaluator for VolumeBindingEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        let PodVolumeClaims {
            bound_volumes: bound,
            selected_node: selected,
            no_provisioner: by_hand,
            ..
        } = self.0;
        let near = bound.iter().all(|volume| {
            let only = volume.spec().node_affinity().and_then(|affinity| affinity.required());
            only.is_none_or(|only| only.matches(&node.node))
        });
        if !near {
            return Err(FilterError::unresolvable(
                "node(s) didn't match PersistentVolume's node affinity",
            ));
        }
        let made_here = selected.as_ref().is_none_or(|selected| selected == node.name());
        if *by_hand || !made_here {
            let why = "node(s) didn't find available persistent volumes to bind";
            return Err(FilterError::unresolvable(why));
        }
        Ok(())
    }
}
