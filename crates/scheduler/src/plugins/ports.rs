//! A port of the node serves one pod.

use crate::{Judge, NodeInfo, Plugin, PodInfo, Snapshot, Unfit};

#[derive(Debug)]
pub(crate) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn judge<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Box<dyn Judge + 'a>> {
        (!pod.ports.is_empty()).then(|| Box::new(Ports(pod)) as Box<dyn Judge>)
    }
}

struct Ports<'a>(&'a PodInfo);

impl Judge for Ports<'_> {
    fn filter(&self, node: &NodeInfo) -> Result<(), Unfit> {
        let mut taken = node.pods.iter().flat_map(|pod| &pod.ports);
        let wanted = &self.0.ports;
        if taken.any(|(protocol, ip, port)| {
            wanted.iter().any(|(p, i, n)| p == protocol && n == port && overlap(i, ip))
        }) {
            return Err(Unfit::for_now(
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
