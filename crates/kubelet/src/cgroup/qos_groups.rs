//! The QoS cgroups above the pods: `kubepods` for all pods, with one child for Burstable and one for BestEffort pods.
//! Their CPU shares decide who gets the CPUs under contention. Also enforces node allocatable.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::core::Pod;
use object::Quantity;
use runtime::EventType;
use sys::cgroup::{Cgroup, Hierarchies, Limits};
use tokio::time::sleep;
use tracing::warn;

use super::{MIN_SHARES, kubepods, shares};
use crate::{Config, Error, KubeletContext, node::machine::Machine, reserved};

/// Interval for retrying a limit that the kernel rejects because the pods already use more.
const RETRY: Duration = Duration::from_mins(1);

/// The cgroups of all pods and of the Burstable class. The CPU shares of the latter follow the sum of the CPU requests
/// of Burstable pods.
#[derive(Debug)]
pub(crate) struct Tiers {
    all: Cgroup,
    burstable: Cgroup,
    requests: Mutex<Requests>,
}

/// CPU requests of Burstable pods.
#[derive(Debug, Default)]
struct Requests {
    /// CPU request in millicores, by pod uid.
    by_pod: HashMap<String, i64>,
    total: i64,
    /// The CPU shares that were last written to the cgroup.
    written: Option<i64>,
    /// Whether all pods of an earlier kubelet are known. Until then the shares are not written, because they would be
    /// too low.
    settled: bool,
}

impl Tiers {
    /// Creates the cgroups. `start` sets their limits.
    pub(crate) fn create(config: &Config) -> io::Result<Self> {
        let hierarchies = Hierarchies::detect()?;
        let root = kubepods(&config.cgroup_root);
        let group = |path: &str| hierarchies.group(&format!("{root}{path}"));
        let (all, burstable, best_effort) =
            (group("")?, group("/burstable")?, group("/besteffort")?);
        let settled = !burstable.exists();
        for group in [&all, &burstable, &best_effort] {
            group.create()?;
        }
        best_effort.apply_limits(&with_shares(MIN_SHARES))?;
        let requests = Mutex::new(Requests { settled, ..Requests::default() });
        let tiers = Self { all, burstable, requests };
        tiers.write(&mut tiers.requests());
        Ok(tiers)
    }

    /// Records the CPU request of a new or resized pod.
    pub(crate) fn set(&self, pod: &Pod) {
        let burstable = pod.qos_class() == "Burstable";
        let asked =
            pod.requests().get("cpu").filter(|_| burstable).map_or(0, Quantity::milli_value);
        let mut requests = self.requests();
        let before = if asked == 0 {
            requests.by_pod.remove(pod.metadata().uid())
        } else {
            requests.by_pod.insert(pod.metadata().uid().to_owned(), asked)
        };
        requests.change(asked, before);
        self.write(&mut requests);
    }

    pub(crate) fn remove(&self, uid: &str) {
        let mut requests = self.requests();
        let before = requests.by_pod.remove(uid);
        requests.change(0, before);
        self.write(&mut requests);
    }

    /// All pods of an earlier kubelet are known: from now on the shares may also decrease.
    pub(crate) fn settle(&self) {
        let mut requests = self.requests();
        requests.settled = true;
        self.write(&mut requests);
    }

    /// Memory that all pods together may still use; `None` if `kubepods` has no memory limit.
    pub(crate) fn memory_left(&self) -> Option<i64> {
        let usage = self.all.usage().ok()?;
        i64::try_from(usage.memory_limit?.saturating_sub(usage.working_set)).ok()
    }

    fn write(&self, requests: &mut Requests) {
        let wanted = shares(requests.total);
        if !requests.settled || requests.written == Some(wanted) {
            return;
        }
        match self.burstable.apply_limits(&with_shares(wanted)) {
            Ok(()) => requests.written = Some(wanted),
            Err(error) => warn!(%error, "cannot set the CPU weight of the burstable cgroup"),
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    fn change(&mut self, now: i64, before: Option<i64>) {
        let total = i128::from(self.total) + i128::from(now) - i128::from(before.unwrap_or(0));
        self.total = i64::try_from(total.max(0)).unwrap_or(i64::MAX);
    }
}

/// Enforces node allocatable: limits `kubepods` to what is not reserved, and the cgroups of `--kube-reserved-cgroup`
/// and `--system-reserved-cgroup` to what is reserved for them.
pub(crate) fn start(host: &Arc<KubeletContext>) -> Result<(), Error> {
    let wrong = |path: &str| {
        let what = format!("Failed to enforce Kube Reserved Cgroup Limits on {path:?}");
        move |error| Error::Io { what, error }
    };
    let path = kubepods(&host.config.cgroup_root);
    let group = |path: &str| Hierarchies::detect()?.group(path);
    let pods = group(&path).map_err(wrong(&path))?;
    let limits = pod_limits(&host.config, &host.machine, reserved::process_capacity());
    // setting CPU shares never fails because of current usage, unlike a memory limit
    let share = Limits { cpu_shares: limits.cpu_shares, ..Limits::default() };
    pods.apply_limits(&share).map_err(wrong(&path))?;
    for one in &host.config.reserved_groups {
        let group = group(&one.path).map_err(wrong(&one.path))?;
        if !group.exists() {
            let missing = io::Error::new(io::ErrorKind::NotFound, "the cgroup does not exist");
            return Err(wrong(&one.path)(missing));
        }
        group.apply_limits(&reserved_limits(one)).map_err(wrong(&one.path))?;
    }
    let host = host.clone();
    host.cx.clone().spawn("node allocatable", async move {
        while let Err(error) = pods.apply_limits(&limits) {
            let why = format!("Failed to update Node Allocatable Limits {path:?}: {error}");
            host.record_node_event(EventType::Warning, "FailedNodeAllocatableEnforcement", why);
            sleep(RETRY).await;
        }
        let mut messages = vec!["Updated Node Allocatable limit across pods".to_owned()];
        let groups = host.config.reserved_groups.iter();
        messages.extend(
            groups.map(|one| format!("Updated limits on {} cgroup {}", one.name, one.path)),
        );
        for message in messages {
            host.record_node_event(EventType::Normal, "NodeAllocatableEnforced", message);
        }
    });
    Ok(())
}

/// Limits of the `kubepods` cgroup.
fn pod_limits(config: &Config, machine: &Machine, processes: Option<i64>) -> Limits {
    let left = |resource: &str, whole: &Quantity| {
        if !config.enforce_pods {
            return whole.clone();
        }
        let left = config.kube_reserved.subtract_from(resource, whole);
        config.system_reserved.subtract_from(resource, &left)
    };
    let whole = machine.resources();
    let amount = |resource: &str| whole.get(resource).map(|whole| left(resource, whole));
    let processes = processes
        .map(|most| left("pid", &Quantity::new(most, object::quantity::Format::DecimalSi)).value());
    Limits {
        cpu_shares: amount("cpu").and_then(|cpu| u64::try_from(shares(cpu.milli_value())).ok()),
        memory: amount("memory").map(|memory| memory.value()),
        pids: processes,
        ..Limits::default()
    }
}

fn reserved_limits(group: &reserved::ReservedGroup) -> Limits {
    let amount = |resource: &str| group.reserved.get(resource);
    let cpu = amount("cpu").map(|cpu| shares(cpu.milli_value()));
    let hard = |resource: &str| amount(resource).filter(|_| !group.compressible_only);
    Limits {
        cpu_shares: cpu.and_then(|shares| u64::try_from(shares).ok()),
        memory: hard("memory").map(Quantity::value),
        pids: hard("pid").map(Quantity::value),
        ..Limits::default()
    }
}

fn with_shares(shares: i64) -> Limits {
    Limits { cpu_shares: u64::try_from(shares).ok(), ..Limits::default() }
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    fn pod(uid: &str, cpu: &str) -> Pod {
        let text = format!(
            "{{metadata: {{uid: {uid}}}, spec: {{containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}"
        );
        Pod::from(from_yaml(&text).unwrap())
    }

    /// The CPU weight as the kernel shows it, in cgroup v1 or v2.
    fn weight(path: &str) -> String {
        let read = |file: String| std::fs::read_to_string(file).ok();
        let v1 = read(format!("/sys/fs/cgroup/cpu{path}/cpu.shares"));
        v1.or_else(|| read(format!("/sys/fs/cgroup{path}/cpu.weight"))).unwrap_or_default()
    }

    #[test]
    fn burstable_pods_weigh_what_they_ask_for_together() {
        let root = format!("/kubelet-tiers-{}", std::process::id());
        let config = Config { cgroup_root: root.clone(), ..Config::new("n", "/none") };
        let v1 = std::path::Path::new("/sys/fs/cgroup/cpu/cpu.shares").exists();
        let burstable = |expected: [&str; 2]| {
            let got = weight(&format!("{root}/kubepods/burstable"));
            assert_eq!(got.trim(), expected[usize::from(!v1)]);
        };
        let tiers = Tiers::create(&config).unwrap();
        burstable(["2", "1"]);
        assert_eq!(
            weight(&format!("{root}/kubepods/besteffort")).trim(),
            if v1 { "2" } else { "1" }
        );
        for n in 0..3 {
            tiers.set(&pod(&format!("u{n}"), "1"));
        }
        burstable(["3072", "118"]);
        tiers.set(&pod("u1", "500m")); // it was resized
        tiers.set(&pod("u1", "500m"));
        burstable(["2560", "98"]);
        tiers.set(&Pod::from(from_yaml("{metadata: {uid: u0}, spec: {}}").unwrap()));
        tiers.remove("u1");
        tiers.remove("u1");
        burstable(["1024", "39"]);

        // a restarted kubelet does not lower the weight of pods that it has not seen yet
        let next = Tiers::create(&config).unwrap();
        burstable(["1024", "39"]);
        next.set(&pod("u2", "1"));
        next.set(&pod("u3", "1"));
        next.settle();
        burstable(["2048", "79"]);
        next.set(&pod("u4", "9223372036854775807"));
        next.set(&pod("u5", "9223372036854775807"));
        burstable(["262144", "10000"]);
        Hierarchies::detect().unwrap().group(&root).unwrap().remove().unwrap();
    }

    #[test]
    fn pods_together_get_what_is_not_reserved() {
        let machine = Machine { cpus: 4, memory: 8 << 30, ..Machine::default() };
        let config = Config {
            kube_reserved: "cpu=500m,memory=1Gi,pid=1000".parse().unwrap(),
            system_reserved: "cpu=500m,pid=1000".parse().unwrap(),
            ..Config::new("n", "/none")
        };
        let limits = pod_limits(&config, &machine, Some(32768));
        assert_eq!((limits.cpu_shares, limits.memory), (Some(3072), Some(7 << 30)));
        assert_eq!(limits.pids, Some(30768));
        let config = Config { enforce_pods: false, ..config };
        let limits = pod_limits(&config, &machine, Some(32768));
        assert_eq!((limits.cpu_shares, limits.memory), (Some(4096), Some(8 << 30)));
        assert_eq!(limits.pids, Some(32768));
    }
}
