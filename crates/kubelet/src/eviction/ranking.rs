//! Order in which pods are evicted, and the messages of evictions.

use std::cmp::Reverse;

use api::core::Pod;
use object::{Quantity, quantity::Format};

use super::threshold::{Signal, SignalObservation, Threshold};
use crate::usage;

/// Resource usage of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodUsage {
    pub(super) memory: i64,
    /// Bytes of writable layers, logs and volumes.
    pub(super) disk: i64,
    pub(super) inodes: i64,
    pub(super) processes: i64,
    /// Name, memory and disk usage of each container.
    pub(super) containers: Vec<(String, i64, i64)>,
}

/// Sorts pods into eviction order. Pods that exceed their requests come first, then lower priority, then the larger
/// excess over the request. A pod without usage statistics is evicted before all others.
pub(super) fn rank(pods: &mut [(Pod, Option<PodUsage>)], signal: Signal) {
    pods.sort_by_cached_key(|(pod, used)| {
        let priority = pod.spec().priority().unwrap_or_default();
        let amount = used.as_ref().map_or(i64::MAX, |used| used.of(signal));
        if signal == Signal::PidAvailable {
            return (0, priority, Reverse(amount));
        }
        let asked = pod.requests().get(signal.resource()).map_or(0, Quantity::value);
        let group = match used {
            None => 0,
            Some(_) if amount > asked => 1,
            Some(_) => 2,
        };
        (group, priority, Reverse(amount.saturating_sub(asked)))
    });
}

/// The message of an eviction because of node pressure.
pub(super) fn message(
    pod: &Pod,
    used: Option<&PodUsage>,
    threshold: &Threshold,
    left: SignalObservation,
) -> String {
    let resource = threshold.signal.resource();
    let shown = |n: i64| Quantity::new(n, Format::BinarySi).to_string();
    let mut out = format!("The node was low on resource: {resource}. ");
    out += &format!(
        "Threshold quantity: {}, available: {}. ",
        shown(threshold.value.of(left.capacity)),
        shown(left.available / 1024 * 1024)
    );
    for (name, memory, disk) in used.map(|used| &*used.containers).unwrap_or_default() {
        let amount = match resource {
            "memory" => *memory,
            "ephemeral-storage" => *disk,
            _ => continue,
        };
        let spec = pod.spec();
        let Some(spec) = spec.all_containers().find(|one| one.name() == name) else { continue };
        let asked = spec.resources().requests().get(resource).unwrap_or_default();
        if amount > asked.value() {
            out += &format!(
                "Container {name} was using {}, request is {asked}, has larger consumption of {resource}. ",
                shown(amount)
            );
        }
    }
    out
}

/// Why the pod exceeds its own ephemeral-storage limits, which evicts it however much the node has left; `None` if it
/// does not.
pub(super) fn storage_limit_exceeded(
    pod: &Pod,
    used: &PodUsage,
    volumes: &[usage::Volume],
) -> Option<String> {
    for volume in pod.spec().volumes().iter() {
        let Some(empty) = volume.volume_source().empty_dir() else { continue };
        let limit =
            empty.size_limit().filter(|limit| limit.sign() > 0 && empty.medium() != "Memory");
        let written = volumes.iter().find(|one| one.name == volume.name());
        if let (Some(limit), Some(usage::Volume { name, bytes, .. })) = (limit, written)
            && *bytes > limit.value()
        {
            return Some(format!(
                "Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". "
            ));
        }
    }
    let limit = |limits: Option<Quantity>| limits.filter(|limit| limit.sign() > 0);
    if let Some(whole) = limit(pod.limits().get("ephemeral-storage").cloned())
        && used.disk > whole.value()
    {
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
        ));
    }
    let running = pod.spec().containers().iter().chain(pod.spec().sidecars());
    running.into_iter().find_map(|container| {
        let allowed = limit(container.resources().limits().get("ephemeral-storage"))?;
        let (name, _, disk) = used.containers.iter().find(|(name, ..)| name == container.name())?;
        (*disk > allowed.value()).then(|| {
            format!("Container {name} exceeded its local ephemeral storage limit \"{allowed}\". ")
        })
    })
}

impl PodUsage {
    fn of(&self, signal: Signal) -> i64 {
        match signal {
            Signal::MemoryAvailable => self.memory,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable => self.disk,
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => self.inodes,
            Signal::PidAvailable => self.processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::{super::threshold::ThresholdValue, *};

    fn pod(name: &str, priority: i32, memory: &str) -> Pod {
        let text = format!(
            "{{metadata: {{name: {name}}}, spec: {{priority: {priority}, containers: [{{name: a, resources: {{requests: {{memory: {memory}}}}}}}]}}}}"
        );
        Pod::from(from_yaml(&text).unwrap())
    }

    fn using(memory: i64) -> PodUsage {
        let containers = vec![("a".to_owned(), memory, 0)];
        PodUsage { memory, processes: memory, containers, ..PodUsage::default() }
    }

    #[test]
    fn beyond_what_was_asked_then_priority_then_how_far() {
        let mut pods = [
            (pod("within", 0, "100"), Some(using(90))),
            (pod("important", 5, "100"), Some(using(900))),
            (pod("little", 0, "100"), Some(using(110))),
            (pod("much", 0, "100"), Some(using(500))),
            (pod("unknown", 9, "100"), None),
        ];
        rank(&mut pods, Signal::MemoryAvailable);
        let names: Vec<&str> = pods.iter().map(|(pod, _)| pod.metadata().name()).collect();
        assert_eq!(names, ["unknown", "much", "little", "important", "within"]);
        rank(&mut pods, Signal::PidAvailable);
        let names: Vec<&str> = pods.iter().map(|(pod, _)| pod.metadata().name()).collect();
        assert_eq!(names, ["much", "little", "within", "important", "unknown"]);
    }

    #[test]
    fn the_message_says_who_used_what() {
        let threshold = Threshold {
            signal: Signal::MemoryAvailable,
            value: ThresholdValue::Quantity(100 << 20),
            grace_period: None,
            min_reclaim: ThresholdValue::NOTHING,
        };
        let left = SignalObservation { capacity: 1 << 30, available: 50 << 20 };
        let got = message(&pod("p", 0, "1Mi"), Some(&using(3 << 20)), &threshold, left);
        let want = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using 3Mi, request is 1Mi, has larger consumption of memory. ";
        assert_eq!(got, want);
    }

    #[test]
    fn limits_on_local_storage() {
        let text = "{spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1Ki}}], containers: [{name: a, resources: {limits: {ephemeral-storage: 10Ki}}}, {name: b}]}}";
        let pod = Pod::from(from_yaml(text).unwrap());
        let written = |disk: i64| PodUsage {
            disk,
            containers: vec![("a".to_owned(), 0, disk)],
            ..PodUsage::default()
        };
        let volume = |bytes| [usage::Volume { name: "v".into(), bytes, inodes: 1 }];
        assert_eq!(storage_limit_exceeded(&pod, &written(1 << 10), &volume(1 << 10)), None);
        let volume = storage_limit_exceeded(&pod, &written(0), &volume(1025)).unwrap();
        assert_eq!(volume, "Usage of EmptyDir volume \"v\" exceeds the limit \"1Ki\". ");
        let whole = storage_limit_exceeded(&pod, &written(11 << 10), &[]).unwrap();
        assert!(whole.starts_with("Pod ephemeral local storage usage exceeds"), "{whole}");
        let one = PodUsage { disk: 0, ..written(11 << 10) };
        let one = storage_limit_exceeded(&pod, &one, &[]).unwrap();
        assert_eq!(one, "Container a exceeded its local ephemeral storage limit \"10Ki\". ");
    }
}
