//! What the server tells a shim to run: complete, so that the shim decides nothing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The holder of a pod's namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one for each namespace, in any combination")]
pub(crate) struct SandboxSpec {
    pub(crate) hostname: String,
    pub(crate) new_network_namespace: bool,
    pub(crate) own_ipc: bool,
    pub(crate) own_pid: bool,
    pub(crate) own_uts: bool,
    pub(crate) sysctls: Vec<(String, String)>,
    /// Files to write a process id to.
    pub(crate) cgroup_procs: Vec<PathBuf>,
    pub(crate) id_maps: Option<IdMaps>,
    pub(crate) oom_score_adj: i32,
    /// The same of the shim itself.
    #[serde(default)]
    pub(crate) shim_cgroup: Vec<PathBuf>,
}

/// Owners inside a user namespace and outside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IdMaps {
    pub(crate) uids: Vec<IdMap>,
    pub(crate) gids: Vec<IdMap>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct IdMap {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) length: u32,
}

/// A container: its files, its first process, its output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContainerSpec {
    pub(crate) root: Rootfs,
    /// In the order of mounting.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) devices: Vec<Device>,
    pub(crate) masked_paths: Vec<PathBuf>,
    pub(crate) read_only_paths: Vec<PathBuf>,
    pub(crate) pid: PidNamespace,
    pub(crate) process: Process,
    pub(crate) cgroup_procs: Vec<PathBuf>,
    /// The same group by its path, for what the kernel says of it.
    pub(crate) cgroup_path: String,
    pub(crate) log: Option<PathBuf>,
    pub(crate) stdin: bool,
    pub(crate) stdin_once: bool,
}

/// An overlay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rootfs {
    /// The lowest first.
    pub(crate) layers: Vec<PathBuf>,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
    /// An empty folder to mount on.
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) target: PathBuf,
    pub(crate) source: MountSource,
    pub(crate) read_only: bool,
    /// Also what is mounted below the source.
    pub(crate) recursive_read_only: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum MountSource {
    Bind {
        path: PathBuf,
        propagation: Propagation,
        maps: Option<IdMaps>,
        only_this: bool,
    },
    /// Folders stacked as an overlay that cannot be written, the lowest first; only `sub_path` of it if not empty.
    Layers {
        layers: Vec<PathBuf>,
        sub_path: PathBuf,
    },
    Proc,
    Sys,
    Tmpfs {
        options: Vec<(String, String)>,
        no_exec: bool,
    },
    DevPts,
    Mqueue,
    /// The container's own groups: version 1 by controller, version 2 if there are none.
    Cgroups {
        controllers: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Propagation {
    Private,
    HostToContainer,
    Bidirectional,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) target: PathBuf,
    /// The device to take type, numbers and owner from.
    pub(crate) host: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PidNamespace {
    Own,
    Pod,
    Host,
    /// That of another container of the pod.
    Target(String),
}

/// A process of a container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) user: User,
    pub(crate) capabilities: Capabilities,
    pub(crate) no_new_privileges: bool,
    /// A file with compiled system call filters.
    pub(crate) seccomp: Option<PathBuf>,
    pub(crate) oom_score_adj: Option<i32>,
    pub(crate) terminal: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Capabilities {
    pub(crate) bounding: u64,
    pub(crate) inheritable: u64,
    pub(crate) ambient: u64,
}

/// Who to be, to be looked up in the container's own files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct User {
    /// `name`, `uid`, `name:group` or `uid:gid`; empty: root.
    pub(crate) name: String,
    pub(crate) gid: Option<u32>,
    pub(crate) groups: Vec<u32>,
    /// Do not add the groups that the container's /etc/group names.
    pub(crate) strict_groups: bool,
}
