//! Specifications of sandboxes and containers, from the server to the shim. They are complete, so that the shim makes
//! no decisions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The process that holds a pod's namespaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one for each namespace, in any combination")]
pub(crate) struct SandboxSpec {
    pub(crate) hostname: String,
    pub(crate) new_network_namespace: bool,
    pub(crate) own_ipc: bool,
    pub(crate) own_pid: bool,
    pub(crate) own_uts: bool,
    pub(crate) sysctls: Vec<(String, String)>,
    /// The `cgroup.procs` files to write the pid to.
    pub(crate) cgroup_procs: Vec<PathBuf>,
    pub(crate) id_maps: Option<IdMaps>,
    pub(crate) oom_score_adj: i32,
    /// The `cgroup.procs` files of the shim's own cgroup.
    #[serde(default)]
    pub(crate) shim_cgroup: Vec<PathBuf>,
}

/// Id maps of a user namespace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IdMaps {
    pub(crate) uids: Vec<IdMap>,
    pub(crate) gids: Vec<IdMap>,
}

/// Maps a range of ids inside the user namespace to ids outside.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct IdMap {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) length: u32,
}

/// A container: root file system, mounts, first process, log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContainerSpec {
    pub(crate) root: Rootfs,
    /// In mounting order.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) devices: Vec<Device>,
    pub(crate) masked_paths: Vec<PathBuf>,
    pub(crate) read_only_paths: Vec<PathBuf>,
    pub(crate) pid: PidNamespace,
    pub(crate) process: Process,
    pub(crate) cgroup_procs: Vec<PathBuf>,
    /// Path of the same cgroup, for reading its state.
    pub(crate) cgroup_path: String,
    pub(crate) log: Option<PathBuf>,
    pub(crate) stdin: bool,
    pub(crate) stdin_once: bool,
}

/// The overlay mount of a container's root.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rootfs {
    /// Lower directories, lowest first.
    pub(crate) layers: Vec<PathBuf>,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
    /// An empty directory to mount on.
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// A mount in a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) target: PathBuf,
    pub(crate) source: MountSource,
    pub(crate) read_only: bool,
    /// Whether mounts below the source become read-only too.
    pub(crate) recursive_read_only: bool,
}

/// What is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum MountSource {
    Bind {
        path: PathBuf,
        propagation: Propagation,
        maps: Option<IdMaps>,
        only_this: bool,
    },
    /// Directories stacked as a read-only overlay, lowest first; if `sub_path` is not empty, only that part.
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
    /// The container's own cgroups: version 1 by controller, version 2 if the list is empty.
    Cgroups {
        controllers: Vec<String>,
    },
}

/// Mount propagation of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Propagation {
    Private,
    HostToContainer,
    Bidirectional,
}

/// A device node to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) target: PathBuf,
    /// The host's device whose type, numbers and owner it gets.
    pub(crate) host: PathBuf,
}

/// The PID namespace of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PidNamespace {
    Own,
    Pod,
    Host,
    /// That of another container of the pod, by its id.
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
    /// File with the compiled seccomp filters.
    pub(crate) seccomp: Option<PathBuf>,
    pub(crate) oom_score_adj: Option<i32>,
    pub(crate) terminal: bool,
}

/// Capability sets as bit masks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Capabilities {
    pub(crate) bounding: u64,
    pub(crate) inheritable: u64,
    pub(crate) ambient: u64,
}

/// The user of a process, to be resolved with the container's own account files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct User {
    /// `name`, `uid`, `name:group` or `uid:gid`; empty means root.
    pub(crate) name: String,
    pub(crate) gid: Option<u32>,
    pub(crate) groups: Vec<u32>,
    /// Whether to leave out the groups from the container's /etc/group.
    pub(crate) strict_groups: bool,
}
