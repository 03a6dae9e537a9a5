//! The mounts of a container: the default ones, volumes of the image, and those that the kubelet requests.

use std::path::{Component, Path, PathBuf};

use tonic::Status;

use super::spec::{SpecInputs, id_maps};
use crate::{
    cri::{LinuxContainerSecurityContext, Mount as CriMount, MountPropagation, NamespaceMode},
    spec::{Mount, MountSource, Propagation},
};

/// All mounts of a container, in mounting order.
pub(crate) fn mounts(
    parts: &SpecInputs<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Vec<Mount>, Status> {
    let config = parts.config;
    let mut wanted: Vec<Mount> = Vec::new();
    for mount in &config.mounts {
        wanted.push(convert_mount(parts, mount)?);
    }
    for mount in &wanted {
        check_target(mount)?;
    }
    let mut all = default_mounts(parts, security);
    let covered = |target: &Path| {
        wanted.iter().any(|mount| mount.target.components().eq(target.components()))
    };
    all.retain(|mount| !covered(&mount.target));
    if security.readonly_rootfs {
        // Volumes of the image are writable even if the root file system is read-only.
        for (number, target) in parts.image.config.volumes.iter().enumerate() {
            if !covered(Path::new(target)) {
                let folder = parts.folder.join("volumes").join(number.to_string());
                let volume = bind(folder, target, false);
                check_target(&volume)?;
                all.push(volume);
            }
        }
    }
    wanted.sort_by_key(|mount| mount.target.components().count()); // a stable sort keeps the given order
    all.extend(wanted);
    Ok(all)
}

/// Rejects mounts over the root and over files in /proc, except those that tools such as lxcfs replace. Only another
/// procfs may be mounted over /proc itself.
fn check_target(mount: &Mount) -> Result<(), Status> {
    const REPLACED: [&str; 10] = [
        "cpuinfo",
        "diskstats",
        "meminfo",
        "stat",
        "swaps",
        "uptime",
        "loadavg",
        "slabinfo",
        "sys/kernel/ns_last_pid",
        "sys/crypto/fips_enabled",
    ];
    let target = lexical(&mount.target);
    let refused = |why: &str| {
        Err(Status::invalid_argument(format!(
            "{} cannot be mounted because {why}",
            mount.target.display()
        )))
    };
    if target.as_os_str().is_empty() {
        return refused("it is the root");
    }
    let Ok(inside) = target.strip_prefix("proc") else { return Ok(()) };
    if inside.as_os_str().is_empty() {
        let MountSource::Bind { path, .. } = &mount.source else {
            return refused("it is not of type proc");
        };
        let kind = rustix::fs::statfs(path).map(|stat| stat.f_type);
        return if kind.is_ok_and(|kind| kind == PROC) {
            Ok(())
        } else {
            refused("it is not of type proc")
        };
    }
    if REPLACED.iter().any(|known| inside == Path::new(known)) {
        return Ok(());
    }
    refused("it is inside /proc")
}

/// PROC_SUPER_MAGIC: the type of a procfs in statfs.
const PROC: i64 = 0x9fa0;

/// Normalizes a path lexically: without leading slash, `.` and `..`.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => drop(out.pop()),
            _ => {}
        }
    }
    out
}

fn default_mounts(parts: &SpecInputs<'_>, security: &LinuxContainerSecurityContext) -> Vec<Mount> {
    let plain = |target: &str, source: MountSource, read_only: bool| Mount {
        target: target.into(),
        source,
        read_only,
        recursive_read_only: false,
    };
    let tmpfs = |options: &[(&str, &str)], no_exec| MountSource::Tmpfs {
        options: options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        no_exec,
    };
    let host_ipc = parts.sandbox.namespaces().ipc() == NamespaceMode::Node;
    let shm = if host_ipc { "/dev/shm".into() } else { parts.sandbox_folder.join("shm") };
    let file = |name: &str| parts.sandbox_folder.join(name);
    let read_only = security.readonly_rootfs;
    let queues = if host_ipc && Path::new("/dev/mqueue").exists() {
        bind("/dev/mqueue".into(), "/dev/mqueue", false)
    } else {
        plain("/dev/mqueue", MountSource::Mqueue, false)
    };
    vec![
        plain("/proc", MountSource::Proc, false),
        plain("/dev", tmpfs(&[("mode", "755"), ("size", "65536k")], false), false),
        plain("/dev/pts", MountSource::DevPts, false),
        queues,
        bind(shm, "/dev/shm", false),
        plain("/sys", MountSource::Sys, !security.privileged),
        plain(
            "/sys/fs/cgroup",
            MountSource::Cgroups { controllers: parts.controllers.clone() },
            !security.privileged,
        ),
        bind(file("hostname"), "/etc/hostname", read_only),
        bind(file("hosts"), "/etc/hosts", read_only),
        bind(file("resolv.conf"), "/etc/resolv.conf", read_only),
    ]
}

fn bind(path: PathBuf, target: &str, read_only: bool) -> Mount {
    let source =
        MountSource::Bind { path, propagation: Propagation::Private, maps: None, only_this: false };
    Mount { target: target.into(), source, read_only, recursive_read_only: false }
}

fn convert_mount(parts: &SpecInputs<'_>, mount: &CriMount) -> Result<Mount, Status> {
    let wrong =
        |what: &str| Status::invalid_argument(format!("mount of {}: {what}", mount.container_path));
    let target = PathBuf::from(&mount.container_path);
    if !target.is_absolute() {
        return Err(wrong("the path in the container is not absolute"));
    }
    if !mount.mount_options.is_empty() {
        return Err(wrong("mount options are not supported"));
    }
    if mount.selinux_relabel && Path::new("/sys/fs/selinux/enforce").exists() {
        return Err(wrong("SELinux labels are not supported"));
    }
    if mount.recursive_read_only {
        if !mount.readonly {
            return Err(wrong("recursively read-only, but not read-only"));
        }
        if mount.propagation() != MountPropagation::PropagationPrivate {
            return Err(wrong("a recursively read-only mount must be private"));
        }
    }
    let source = match &mount.image {
        Some(image) => {
            let sub_path = PathBuf::from(&mount.image_sub_path);
            let found =
                parts.volumes.get(&image.image).ok_or_else(|| wrong("the image is not here"))?;
            MountSource::Layers { layers: found.layers.clone(), sub_path }
        }
        None => MountSource::Bind {
            path: PathBuf::from(&mount.host_path),
            propagation: match mount.propagation() {
                MountPropagation::PropagationPrivate => Propagation::Private,
                MountPropagation::PropagationHostToContainer => Propagation::HostToContainer,
                MountPropagation::PropagationBidirectional => Propagation::Bidirectional,
            },
            maps: id_maps(&mount.uid_mappings, &mount.gid_mappings),
            only_this: false,
        },
    };
    let read_only = mount.readonly || mount.image.is_some();
    Ok(Mount { target, source, read_only, recursive_read_only: mount.recursive_read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_places_are_not_mounted_over() {
        let at = |target: &str, host: &str| check_target(&bind(host.into(), target, false)).is_ok();
        for target in
            ["/", "//", "/a/..", "/proc", "/proc/self", "/proc/sys/kernel", "/a/../proc/1"]
        {
            assert!(!at(target, "/tmp"), "{target}");
        }
        for (target, host) in [("/proc", "/proc"), ("/proc/meminfo", "/tmp"), ("/process", "/tmp")]
        {
            assert!(at(target, host), "{target}");
        }
    }
}
