//! Resource usage of pods: CRI statistics, and disk usage of logs and volumes.

use std::{os::unix::fs::MetadataExt, path::Path, time::Duration};

use api::core;
use container::cri::{
    self, ContainerStats, CpuUsage, ListPodSandboxStatsRequest, MemoryUsage, PodSandboxStats,
    UInt64Value,
};
use sys::disk;

use crate::{
    Config, KubeletContext, blocking,
    runtime::{labels, with_timeout},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Resource usage of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodResourceUsage {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) cpu: Cpu,
    pub(crate) memory: Memory,
    pub(crate) network: Option<cri::NetworkUsage>,
    pub(crate) processes: u64,
    pub(crate) containers: Vec<ContainerResourceUsage>,
}

/// Resource usage of a container.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerResourceUsage {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) cpu: Cpu,
    pub(crate) memory: Memory,
    pub(crate) layer_bytes: u64,
    pub(crate) layer_inodes: u64,
    pub(crate) log_bytes: u64,
    /// Disk usage of its termination messages.
    pub(crate) message_bytes: u64,
}

/// CPU usage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// When it was measured, in nanoseconds since 1970.
    pub(crate) time: i64,
    /// Cumulative CPU time in nanoseconds.
    pub(crate) usage_core_nanoseconds: u64,
    /// Current usage in billionths of a core, where the runtime reports it.
    pub(crate) usage_nano_cores: Option<u64>,
}

/// Memory usage in bytes, and numbers of page faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) working_set: u64,
    pub(crate) usage: u64,
    pub(crate) rss: u64,
    pub(crate) available: Option<u64>,
    pub(crate) faults: u64,
    pub(crate) major_faults: u64,
}

/// Resource usage of all running pods.
pub(crate) async fn pods(host: &KubeletContext) -> Result<Vec<PodResourceUsage>, String> {
    let mut cri = host.runtime.cri();
    let asked = cri.runtime.list_pod_sandbox_stats(ListPodSandboxStatsRequest { filter: None });
    let answer = with_timeout(PATIENCE, asked).await.map_err(|error| error.message().to_owned())?;
    let config = host.config.clone();
    let counted =
        move || Ok(answer.stats.into_iter().filter_map(|one| pod(&config, one)).collect());
    blocking(counted).await
}

/// Disk usage of the files that the kubelet creates for all containers of the pod to write to, in bytes: `etc-hosts`.
pub(crate) fn shared_files(config: &Config, uid: &str) -> u64 {
    let hosts = std::fs::symlink_metadata(config.pod_folder(uid).join("etc-hosts"));
    hosts.map_or(0, |meta| meta.blocks().saturating_mul(512))
}

/// Disk usage of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) bytes: i64,
    pub(crate) inodes: i64,
}

/// Disk usage of the pod's `emptyDir` volumes on disk.
pub(crate) fn volumes(config: &Config, pod: &core::Pod) -> Vec<Volume> {
    let folder = config.pod_folder(pod.metadata().uid()).join("volumes/kubernetes.io~empty-dir");
    let own = pod.spec().volumes().iter().filter(|volume| {
        let source = volume.volume_source().empty_dir();
        source.is_some_and(|empty| empty.medium() != "Memory")
    });
    own.map(|volume| {
        let (bytes, inodes) = disk::disk_usage(&folder.join(volume.name()));
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Volume { name: volume.name().to_owned(), bytes: signed(bytes), inodes: signed(inodes) }
    })
    .collect()
}

fn pod(config: &Config, stats: PodSandboxStats) -> Option<PodResourceUsage> {
    let told = stats.attributes?;
    let label = |name: &str| told.labels.get(name).cloned();
    let (name, namespace) = (label(labels::NAME)?, label(labels::NAMESPACE)?);
    let uid = label(labels::UID)?;
    let linux = stats.linux.unwrap_or_default();
    let logs = config.log_folder(&namespace, &name, &uid);
    let messages = config.pod_folder(&uid).join("containers");
    let containers = linux.containers.into_iter();
    Some(PodResourceUsage {
        cpu: linux.cpu.map(Cpu::from).unwrap_or_default(),
        memory: linux.memory.map(Memory::from).unwrap_or_default(),
        network: linux.network,
        processes: value(linux.process.and_then(|process| process.process_count)),
        containers: containers.filter_map(|one| container((&logs, &messages), one)).collect(),
        name,
        namespace,
        uid,
    })
}

fn container(folders: (&Path, &Path), stats: ContainerStats) -> Option<ContainerResourceUsage> {
    let (logs, messages) = folders;
    let told = stats.attributes?;
    let name = told.labels.get(labels::CONTAINER)?.clone();
    let layer = stats.writable_layer.unwrap_or_default();
    Some(ContainerResourceUsage {
        log_bytes: disk::disk_usage(&logs.join(&name)).0,
        message_bytes: disk::disk_usage(&messages.join(&name)).0,
        name,
        id: told.id,
        cpu: stats.cpu.map(Cpu::from).unwrap_or_default(),
        memory: stats.memory.map(Memory::from).unwrap_or_default(),
        layer_bytes: value(layer.used_bytes),
        layer_inodes: value(layer.inodes_used),
    })
}

impl From<CpuUsage> for Cpu {
    fn from(told: CpuUsage) -> Self {
        Self {
            time: told.timestamp,
            usage_core_nanoseconds: value(told.usage_core_nano_seconds),
            usage_nano_cores: told.usage_nano_cores.map(|cores| cores.value),
        }
    }
}

impl From<MemoryUsage> for Memory {
    fn from(told: MemoryUsage) -> Self {
        Self {
            working_set: value(told.working_set_bytes),
            usage: value(told.usage_bytes),
            rss: value(told.rss_bytes),
            available: told.available_bytes.map(|bytes| bytes.value),
            faults: value(told.page_faults),
            major_faults: value(told.major_page_faults),
        }
    }
}

fn value(told: Option<UInt64Value>) -> u64 {
    told.map_or(0, |told| told.value)
}
