//! NodePorts: a host port can be used by one pod of a node.

use crate::{FilterError, NodeEvaluator, NodeInfo, Plugin, PodInfo, Snapshot};

/// Filters nodes whose host ports are in use.
#[derive(Debug)]
pub(crate) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn evaluator<'a>(
        &self,
        pod: &'a PodInfo,
        _: &'a Snapshot,
    ) -> Option<Box<dyn NodeEvaluator + 'a>> {
        (!pod.host_ports.is_empty())
            .then(|| Box::new(NodePortsEvaluator(pod)) as Box<dyn NodeEvaluator>)
    }
}

struct NodePortsEvaluator<'a>(&'a PodInfo);

impl NodeEvaluator for NodePortsEvaluator<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), FilterError> {
        let mut taken = node.pods.iter().flat_map(|pod| &pod.host_ports);
        let wanted = &self.0.host_ports;
        if taken.any(|(protocol, ip, port)| {
            wanted.iter().any(|(p, i, n)| p == protocol && n == port && overlap(i, ip))
        }) {
            return Err(FilterError::unschedulable(
                "node(s) didn't have free ports for the requested pod ports",
            ));
        }
        Ok(())
    }
}

fn overlap(a: &str, b: &str) -> bool {
    let any = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    a == b || any(a) || any(b)
}
