//! CRI statistics: resource usage of pods, containers and the image file system.

use std::{fs, path::Path};

use sys::{cgroup::Usage, disk};

use super::{
    Inner, matches_labels, now,
    state::{ContainerRecord, SandboxRecord},
};
use crate::cri::{
    ContainerAttributes, ContainerState, ContainerStats, ContainerStatsFilter, CpuUsage,
    FilesystemIdentifier, FilesystemUsage, ImageFsInfoResponse, LinuxPodSandboxStats, MemoryUsage,
    NetworkInterfaceUsage, NetworkUsage, PodSandboxAttributes, PodSandboxStats,
    PodSandboxStatsFilter, ProcessUsage, SwapUsage, UInt64Value,
};

impl Inner {
    pub(super) fn container_stats(&self, container: &ContainerRecord) -> ContainerStats {
        let config = container.config();
        let usage = self.usage(&container.cgroup);
        let folder = self.state.container_folder(&container.id);
        // Containers also write to files of the pod, such as /etc/resolv.conf.
        let shared = disk::disk_usage(&self.state.sandbox_folder(&container.sandbox)).0;
        let (bytes, inodes) = disk::disk_usage(&folder.join("upper"));
        // Volumes of the image, which exist where the root is read-only.
        let volumes = disk::disk_usage(&folder.join("volumes"));
        let bytes = bytes.saturating_add(shared).saturating_add(volumes.0);
        let inodes = inodes.saturating_add(volumes.1);
        ContainerStats {
            attributes: Some(ContainerAttributes {
                id: container.id.clone(),
                metadata: config.metadata.clone(),
                labels: config.labels.clone(),
                annotations: config.annotations.clone(),
            }),
            cpu: usage.map(cpu),
            memory: usage.map(memory),
            writable_layer: Some(FilesystemUsage {
                timestamp: now(),
                fs_id: Some(identifier(&self.config.root)),
                used_bytes: value(bytes),
                inodes_used: value(inodes),
            }),
            swap: usage.map(|_| SwapUsage {
                timestamp: now(),
                swap_available_bytes: value(0),
                swap_usage_bytes: value(0),
            }),
            io: None,
        }
    }

    pub(super) fn list_stats(&self, filter: Option<ContainerStatsFilter>) -> Vec<ContainerStats> {
        let filter = filter.unwrap_or_default();
        let wanted = |one: &ContainerRecord| {
            one.state() == ContainerState::ContainerRunning
                && (filter.id.is_empty() || one.id.starts_with(&filter.id))
                && (filter.pod_sandbox_id.is_empty()
                    || one.sandbox.starts_with(&filter.pod_sandbox_id))
                && matches_labels(&filter.label_selector, &one.config().labels)
        };
        self.state
            .containers()
            .iter()
            .filter(|one| wanted(one))
            .map(|one| self.container_stats(one))
            .collect()
    }

    pub(super) fn sandbox_stats(&self, sandbox: &SandboxRecord) -> PodSandboxStats {
        let config = sandbox.config();
        let containers: Vec<_> = self
            .state
            .containers_of(&sandbox.id)
            .iter()
            .filter(|one| one.state() == ContainerState::ContainerRunning)
            .map(|one| self.container_stats(one))
            .collect();
        // The pod's own cgroup contains all containers, if a kubelet created one.
        let parent =
            config.linux.as_ref().map(|linux| linux.cgroup_parent.as_str()).unwrap_or_default();
        let group = if parent.is_empty() { &sandbox.cgroup } else { parent };
        let usage = self.usage(group);
        let process = usage
            .map(|usage| ProcessUsage { timestamp: now(), process_count: value(usage.processes) });
        PodSandboxStats {
            attributes: Some(PodSandboxAttributes {
                id: sandbox.id.clone(),
                metadata: config.metadata.clone(),
                labels: config.labels.clone(),
                annotations: config.annotations.clone(),
            }),
            linux: Some(LinuxPodSandboxStats {
                cpu: usage.map(cpu),
                memory: usage.map(memory),
                network: network(sandbox),
                process,
                containers,
                io: None,
            }),
            windows: None,
        }
    }

    pub(super) fn list_sandbox_stats(
        &self,
        filter: Option<PodSandboxStatsFilter>,
    ) -> Vec<PodSandboxStats> {
        let filter = filter.unwrap_or_default();
        let wanted = |one: &SandboxRecord| {
            one.ready
                && (filter.id.is_empty() || one.id.starts_with(&filter.id))
                && matches_labels(&filter.label_selector, &one.config().labels)
        };
        self.state
            .sandboxes()
            .iter()
            .filter(|one| wanted(one))
            .map(|one| self.sandbox_stats(one))
            .collect()
    }

    pub(super) fn image_fs_info(&self) -> ImageFsInfoResponse {
        let usage = self.store.usage();
        let (bytes, inodes) = disk::disk_usage(&self.config.root.join("containers"));
        let of = |path: &Path, bytes, inodes| FilesystemUsage {
            timestamp: now(),
            fs_id: Some(identifier(path)),
            used_bytes: value(bytes),
            inodes_used: value(inodes),
        };
        ImageFsInfoResponse {
            image_filesystems: vec![of(self.store.dir(), usage.bytes, usage.inodes)],
            container_filesystems: vec![of(&self.config.root, bytes, inodes)],
        }
    }

    /// Usage of a cgroup; `None` if it no longer exists.
    fn usage(&self, cgroup: &str) -> Option<Usage> {
        self.cgroup(cgroup).and_then(|group| group.usage()).ok()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "fields of messages are optional")]
fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

fn cpu(usage: Usage) -> CpuUsage {
    CpuUsage {
        timestamp: now(),
        usage_core_nano_seconds: value(usage.cpu_nanoseconds),
        usage_nano_cores: None,
        psi: None,
    }
}

fn memory(usage: Usage) -> MemoryUsage {
    let available = usage.memory_limit.map(|limit| limit.saturating_sub(usage.working_set));
    MemoryUsage {
        timestamp: now(),
        working_set_bytes: value(usage.working_set),
        available_bytes: available.and_then(value),
        usage_bytes: value(usage.memory),
        rss_bytes: value(usage.rss),
        page_faults: value(usage.page_faults),
        major_page_faults: value(usage.major_page_faults),
        psi: None,
    }
}

fn identifier(path: &Path) -> FilesystemIdentifier {
    FilesystemIdentifier { mountpoint: path.to_string_lossy().into_owned() }
}

/// Usage of the pod's network interfaces, from its /proc/PID/net/dev.
fn network(sandbox: &SandboxRecord) -> Option<NetworkUsage> {
    if !sandbox.ready || sandbox.host_network() {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{}/net/dev", sandbox.pid)).ok()?;
    let interfaces: Vec<_> =
        text.lines().filter_map(interface).filter(|one| one.name != "lo").collect();
    let default = interfaces.iter().find(|one| one.name == "eth0").or(interfaces.first()).cloned();
    Some(NetworkUsage { timestamp: now(), default_interface: default, interfaces })
}

fn interface(line: &str) -> Option<NetworkInterfaceUsage> {
    let (name, rest) = line.split_once(':')?;
    let numbers: Vec<u64> = rest.split_whitespace().filter_map(|one| one.parse().ok()).collect();
    let at = |index: usize| numbers.get(index).copied().and_then(value);
    Some(NetworkInterfaceUsage {
        name: name.trim().to_owned(),
        rx_bytes: at(0),
        rx_errors: at(2),
        tx_bytes: at(8),
        tx_errors: at(10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_by_line() {
        let line = "  eth0: 100 2 0 0 0 0 0 0 200 3 1 0 0 0 0 0";
        let usage = interface(line).expect("an interface");
        assert_eq!(usage.name, "eth0");
        assert_eq!(usage.rx_bytes, value(100));
        assert_eq!(usage.tx_bytes, value(200));
        assert_eq!(usage.tx_errors, value(1));
        assert!(interface("Inter-|   Receive").is_none());
    }
}
