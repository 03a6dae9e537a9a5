//! Nodes and what is placed on them, as a cycle needs them. A clone shares all that
//! does not change later: a cycle keeps its own, unmoved by what happens meanwhile.

use std::{collections::HashMap, sync::Arc};

use api::core::{Node, Pod};
use object::{Text, selector::Selector};

use crate::{
    Amounts, Claimed,
    terms::{Namespaces, Terms},
};

/// A pod that is placed, with the numbers that count.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pub pod: Pod,
    pub amounts: Amounts,
    /// Cpu and memory that it is taken to need when nodes are compared.
    pub at_least: (i64, i64),
    /// Protocol, address and number of each port of the node that it takes.
    pub ports: Vec<(Text, Text, i32)>,
    pub priority: i32,
    pub terms: Option<Box<Terms>>,
    /// Which pods are of its kind, where its services or its controller say that.
    pub peers: Option<Selector>,
    pub claimed: Claimed,
}

impl PodInfo {
    pub fn new(pod: &Pod) -> Self {
        let amounts = Amounts::of_pod(pod);
        Self {
            at_least: amounts.at_least(pod),
            ports: ports(pod),
            priority: pod.spec().priority().unwrap_or_default(),
            terms: Terms::of(pod),
            peers: None,
            claimed: Claimed::default(),
            amounts,
            pod: pod.clone(),
        }
    }

    #[must_use]
    pub fn with_peers(self, peers: Option<Selector>) -> Self {
        Self { peers, ..self }
    }

    #[must_use]
    pub fn with_claimed(self, claimed: Claimed) -> Self {
        Self { claimed, ..self }
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

#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub node: Node,
    pub allocatable: Amounts,
    pub requested: Amounts,
    pub at_least: (i64, i64),
    pub pods: Vec<Arc<PodInfo>>,
    /// How many of the pods ask something of others.
    pub with_terms: i64,
}

impl NodeInfo {
    pub fn new(node: &Node, pods: impl IntoIterator<Item = Arc<PodInfo>>) -> Self {
        let mut info = Self {
            node: node.clone(),
            allocatable: Amounts::of_node(node.status().allocatable()),
            requested: Amounts::default(),
            at_least: (0, 0),
            pods: Vec::new(),
            with_terms: 0,
        };
        pods.into_iter().for_each(|pod| info.add(pod));
        info
    }

    pub fn name(&self) -> &str {
        self.node.metadata().name()
    }

    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        self.count(&pod, 1);
        self.pods.push(pod);
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        if let Some(at) = self.pods.iter().position(|pod| pod.uid() == uid) {
            let pod = self.pods.swap_remove(at);
            self.count(&pod, -1);
        }
    }

    fn count(&mut self, pod: &PodInfo, sign: i64) {
        self.requested.add(&pod.amounts, sign);
        self.at_least.0 = self.at_least.0.saturating_add(sign * pod.at_least.0);
        self.at_least.1 = self.at_least.1.saturating_add(sign * pod.at_least.1);
        self.with_terms += sign * i64::from(pod.terms.is_some());
    }
}

/// What is free on a node: all that most cycles ever read of most nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    cpu: i64,
    memory: i64,
    pods: i64,
}

impl Room {
    fn of(node: &NodeInfo) -> Self {
        let (has, used) = (&node.allocatable, &node.requested);
        Self {
            cpu: has.cpu.saturating_sub(used.cpu),
            memory: has.memory.saturating_sub(used.memory),
            pods: has.pods.saturating_sub(used.pods),
        }
    }

    /// Whether it is worth looking closer.
    pub(crate) fn may_hold(self, asked: &Amounts) -> bool {
        self.pods >= asked.pods
            && (asked.cpu == 0 || self.cpu >= asked.cpu)
            && (asked.memory == 0 || self.memory >= asked.memory)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) nodes: Vec<Arc<NodeInfo>>,
    /// The same order.
    pub(crate) room: Vec<Room>,
    at: HashMap<Text, usize>,
    /// How many pods of all nodes ask something of others.
    with_terms: i64,
    pub(crate) namespaces: Arc<Namespaces>,
}

impl Snapshot {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn with_terms(&self) -> i64 {
        self.with_terms
    }

    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.at.get(name).map(|at| &self.nodes[*at])
    }

    pub fn set(&mut self, info: NodeInfo) {
        let room = Room::of(&info);
        self.with_terms += info.with_terms;
        if let Some(at) = self.at.get(info.name()) {
            self.with_terms -= self.nodes[*at].with_terms;
            (self.nodes[*at], self.room[*at]) = (Arc::new(info), room);
        } else {
            self.at.insert(info.name().into(), self.nodes.len());
            self.nodes.push(Arc::new(info));
            self.room.push(room);
        }
    }

    /// As it was, after it was changed.
    pub(crate) fn put_back(&mut self, node: &Arc<NodeInfo>) {
        let Some(at) = self.at.get(node.name()).copied() else { return };
        self.with_terms += node.with_terms - self.nodes[at].with_terms;
        (self.nodes[at], self.room[at]) = (node.clone(), Room::of(node));
    }

    pub fn remove(&mut self, name: &str) {
        let Some(at) = self.at.remove(name) else { return };
        self.with_terms -= self.nodes.swap_remove(at).with_terms;
        self.room.swap_remove(at);
        if let Some(moved) = self.nodes.get(at) {
            self.at.insert(moved.name().into(), at);
        }
    }

    /// Changes one node.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut NodeInfo)) {
        let Some(at) = self.at.get(name).copied() else { return };
        self.with_terms -= self.nodes[at].with_terms;
        change(Arc::make_mut(&mut self.nodes[at]));
        self.with_terms += self.nodes[at].with_terms;
        self.room[at] = Room::of(&self.nodes[at]);
    }
}

impl FromIterator<NodeInfo> for Snapshot {
    fn from_iter<I: IntoIterator<Item = NodeInfo>>(all: I) -> Self {
        let mut snapshot = Self::default();
        all.into_iter().for_each(|info| snapshot.set(info));
        snapshot
    }
}
