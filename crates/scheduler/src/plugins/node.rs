//! What the pod says of the node: its name, its labels; and whether it takes any.

use api::core::Toleration;

use crate::{Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit, plugin::by_highest};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Debug)]
pub(crate) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let name = pod.pod.spec().node_name();
        (!name.is_empty()).then(|| Box::new(Named(name)) as Box<dyn Judge>)
    }
}

struct Named<'a>(&'a str);

impl Judge for Named<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        if node.name() == self.0 {
            return Ok(());
        }
        Err(Unfit::for_good("node(s) didn't match the requested node name"))
    }
}

#[derive(Debug)]
pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let taint = api::core::Taint::new().with_key(UNSCHEDULABLE).with_effect("NoSchedule");
        let tolerates = |toleration: &Toleration| toleration.tolerates(&taint);
        let all = pod.pod.spec().tolerations().iter().any(tolerates);
        (!all).then(|| Box::new(Cordoned) as Box<dyn Judge>)
    }
}

struct Cordoned;

impl Judge for Cordoned {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        if node.node.spec().unschedulable() {
            return Err(Unfit::for_good("node(s) were unschedulable"));
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn weight(&self) -> i64 {
        2
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        let spec = pod.pod.spec();
        let affinity = spec.affinity().and_then(|affinity| affinity.node_affinity());
        let asks = affinity.is_some() || !spec.node_selector().is_empty();
        asks.then(|| Box::new(Affine(pod)) as Box<dyn Judge>)
    }
}

struct Affine<'a>(&'a PodInfo);

impl Judge for Affine<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        if self.0.pod.spec().fits_node(&node.node) {
            return Ok(());
        }
        Err(Unfit::for_good("node(s) didn't match Pod's node affinity/selector"))
    }

    fn score(&self, node: &NodeInfo) -> Option<i64> {
        let affinity = self.0.pod.spec().affinity()?.node_affinity()?;
        Some(affinity.preference(&node.node))
    }

    fn normalize(&self, scores: &mut [i64]) {
        by_highest(scores, false);
    }
}
