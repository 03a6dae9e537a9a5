//! The scheduler's snapshot of nodes and the pods on them. Clones share their contents
//! (copy-on-write), so a cycle works on an immutable snapshot while the cache changes.

use std::{collections::HashMap, sync::Arc};

use api::core::{Node, Pod};
use object::{Text, selector::Selector};

use crate::{
    PodVolumeClaims, Resources,
    affinity_terms::{AffinityTerms, NamespaceLabels},
};

/// A pod with precomputed scheduling data.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pub pod: Pod,
    pub requests: Resources,
    /// CPU and memory requests for scoring, with defaults for containers without requests.
    pub non_zero_requests: (i64, i64),
    /// Protocol, IP and port of each host port.
    pub host_ports: Vec<(Text, Text, i32)>,
    pub priority: i32,
    pub affinity_terms: Option<Box<AffinityTerms>>,
    /// Default selector of topology spreading, from the pod's services and controller.
    pub default_selector: Option<Selector>,
    pub volume_claims: PodVolumeClaims,
}

impl PodInfo {
    pub fn new(pod: &Pod) -> Self {
        let amounts = Resources::from_pod_requests(pod);
        Self {
            non_zero_requests: amounts.non_zero_requests(pod),
            host_ports: ports(pod),
            priority: pod.spec().priority().unwrap_or_default(),
            affinity_terms: AffinityTerms::of(pod),
            default_selector: None,
            volume_claims: PodVolumeClaims::default(),
            requests: amounts,
            pod: pod.clone(),
        }
    }

    /// Sets the default selector of topology spreading.
    #[must_use]
    pub fn with_peers(self, peers: Option<Selector>) -> Self {
        Self { default_selector: peers, ..self }
    }

    /// Sets the resolved volume claims.
    #[must_use]
    pub fn with_claimed(self, claimed: PodVolumeClaims) -> Self {
        Self { volume_claims: claimed, ..self }
    }

    pub(crate) fn uid(&self) -> &str {
        self.pod.metadata().uid()
    }
}

fn ports(pod: &Pod) -> Vec<(Text, Text, i32)> {
    let all = pod.spec().containers().iter().chain(pod.spec().sidecars());
    let ports = all.flat_map(|container| container.ports().iter());
    let taken = ports.filter(|port| port.host_port() > 0);
    taken.map(|port| (port.protocol().into(), port.host_ip().into(), port.host_port())).collect()
}

/// A node with its pods and their total requests.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub node: Node,
    pub allocatable: Resources,
    pub requested: Resources,
    pub non_zero_requested: (i64, i64),
    pub pods: Vec<Arc<PodInfo>>,
    /// How many of the pods have affinity terms.
    pub pods_with_affinity: i64,
}

impl NodeInfo {
    pub fn new(node: &Node, pods: impl IntoIterator<Item = Arc<PodInfo>>) -> Self {
        let mut info = Self {
            node: node.clone(),
            allocatable: Resources::from_allocatable(node.status().allocatable()),
            requested: Resources::default(),
            non_zero_requested: (0, 0),
            pods: Vec::new(),
            pods_with_affinity: 0,
        };
        pods.into_iter().for_each(|pod| info.add(pod));
        info
    }

    pub fn name(&self) -> &str {
        self.node.metadata().name()
    }

    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        self.update_totals(&pod, 1);
        self.pods.push(pod);
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        if let Some(at) = self.pods.iter().position(|pod| pod.uid() == uid) {
            let pod = self.pods.swap_remove(at);
            self.update_totals(&pod, -1);
        }
    }

    fn update_totals(&mut self, pod: &PodInfo, sign: i64) {
        self.requested.add(&pod.requests, sign);
        self.non_zero_requested.0 =
            self.non_zero_requested.0.saturating_add(sign * pod.non_zero_requests.0);
        self.non_zero_requested.1 =
            self.non_zero_requested.1.saturating_add(sign * pod.non_zero_requests.1);
        self.pods_with_affinity += sign * i64::from(pod.affinity_terms.is_some());
    }
}

/// Free resources of a node: all that a cycle reads of most nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeResources {
    cpu: i64,
    memory: i64,
    pods: i64,
}

impl FreeResources {
    fn of(node: &NodeInfo) -> Self {
        let (has, used) = (&node.allocatable, &node.requested);
        Self {
            cpu: has.milli_cpu.saturating_sub(used.milli_cpu),
            memory: has.memory.saturating_sub(used.memory),
            pods: has.pods.saturating_sub(used.pods),
        }
    }

    /// Cheap pre-check, whether the node is worth filtering.
    pub(crate) fn may_fit(self, asked: &Resources) -> bool {
        self.pods >= asked.pods
            && (asked.milli_cpu == 0 || self.cpu >= asked.milli_cpu)
            && (asked.memory == 0 || self.memory >= asked.memory)
    }
}

/// All nodes and namespaces at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) nodes: Vec<Arc<NodeInfo>>,
    /// Free resources, in the order of `nodes`.
    pub(crate) free: Vec<FreeResources>,
    index_by_name: HashMap<Text, usize>,
    /// How many pods of all nodes have affinity terms.
    pods_with_affinity: i64,
    pub(crate) namespaces: Arc<NamespaceLabels>,
}

impl Snapshot {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn with_terms(&self) -> i64 {
        self.pods_with_affinity
    }

    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.index_by_name.get(name).map(|at| &self.nodes[*at])
    }

    /// Adds or replaces a node.
    pub fn set_node(&mut self, info: NodeInfo) {
        let room = FreeResources::of(&info);
        self.pods_with_affinity += info.pods_with_affinity;
        if let Some(at) = self.index_by_name.get(info.name()) {
            self.pods_with_affinity -= self.nodes[*at].pods_with_affinity;
            (self.nodes[*at], self.free[*at]) = (Arc::new(info), room);
        } else {
            self.index_by_name.insert(info.name().into(), self.nodes.len());
            self.nodes.push(Arc::new(info));
            self.free.push(room);
        }
    }

    /// Restores a node after a trial change.
    pub(crate) fn restore_node(&mut self, node: &Arc<NodeInfo>) {
        let Some(at) = self.index_by_name.get(node.name()).copied() else { return };
        self.pods_with_affinity += node.pods_with_affinity - self.nodes[at].pods_with_affinity;
        (self.nodes[at], self.free[at]) = (node.clone(), FreeResources::of(node));
    }

    /// Removes a node.
    pub fn remove(&mut self, name: &str) {
        let Some(at) = self.index_by_name.remove(name) else { return };
        self.pods_with_affinity -= self.nodes.swap_remove(at).pods_with_affinity;
        self.free.swap_remove(at);
        if let Some(moved) = self.nodes.get(at) {
            self.index_by_name.insert(moved.name().into(), at);
        }
    }

    /// Updates one node.
    pub fn update_node(&mut self, name: &str, change: impl FnOnce(&mut NodeInfo)) {
        let Some(at) = self.index_by_name.get(name).copied() else { return };
        self.pods_with_affinity -= self.nodes[at].pods_with_affinity;
        change(Arc::make_mut(&mut self.nodes[at]));
        self.pods_with_affinity += self.nodes[at].pods_with_affinity;
        self.free[at] = FreeResources::of(&self.nodes[at]);
    }
}

impl FromIterator<NodeInfo> for Snapshot {
    fn from_iter<I: IntoIterator<Item = NodeInfo>>(all: I) -> Self {
        let mut snapshot = Self::default();
        all.into_iter().for_each(|info| snapshot.set_node(info));
        snapshot
    }
}
