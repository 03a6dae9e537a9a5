//! Node-pressure eviction. When an eviction signal falls below its threshold, the node reports a pressure condition and
//! deletes unused images; if that is not enough, it evicts one pod after the other until the threshold is no longer
//! met.

mod ranking;
mod state;
mod threshold;

use std::{fs, path::Path, sync::Arc, time::Duration};

use api::core::Pod;
use object::Quantity;
use runtime::EventType;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use self::{
    ranking::{PodUsage, message, rank, storage_limit_exceeded},
    state::any_threshold_met,
};
pub use self::{
    state::{EvictionState, SignalObservations},
    threshold::{Pressure, Signal, SignalObservation, Threshold, ThresholdValue, thresholds},
};
use crate::{
    KubeletContext, admission, blocking, image_gc, node::machine, pod::plan::Failure,
    reserved::process_capacity, usage,
};

/// Eviction thresholds and grace periods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionConfig {
    pub thresholds: Vec<Threshold>,
    /// Seconds for which the node keeps a pressure condition after its threshold is no longer met.
    pub pressure_transition_period: i64,
    /// Maximum grace period, in seconds, of a pod that is evicted for a soft threshold.
    pub max_pod_grace_period: i64,
}

/// Upstream's default hard thresholds.
pub const DEFAULT_HARD_THRESHOLDS: &str = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%";
/// Hard thresholds for a host that also does other work and may be fuller than a dedicated node: only a minimum of free
/// space is required.
pub const RELAXED_HARD_THRESHOLDS: &str = "memory.available<100Mi,nodefs.available<1Gi,nodefs.inodesFree<1%,imagefs.available<1Gi,imagefs.inodesFree<1%,pid.available<10%";

const MONITORING_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait for an evicted pod to terminate before the next eviction.
const POD_CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(1);
/// Grace period, in seconds, of a pod that is evicted for a hard threshold.
const IMMEDIATE_EVICTION_GRACE: i64 = 1;

impl EvictionConfig {
    /// Hard thresholds only, with upstream's other defaults.
    pub fn new(hard: &str) -> Result<Self, String> {
        let thresholds = thresholds(hard, "", "", "")?;
        Ok(Self { thresholds, pressure_transition_period: 300, max_pod_grace_period: 0 })
    }

    /// Grace period of an evicted pod, in seconds; `own` is the pod's `terminationGracePeriodSeconds`.
    pub fn grace(&self, threshold: &Threshold, own: i64) -> i64 {
        match threshold.grace_period {
            None => IMMEDIATE_EVICTION_GRACE,
            Some(_) => self.max_pod_grace_period.min(own),
        }
    }

    /// The amount of a resource that hard thresholds keep free, so that it is not allocatable.
    pub(crate) fn hard_eviction_reservation(&self, signal: Signal, capacity: i64) -> i64 {
        let hard = self.thresholds.iter().filter(|one| one.grace_period.is_none());
        let of_signal = hard.filter(|one| one.signal == signal);
        of_signal.map(|one| one.value.of(capacity)).max().unwrap_or_default()
    }
}

pub(crate) fn start(host: &Arc<KubeletContext>) {
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("eviction", async move {
        let mut state = EvictionState::default();
        let mut read = host.sources_read();
        if read.wait_for(|read| *read).await.is_err() {
            return;
        }
        loop {
            let found = panics::contain("eviction", synchronize(&host, &mut state)).await;
            match found.ok().flatten() {
                Some(uid) => wait_for_pod_cleanup(&host, &uid).await,
                None => wait(&host).await,
            }
        }
    });
}

/// Waits for the next eviction pass. Meanwhile polls the signals that a pod can exhaust within seconds, disks and pids,
/// and returns early when one of them meets its threshold.
async fn wait(host: &Arc<KubeletContext>) {
    let images = host.image_folder().await;
    let short = || {
        any_threshold_met(
            &host.config.eviction,
            &disks_and_processes(&host.config.root_dir, &images),
        )
    };
    let known = short();
    let until = Instant::now() + MONITORING_INTERVAL;
    while Instant::now() < until {
        sleep(POLL).await;
        if !known && short() {
            return;
        }
    }
}

/// Runs one eviction pass; returns the uid of the pod that was evicted, if any.
async fn synchronize(host: &Arc<KubeletContext>, state: &mut EvictionState) -> Option<String> {
    let settings = &host.config.eviction;
    let images = host.image_folder().await;
    let mut seen = observe(&host.config.root_dir, &images);
    if let (Some(memory), Some(left)) =
        (seen.get_mut(&Signal::MemoryAvailable), host.tiers.memory_left())
    {
        memory.available = memory.available.min(left);
    }
    let threshold = state.observe(settings, &seen, host.steady_seconds());
    host.set_pressure(&state.pressure());
    if let Some(uid) = evict_over_storage_limit(host).await {
        return Some(uid);
    }
    let threshold = threshold?;
    let resource = threshold.signal.resource();
    info!(resource, "eviction threshold met");
    host.record_node_event(
        EventType::Warning,
        "EvictionThresholdMet",
        format!("Attempting to reclaim {resource}"),
    );
    if threshold.signal.is_of_disks() {
        image_gc::delete_unused_images(host).await;
        if !any_threshold_met(settings, &observe(&host.config.root_dir, &images)) {
            info!(resource, "reclaimed enough resources without evicting a pod");
            return None;
        }
    }
    let left = *seen.get(&threshold.signal)?;
    let mut pods = pods(host).await;
    rank(&mut pods, threshold.signal);
    pods.into_iter().find_map(|(pod, used)| {
        let grace = settings.grace(threshold, pod.spec().termination_grace_period_seconds());
        let why = message(&pod, used.as_ref(), threshold, left);
        evict(host, &pod, why, grace, true)
    })
}

/// Evicts the first pod that exceeds its ephemeral-storage limit or the size limit of an `emptyDir`.
async fn evict_over_storage_limit(host: &Arc<KubeletContext>) -> Option<String> {
    let limited = |pod: &Pod| {
        let empty = pod.spec().volumes().iter().any(|volume| {
            let source = volume.volume_source().empty_dir();
            source.is_some_and(|empty| empty.size_limit().is_some() && empty.medium() != "Memory")
        });
        empty
            || pod.limits().contains_key("ephemeral-storage")
            || pod
                .spec()
                .containers()
                .iter()
                .any(|one| one.resources().limits().get("ephemeral-storage").is_some())
    };
    if !host.pods.all().iter().any(|desired| desired.is_active() && limited(&desired.pod)) {
        return None; // measuring is expensive, and only needed for these
    }
    let (all, config) = (pods(host).await, host.config.clone());
    let beyond = move || {
        let limited = all.into_iter().filter(|(pod, _)| limited(pod));
        let beyond = limited.filter_map(|(pod, used)| {
            let why = storage_limit_exceeded(&pod, &used?, &usage::volumes(&config, &pod))?;
            Some((pod, why))
        });
        Ok(beyond.collect::<Vec<_>>())
    };
    let beyond = blocking(beyond).await.unwrap_or_default();
    beyond
        .into_iter()
        .find_map(|(pod, why)| evict(host, &pod, why, IMMEDIATE_EVICTION_GRACE, false))
}

fn evict(
    host: &Arc<KubeletContext>,
    pod: &Pod,
    why: String,
    grace: i64,
    disrupted: bool,
) -> Option<String> {
    let uid = pod.metadata().uid().to_owned();
    let is_static = host
        .pods
        .all()
        .iter()
        .any(|desired| desired.is_static && desired.pod.metadata().uid() == uid);
    if admission::is_critical(pod, is_static) {
        return None;
    }
    warn!(pod = pod.metadata().name(), why, "evicting a pod");
    host.record_event(pod, "", EventType::Warning, "Evicted", why.clone());
    let failure = Failure {
        reason: "Evicted".into(),
        message: why,
        grace: Some(grace),
        rejected: false,
        disruption_target: disrupted,
    };
    host.pods.fail_pod(&uid, failure).then_some(uid)
}

/// Waits until the pod has neither a sandbox nor running containers.
async fn wait_for_pod_cleanup(host: &Arc<KubeletContext>, uid: &str) {
    let until = Instant::now() + POD_CLEANUP_TIMEOUT;
    while Instant::now() < until {
        let seen = crate::pod::observe::RuntimePodState::of(&host.runtime, uid).await;
        if seen.is_ok_and(|seen| seen.running().next().is_none() && seen.sandbox().is_none()) {
            return;
        }
        sleep(POLL).await;
    }
    warn!(uid, "timed out waiting for an evicted pod to terminate");
}

/// The active pods that are not terminating, each with its resource usage.
async fn pods(host: &Arc<KubeletContext>) -> Vec<(Pod, Option<PodUsage>)> {
    let stats = usage::pods(host).await.unwrap_or_default();
    let host = host.clone();
    let counted = blocking(move || {
        let all = host.pods.all().into_iter();
        let here = all.filter(|desired| desired.is_active() && desired.ending.is_none());
        let with_use = here.map(|desired| {
            let used = stats.iter().find(|one| one.uid == desired.pod.metadata().uid());
            let used = used.map(|one| used_by(&host, &desired.pod, one));
            (desired.pod, used)
        });
        Ok(with_use.collect())
    });
    counted.await.unwrap_or_default()
}

fn used_by(host: &KubeletContext, pod: &Pod, usage: &usage::PodResourceUsage) -> PodUsage {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let volumes = usage::volumes(&host.config, pod);
    let sum =
        |of: fn(&usage::Volume) -> i64| volumes.iter().map(of).fold(0_i64, i64::saturating_add);
    let (bytes, inodes) = (sum(|volume| volume.bytes), sum(|volume| volume.inodes));
    let shared = signed(usage::shared_files(&host.config, pod.metadata().uid()));
    let containers: Vec<(String, i64, i64)> = usage
        .containers
        .iter()
        .map(|one| {
            let written = one.layer_bytes.saturating_add(one.log_bytes);
            let disk = written.saturating_add(one.message_bytes);
            (one.name.clone(), signed(one.memory.working_set), signed(disk))
        })
        .collect();
    PodUsage {
        memory: signed(usage.memory.working_set),
        disk: containers
            .iter()
            .fold(bytes.saturating_add(shared), |sum, (_, _, disk)| sum.saturating_add(*disk)),
        inodes: usage
            .containers
            .iter()
            .fold(inodes, |sum, one| sum.saturating_add(signed(one.layer_inodes))),
        processes: signed(usage.processes),
        containers,
    }
}

fn observe(root: &Path, images: &Path) -> SignalObservations {
    let mut seen = disks_and_processes(root, images);
    // inactive pages of the page cache can be reclaimed at any time
    let available = machine::memory("MemFree:") + machine::memory("Inactive(file):");
    let capacity = machine::memory("MemTotal:");
    seen.insert(Signal::MemoryAvailable, SignalObservation { capacity, available });
    seen
}

/// Observes the signals that are cheap to read: disks and pids.
fn disks_and_processes(root: &Path, images: &Path) -> SignalObservations {
    let mut seen = SignalObservations::new();
    let disks = [
        (root, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
    ];
    for (path, bytes, inodes) in disks {
        let Ok(stat) = rustix::fs::statvfs(path) else { continue };
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let size = |blocks: u64| signed(blocks.saturating_mul(stat.f_frsize));
        let left =
            SignalObservation { capacity: size(stat.f_blocks), available: size(stat.f_bavail) };
        seen.insert(bytes, left);
        if stat.f_files > 0 {
            let left = SignalObservation {
                capacity: signed(stat.f_files),
                available: signed(stat.f_favail),
            };
            seen.insert(inodes, left);
        }
    }
    if let (Some(capacity), Some(running)) = (process_capacity(), process_count()) {
        seen.insert(
            Signal::PidAvailable,
            SignalObservation { capacity, available: capacity - running },
        );
    }
    seen
}

/// Number of processes and threads on the host.
pub(crate) fn process_count() -> Option<i64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let (_, all) = load.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// The amount of a resource that must always stay free because of the hard thresholds.
pub(crate) fn kept(settings: &EvictionConfig, resource: &str, whole: &Quantity) -> i64 {
    let signal = match resource {
        "memory" => Signal::MemoryAvailable,
        "ephemeral-storage" => Signal::NodeFsAvailable,
        _ => return 0,
    };
    settings.hard_eviction_reservation(signal, whole.value())
}

/// `amount` minus `kept`, but not less than zero.
pub(crate) fn without(amount: &Quantity, kept: i64) -> Quantity {
    if kept == 0 {
        return amount.clone();
    }
    Quantity::new(amount.value().saturating_sub(kept).max(0), amount.format())
}

#[cfg(test)]
mod tests {
    use object::quantity::Format;

    use super::*;

    #[test]
    fn what_must_be_left_is_not_given_to_pods() {
        let settings = EvictionConfig::new(DEFAULT_HARD_THRESHOLDS).unwrap();
        let whole = Quantity::new(1 << 30, Format::BinarySi);
        let left = |resource: &str| without(&whole, kept(&settings, resource, &whole));
        assert_eq!(left("memory").value(), (1 << 30) - (100 << 20));
        assert_eq!(left("ephemeral-storage").value(), (1 << 30) - (1 << 30) / 10);
        assert_eq!(left("cpu"), whole);
    }

    #[test]
    fn this_machine_shows_all_signals() {
        let seen = observe(Path::new("/"), Path::new("/tmp"));
        for signal in [
            Signal::MemoryAvailable,
            Signal::NodeFsAvailable,
            Signal::ImageFsAvailable,
            Signal::PidAvailable,
        ] {
            let left = seen[&signal];
            assert!(left.available > 0 && left.available <= left.capacity, "{signal:?} {left:?}");
        }
    }
}
