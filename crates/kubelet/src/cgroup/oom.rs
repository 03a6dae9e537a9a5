//! OOM score adjustment: the kernel's OOM killer first kills containers that use more memory than they requested.

use api::core::{Container, Pod};
use object::Quantity;

const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// The `oom_score_adj` of a container. In the Burstable class it depends on the memory request: a container that
/// requests a tenth of the host's memory gets 900, so that its OOM score reaches 1000 when it uses more than that
/// tenth.
pub(super) fn score(pod: &Pod, container: &Container, machine_memory: i64) -> i64 {
    let critical = pod.spec().priority_class_name() == "system-node-critical"
        && pod.spec().priority().is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY);
    match pod.qos_class() {
        "Guaranteed" => return GUARANTEED,
        _ if critical => return GUARANTEED,
        "BestEffort" => return BEST_EFFORT,
        _ => {}
    }
    let unassigned = unassigned(pod);
    let adjusted = |asked: i64| {
        let part = 1000 * i128::from(asked.saturating_add(unassigned));
        1000 - i64::try_from(part / i128::from(machine_memory.max(1))).unwrap_or(i64::MAX - 1000)
    };
    let mut score = adjusted(memory(container));
    if pod.spec().sidecars().any(|one| one.name() == container.name()) {
        // a sidecar is not killed before the containers that it serves
        let least = pod.spec().containers().iter().map(memory).min().unwrap_or_default();
        score = score.min(adjusted(least));
    }
    score.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

/// Memory that the pod-level request exceeds the container requests by, divided among the containers.
fn unassigned(pod: &Pod) -> i64 {
    let whole = pod.spec().resources().and_then(|whole| whole.requests().get("memory"));
    let Some(whole) = whole else { return 0 };
    let asked = pod.spec().container_requests().get("memory").map_or(0, Quantity::value);
    let running = pod.spec().containers().iter().count() + pod.spec().sidecars().count();
    let left = whole.value().saturating_sub(asked).max(0);
    i64::try_from(running).map_or(0, |running| left / running.max(1))
}

fn memory(container: &Container) -> i64 {
    container.resources().requests().get("memory").map_or(0, |memory| memory.value())
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn scores(spec: &str) -> Vec<i64> {
        let pod = Pod::from(from_yaml(&format!("{{spec: {spec}}}")).unwrap());
        pod.spec().all_containers().map(|one| score(&pod, one, 1000 << 20)).collect()
    }

    #[test]
    fn those_who_ask_for_least_go_first() {
        let asks = |memory: &str| format!("resources: {{requests: {{memory: {memory}}}}}");
        let one = |more: &str| format!("{{containers: [{{name: a, {more}}}]}}");
        assert_eq!(scores(&one("")), [1000]);
        assert_eq!(scores(&one(&asks("100Mi"))), [900]);
        assert_eq!(scores(&one(&asks("1"))), [999]);
        assert_eq!(scores(&one(&asks("8Ei"))), [3]);
        assert_eq!(scores(&one("resources: {limits: {cpu: 1, memory: 100Mi}}")), [-997]);
        let critical = "priority: 2000001000, priorityClassName: system-node-critical";
        assert_eq!(scores(&format!("{{containers: [{{name: a}}], {critical}}}")), [-997]);
        let other = "priority: 2000000000, priorityClassName: system-cluster-critical";
        assert_eq!(scores(&format!("{{containers: [{{name: a}}], {other}}}")), [1000]);
        let sidecar = format!(
            "{{initContainers: [{{name: s, restartPolicy: Always}}], containers: [{{name: a, {}}}]}}",
            asks("100Mi")
        );
        assert_eq!(scores(&sidecar), [900, 900]);
        let whole = format!(
            "{{containers: [{{name: a}}, {{name: b, {}}}], {}}}",
            asks("100Mi"),
            asks("300Mi")
        );
        assert_eq!(scores(&whole), [900, 800]);
    }
}
