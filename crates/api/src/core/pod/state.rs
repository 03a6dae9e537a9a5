//! What pods are asked most often.

use std::collections::BTreeMap;

use object::{Map, Quantity, Text};

use super::{Pod, PodCondition, PodSpec, PodStatus};
use crate::core::{Container, ResourceRequirements, resources::is_pod_level_resource};

/// Amounts by the name of the resource.
pub type ResourceList = BTreeMap<Text, Quantity>;

impl Pod {
    /// Whether a node has been chosen.
    pub fn is_scheduled(&self) -> bool {
        !self.spec().node_name().is_empty()
    }

    /// Whether all containers have ended and none will be started again.
    pub fn is_finished(&self) -> bool {
        matches!(self.status().phase(), "Succeeded" | "Failed")
    }

    /// Whether it counts: neither finished nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata().is_terminating()
    }

    pub fn is_ready(&self) -> bool {
        self.status().is_true("Ready")
    }

    /// Whether it has been ready for at least `seconds`.
    pub fn is_available(&self, seconds: i32, now: i64) -> bool {
        let Some(ready) = self.status().condition("Ready") else { return false };
        let since = object::Time::parse_seconds(ready.last_transition_time());
        let long = since.is_some_and(|since| since + i64::from(seconds) <= now);
        ready.status() == "True" && (seconds == 0 || long)
    }

    /// What the node must have free for the pod: the sum over containers, at least
    /// the most that an init container needs, and the overhead.
    pub fn requests(&self) -> ResourceList {
        let mut sum = self.spec().container_requests();
        self.spec().over_all(&mut sum, ResourceRequirements::requests);
        sum
    }

    /// The most that the pod may use, where that is said.
    pub fn limits(&self) -> ResourceList {
        let mut sum = self.spec().container_limits();
        let before = sum.clone();
        self.spec().over_all(&mut sum, ResourceRequirements::limits);
        // Overhead bounds only what is bounded already.
        sum.retain(|name, _| before.contains_key(name) || self.has_limit(name));
        sum
    }

    fn has_limit(&self, name: &str) -> bool {
        self.spec().resources().is_some_and(|whole| whole.limits().get(name).is_some())
    }

    /// Guaranteed, Burstable or `BestEffort`: who must yield first when memory is short.
    pub fn qos_class(&self) -> &'static str {
        const COUNTED: [&str; 2] = ["cpu", "memory"];
        let whole = self
            .spec()
            .resources()
            .filter(|whole| !(whole.requests().is_empty() && whole.limits().is_empty()));
        let asked: Vec<&ResourceRequirements> = match whole {
            Some(whole) => vec![whole],
            None => self.spec().all_containers().map(Container::resources).collect(),
        };
        let limit = |one: &ResourceRequirements, name: &str| one.limits().get(name);
        let request = |one: &ResourceRequirements, name: &str| {
            one.requests().get(name).or_else(|| limit(one, name))
        };
        let sum = |of: &dyn Fn(&ResourceRequirements, &str) -> Option<Quantity>, name| {
            let mut sum = Quantity::default();
            asked.iter().filter_map(|one| of(one, name)).for_each(|amount| sum += &amount);
            sum
        };
        let says = |amount: Option<Quantity>| amount.is_some_and(|amount| !amount.is_zero());
        let any =
            |one: &ResourceRequirements, name| says(request(one, name)) || says(limit(one, name));
        let bounded =
            |one: &&ResourceRequirements| COUNTED.iter().all(|name| says(limit(one, name)));
        match () {
            () if !asked.iter().any(|one| COUNTED.iter().any(|name| any(one, name))) => {
                "BestEffort"
            }
            () if asked.iter().all(bounded)
                && COUNTED.iter().all(|name| sum(&request, name) == sum(&limit, name)) =>
            {
                "Guaranteed"
            }
            () => "Burstable",
        }
    }

    /// A pod with gates is not to be scheduled, and its status says so from the start.
    pub(super) fn gate(&mut self) {
        if !self.spec().scheduling_gates().is_empty() {
            let now = Text::from(self.metadata().creation_timestamp());
            self.status_mut().conditions_mut().push(
                PodCondition::new()
                    .with_last_transition_time(now)
                    .with_type("PodScheduled")
                    .with_status("False")
                    .with_reason("SchedulingGated")
                    .with_message("Scheduling is blocked due to non-empty scheduling gates"),
            );
        }
    }
}

impl PodStatus {
    pub fn condition(&self, name: &str) -> Option<&PodCondition> {
        self.conditions().find(|condition| condition.type_() == name)
    }

    /// Whether the condition `name` holds.
    pub fn is_true(&self, name: &str) -> bool {
        self.condition(name).is_some_and(|condition| condition.status() == "True")
    }

    /// The pod's first address.
    pub fn ip(&self) -> &str {
        self.pod_ips().iter().next().map_or(self.pod_ip(), |ip| ip.ip())
    }
}

impl PodSpec {
    /// Init containers that go on running beside the others.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.init_containers().iter().filter(|container| container.is_sidecar())
    }

    /// Init containers, then containers.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers().iter().chain(self.containers().iter())
    }

    /// What the containers ask for together.
    pub fn container_requests(&self) -> ResourceList {
        self.aggregate(ResourceRequirements::requests)
    }

    /// What the containers may use together.
    pub fn container_limits(&self) -> ResourceList {
        self.aggregate(ResourceRequirements::limits)
    }

    /// Init containers run one after the other, each beside the sidecars before it.
    fn aggregate(&self, of: fn(&ResourceRequirements) -> &Map<Quantity>) -> ResourceList {
        let (mut sum, mut sidecars, mut peak) =
            (ResourceList::new(), ResourceList::new(), ResourceList::new());
        for container in self.containers().iter() {
            add(&mut sum, of(container.resources()));
        }
        for container in self.init_containers().iter() {
            let mut needed = sidecars.clone();
            add(&mut needed, of(container.resources()));
            if container.is_sidecar() {
                add(&mut sum, of(container.resources()));
                sidecars = needed.clone();
            }
            most(&mut peak, needed);
        }
        most(&mut sum, peak);
        sum
    }

    /// What is said of the pod as a whole stands above its containers; overhead is added.
    fn over_all(&self, sum: &mut ResourceList, of: fn(&ResourceRequirements) -> &Map<Quantity>) {
        if let Some(whole) = self.resources() {
            for (name, amount) in of(whole).iter().filter(|(name, _)| is_pod_level_resource(name)) {
                sum.insert(name.into(), amount);
            }
        }
        add(sum, self.overhead());
    }
}

fn add(sum: &mut ResourceList, more: &Map<Quantity>) {
    for (name, amount) in more.iter() {
        *sum.entry(name.into()).or_default() += &amount;
    }
}

fn most(sum: &mut ResourceList, other: ResourceList) {
    for (name, amount) in other {
        let entry = sum.entry(name).or_default();
        if amount > *entry {
            *entry = amount;
        }
    }
}
