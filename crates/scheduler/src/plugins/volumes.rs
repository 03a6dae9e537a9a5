//! A node must be able to reach the volumes that the pod claims.

use crate::{Claimed, Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit};

#[derive(Debug)]
pub(crate) struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let Claimed { bound, unmade, .. } = &pod.claimed;
        let claims = !bound.is_empty() || !unmade.is_empty();
        claims.then(|| Box::new(Reaches(&pod.claimed)) as Box<dyn Judge>)
    }
}

struct Reaches<'a>(&'a Claimed);

impl Judge for Reaches<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        let Claimed { bound, selected, by_hand, .. } = self.0;
        let near = bound.iter().all(|volume| {
            let only = volume.spec().node_affinity().and_then(|affinity| affinity.required());
            only.is_none_or(|only| only.matches(&node.node))
        });
        if !near {
            return Err(Unfit::for_good("node(s) didn't match PersistentVolume's node affinity"));
        }
        let made_here = selected.as_ref().is_none_or(|selected| selected == node.name());
        if *by_hand || !made_here {
            let why = "node(s) didn't find available persistent volumes to bind";
            return Err(Unfit::for_good(why));
        }
        Ok(())
    }
}
