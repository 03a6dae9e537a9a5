//! Resource quantities as plain integers, which every scheduling cycle adds and compares.

use object::{Map, Quantity, Text};

/// Default requests for scoring of containers that have none, as upstream.
const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;
/// Upper bounds of quantities: a pod can request at most twice what a node can have. They keep sums
/// over the pods of a node, and percentages, from overflowing.
const MOST_OF_NODE: i64 = i64::MAX >> 17;
const MOST_OF_POD: i64 = 2 * MOST_OF_NODE;

/// Quantities of resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// In millicores.
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Number of pods.
    pub pods: i64,
    /// Extended resources and huge pages; a list, because there are few.
    pub scalar_resources: Vec<(Text, i64)>,
}

impl Resources {
    /// The allocatable resources of a node.
    pub(crate) fn from_allocatable(map: &Map<Quantity>) -> Self {
        let mut all = Self::default();
        map.iter().for_each(|(name, amount)| all.set(name, &amount, MOST_OF_NODE));
        all
    }

    /// The requests of a pod.
    pub(crate) fn from_pod_requests(pod: &api::core::Pod) -> Self {
        let mut all = Self::default();
        pod.requests().iter().for_each(|(name, amount)| all.set(name, amount, MOST_OF_POD));
        all.pods = 1;
        all
    }

    /// CPU and memory requests with defaults for containers that have none, so that pods without
    /// requests are spread too.
    pub(crate) fn non_zero_requests(&self, pod: &api::core::Pod) -> (i64, i64) {
        let containers = || pod.spec().containers().iter();
        let lacks = |name: &str| {
            let without = containers().filter(|c| c.resources().requests().get(name).is_none());
            i64::try_from(without.count()).unwrap_or_default()
        };
        (
            self.milli_cpu.saturating_add(DEFAULT_MILLI_CPU_REQUEST.saturating_mul(lacks("cpu"))),
            self.memory.saturating_add(DEFAULT_MEMORY_REQUEST.saturating_mul(lacks("memory"))),
        )
    }

    pub(crate) fn add(&mut self, more: &Self, sign: i64) {
        let add = |sum: &mut i64, amount: i64| *sum = sum.saturating_add(sign * amount);
        add(&mut self.milli_cpu, more.milli_cpu);
        add(&mut self.memory, more.memory);
        add(&mut self.ephemeral_storage, more.ephemeral_storage);
        add(&mut self.pods, more.pods);
        for (name, amount) in &more.scalar_resources {
            match self.scalar_resources.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => add(sum, *amount),
                None => self.scalar_resources.push((name.clone(), sign * amount)),
            }
        }
    }

    pub(crate) fn scalar(&self, name: &str) -> i64 {
        self.scalar_resources
            .iter()
            .find(|(known, _)| known == name)
            .map_or(0, |(_, amount)| *amount)
    }

    fn set(&mut self, name: &str, amount: &Quantity, most: i64) {
        let value = || amount.value().clamp(-most, most);
        match name {
            "cpu" => self.milli_cpu = amount.milli_value().clamp(-most, most),
            "memory" => self.memory = value(),
            "ephemeral-storage" => self.ephemeral_storage = value(),
            "pods" => self.pods = value(),
            name => self.scalar_resources.push((name.into(), value())),
        }
    }
}
