//! CPU shares, CPU quotas and memory limits of containers, and the cgroups of pods.

mod oom;
pub(crate) mod qos_groups;

use api::core::{Container, Pod};
use container::cri::LinuxContainerResources;
use object::Quantity;
use sys::cgroup::{self, Hierarchies};

pub(crate) const PERIOD: i64 = 100_000;
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const MIN_QUOTA: i64 = 1000;

/// The limits of a container that a resize can change while it runs, in the kernel's units; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerLimits {
    pub cpu_shares: i64,
    pub cpu_quota: i64,
    pub memory: i64,
}

impl ContainerLimits {
    /// The limits that the pod's spec gives to a container.
    pub fn of(pod: &Pod, container: &Container) -> Self {
        resources(pod, container, 1).into()
    }

    /// Whether `resizePolicy` requires a restart of the container for the change from `old`.
    pub fn needs_restart(&self, old: &Self, container: &Container) -> bool {
        let cpu = (self.cpu_shares, self.cpu_quota) != (old.cpu_shares, old.cpu_quota);
        let memory = self.memory != old.memory;
        container.resize_policy().iter().any(|policy| {
            policy.restart_policy() == "RestartContainer"
                && match policy.resource_name() {
                    "cpu" => cpu,
                    "memory" => memory,
                    _ => false,
                }
        })
    }
}

impl From<LinuxContainerResources> for ContainerLimits {
    fn from(told: LinuxContainerResources) -> Self {
        Self {
            cpu_shares: told.cpu_shares,
            cpu_quota: told.cpu_quota.max(0),
            memory: told.memory_limit_in_bytes.max(0),
        }
    }
}

/// Path of the cgroup of all pods.
fn kubepods(root: &str) -> String {
    let root = root.trim_matches('/');
    if root.is_empty() { "/kubepods".to_owned() } else { format!("/{root}/kubepods") }
}

/// Path of a pod's cgroup in CRI's notation, such as `/kubepods/burstable/podUID`.
pub(crate) fn pod_cgroup_path(root: &str, pod: &Pod) -> String {
    let class = match pod.qos_class() {
        "Guaranteed" => "",
        "Burstable" => "/burstable",
        _ => "/besteffort",
    };
    format!("{}{class}/pod{}", kubepods(root), pod.metadata().uid())
}

/// The CRI resources of a container: CPU shares and quota, memory limit, OOM score.
pub(crate) fn resources(
    pod: &Pod,
    container: &Container,
    machine_memory: i64,
) -> LinuxContainerResources {
    let (limits, requests) = (container.resources().limits(), container.resources().requests());
    let cpu = requests.get("cpu").or_else(|| limits.get("cpu"));
    let quota = limits.get("cpu").map_or(0, |limit| quota(limit.milli_value()));
    let memory = limits.get("memory").map_or(0, |limit| limit.value());
    LinuxContainerResources {
        cpu_shares: shares(cpu.map_or(0, |cpu| cpu.milli_value())),
        cpu_quota: quota,
        cpu_period: if quota == 0 { 0 } else { PERIOD },
        memory_limit_in_bytes: memory,
        oom_score_adj: oom::score(pod, container, machine_memory),
        ..LinuxContainerResources::default()
    }
}

/// Creates the cgroup of a pod. Its limits are those of `spec.resources`, or the sum of the containers' limits where
/// every container has one; `processes` limits the number of processes if it is positive.
pub(crate) fn create(path: &str, pod: &Pod, processes: i64) -> std::io::Result<()> {
    let group = Hierarchies::detect()?.group(path)?;
    group.create()?;
    group.apply_limits(&cgroup::Limits {
        pids: (processes > 0).then_some(processes),
        ..pod_limits(pod)
    })
}

/// Removes the CPU and memory limits of a pod's cgroup before the limits of its containers are raised; `create` then
/// sets the new ones.
pub(crate) fn clear_pod_limits(path: &str) -> std::io::Result<()> {
    let group = Hierarchies::detect()?.group(path)?;
    let none = Some(-1);
    group.apply_limits(&cgroup::Limits {
        cpu_quota: none,
        memory: none,
        ..cgroup::Limits::default()
    })
}

fn pod_limits(pod: &Pod) -> cgroup::Limits {
    let (requests, limits) = (pod.requests(), pod.limits());
    let bounded = |what: &str| {
        let said = |resources: &api::core::ResourceRequirements| {
            resources.limits().get(what).is_some_and(|limit| limit.sign() > 0)
        };
        pod.spec().resources().is_some_and(said)
            || pod.spec().all_containers().all(|one| said(one.resources()))
    };
    let cpu = limits.get("cpu").filter(|_| bounded("cpu")).map(|cpu| quota(cpu.milli_value()));
    let memory = limits.get("memory").filter(|_| bounded("memory")).map(Quantity::value);
    let asked = requests.get("cpu").map_or(0, Quantity::milli_value);
    cgroup::Limits {
        cpu_shares: u64::try_from(shares(asked)).ok(),
        cpu_quota: cpu,
        cpu_period: cpu.map(|_| PERIOD.unsigned_abs()),
        memory,
        ..cgroup::Limits::default()
    }
}

/// The uids of all pods that have a cgroup.
pub(crate) fn pods(root: &str) -> std::io::Result<Vec<String>> {
    let found = Hierarchies::detect()?.below(&kubepods(root), |name| name.starts_with("pod"))?;
    let uid = |path: &String| path.rsplit('/').next()?.strip_prefix("pod").map(str::to_owned);
    Ok(found.iter().filter_map(uid).collect())
}

/// Kills all processes in the cgroup of a pod and removes it, whichever QoS class the pod has.
pub(crate) fn remove(root: &str, uid: &str) {
    let Ok(hierarchies) = Hierarchies::detect() else { return };
    for class in ["", "/burstable", "/besteffort"] {
        let Ok(group) = hierarchies.group(&format!("{}{class}/pod{uid}", kubepods(root))) else {
            continue;
        };
        if group.exists()
            && let Err(error) = group.kill_all().and_then(|()| group.remove())
        {
            tracing::warn!(uid, %error, "cannot remove the cgroup of a pod");
        }
    }
}

fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

fn quota(milli: i64) -> i64 {
    if milli == 0 { 0 } else { (milli.saturating_mul(PERIOD) / 1000).max(MIN_QUOTA) }
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    #[test]
    fn amounts_become_what_the_kernel_counts() {
        let text = "metadata: {uid: u}\nspec: {containers: [{name: a, resources: {requests: {cpu: 250m, memory: 100Mi}, limits: {cpu: 500m, memory: 200Mi}}}]}";
        let pod = Pod::from(from_yaml(text).unwrap());
        let container = pod.spec().containers().iter().next().unwrap().clone();
        let got = resources(&pod, &container, 1000 << 20);
        assert_eq!((got.cpu_shares, got.cpu_quota, got.cpu_period), (256, 50_000, 100_000));
        assert_eq!((got.memory_limit_in_bytes, got.oom_score_adj), (200 << 20, 900));
        assert_eq!(pod_cgroup_path("", &pod), "/kubepods/burstable/podu");
        assert_eq!(pod_cgroup_path("/box/", &pod), "/box/kubepods/burstable/podu");
        let bare =
            Pod::from(from_yaml("metadata: {uid: u}\nspec: {containers: [{name: a}]}").unwrap());
        let container = bare.spec().containers().iter().next().unwrap().clone();
        let got = resources(&bare, &container, 1 << 30);
        assert_eq!((got.cpu_shares, got.oom_score_adj), (2, 1000));
        assert_eq!(pod_cgroup_path("", &bare), "/kubepods/besteffort/podu");
    }
}
