//! Translates a CRI container configuration into a specification for the shim. Pure, except that it inspects devices
//! and paths of the host.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

use sys::{
    capability::{CapabilitySet, bounding},
    cgroup::Limits,
};
use tonic::Status;

use super::{devices, mounts::mounts, state::SandboxRecord};
use crate::{
    cri::{
        ContainerConfig, IdMapping, LinuxContainerResources, LinuxContainerSecurityContext,
        NamespaceMode, SeLinuxOption, SupplementalGroupsPolicy,
    },
    image::{Config as ImageConfig, Image},
    spec::{Capabilities, ContainerSpec, IdMap, IdMaps, PidNamespace, Process, Rootfs, User},
};

/// The inputs of a container specification.
#[derive(Debug)]
pub(crate) struct SpecInputs<'a> {
    pub(crate) sandbox: &'a SandboxRecord,
    pub(crate) sandbox_folder: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) config: &'a ContainerConfig,
    pub(crate) image: &'a Image,
    /// Images that are mounted as volumes, by reference.
    pub(crate) volumes: &'a BTreeMap<String, Image>,
    pub(crate) cgroup: &'a str,
    pub(crate) cgroup_procs: Vec<PathBuf>,
    /// Controllers of cgroup version 1.
    pub(crate) controllers: Vec<String>,
    pub(crate) hostname: &'a str,
}

/// Default capabilities of containers, the same as in other runtimes.
const DEFAULT_CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// The specification of a container.
pub(crate) fn container(parts: &SpecInputs<'_>) -> Result<ContainerSpec, Status> {
    let config = parts.config;
    let security = security(config);
    reject_unsupported(config, &security)?;
    let privileged = security.privileged;
    let path = |name: &str| parts.folder.join(name);
    let devices = if privileged {
        devices::host_devices()
    } else {
        devices::container_devices(&config.devices)?.0
    };
    let lists = |paths: &[String]| -> Vec<PathBuf> {
        if privileged { Vec::new() } else { paths.iter().map(PathBuf::from).collect() }
    };
    Ok(ContainerSpec {
        root: Rootfs {
            layers: parts.image.layers.clone(),
            upper: path("upper"),
            work: path("work"),
            target: path("rootfs"),
            read_only: security.readonly_rootfs,
        },
        mounts: mounts(parts, &security)?,
        devices,
        masked_paths: lists(&security.masked_paths),
        read_only_paths: lists(&security.readonly_paths),
        pid: pid(&security)?,
        process: process(parts, &security)?,
        cgroup_procs: parts.cgroup_procs.clone(),
        cgroup_path: parts.cgroup.to_owned(),
        log: log_path(parts),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
    })
}

pub(crate) fn security(config: &ContainerConfig) -> LinuxContainerSecurityContext {
    let linux = config.linux.as_ref();
    linux.and_then(|linux| linux.security_context.clone()).unwrap_or_default()
}

fn log_path(parts: &SpecInputs<'_>) -> Option<PathBuf> {
    let folder = &parts.sandbox.config().log_directory;
    let wanted = !folder.is_empty() && !parts.config.log_path.is_empty();
    wanted.then(|| Path::new(folder).join(&parts.config.log_path))
}

/// Rejects settings that are not supported, instead of ignoring them.
fn reject_unsupported(
    config: &ContainerConfig,
    security: &LinuxContainerSecurityContext,
) -> Result<(), Status> {
    let confined = |profile: &str| !matches!(profile, "" | "unconfined" | "runtime/default");
    let apparmor =
        security.apparmor.as_ref().is_some_and(|profile| !profile.localhost_ref.is_empty());
    if apparmor || confined(&security.apparmor_profile) {
        return Err(Status::invalid_argument("AppArmor profiles are not supported"));
    }
    reject_selinux_labels(security.selinux_options.as_ref())?;
    if !config.cdi_devices.is_empty() {
        return Err(Status::invalid_argument("CDI devices are not supported"));
    }
    let by_name = !security.run_as_username.is_empty();
    if security.run_as_group.is_some() && security.run_as_user.is_none() && !by_name {
        return Err(Status::invalid_argument("a group is given without a user"));
    }
    Ok(())
}

/// Rejects SELinux labels on hosts with SELinux, where ignoring them would weaken isolation. Elsewhere they have no
/// meaning, and pods may carry them all the same.
pub(crate) fn reject_selinux_labels(options: Option<&SeLinuxOption>) -> Result<(), Status> {
    let asked = options.is_some_and(|options| *options != SeLinuxOption::default());
    if asked && Path::new("/sys/fs/selinux/enforce").exists() {
        return Err(Status::invalid_argument("SELinux labels are not supported"));
    }
    Ok(())
}

fn pid(security: &LinuxContainerSecurityContext) -> Result<PidNamespace, Status> {
    let options = security.namespace_options.clone().unwrap_or_default();
    Ok(match options.pid() {
        NamespaceMode::Pod => PidNamespace::Pod,
        NamespaceMode::Container => PidNamespace::Own,
        NamespaceMode::Node => PidNamespace::Host,
        NamespaceMode::Target if options.target_id.is_empty() => {
            return Err(Status::invalid_argument("pid namespace of a target, but no target"));
        }
        NamespaceMode::Target => PidNamespace::Target(options.target_id),
    })
}

fn process(
    parts: &SpecInputs<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Process, Status> {
    let (config, image) = (parts.config, &parts.image.config);
    let cwd = [&config.working_dir, &image.working_dir].into_iter().find(|one| !one.is_empty());
    let resources = config.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    Ok(Process {
        args: args(config, image)?,
        env: environment(parts, image)?,
        cwd: cwd.map_or_else(|| "/".into(), PathBuf::from),
        user: user(security, image)?,
        capabilities: capabilities(security)?,
        no_new_privileges: security.no_new_privs && !security.privileged,
        seccomp: None,
        // also without a requested value, because the shim's own score would be inherited
        oom_score_adj: Some(
            resources
                .and_then(|resources| i32::try_from(resources.oom_score_adj).ok())
                .unwrap_or_default(),
        ),
        terminal: config.tty,
    })
}

fn args(config: &ContainerConfig, image: &ImageConfig) -> Result<Vec<String>, Status> {
    let (command, args) = match (&config.command[..], &config.args[..]) {
        ([], []) => (&image.entrypoint[..], &image.cmd[..]),
        ([], args) => (&image.entrypoint[..], args),
        (command, args) => (command, args),
    };
    let all: Vec<_> = command.iter().chain(args).cloned().collect();
    if all.is_empty() { Err(Status::invalid_argument("no command specified")) } else { Ok(all) }
}

fn environment(parts: &SpecInputs<'_>, image: &ImageConfig) -> Result<Vec<String>, Status> {
    let of_image = image.env.iter().map(|one| one.split_once('=').unwrap_or((one, "")));
    let mut all: Vec<_> = std::iter::once(("HOSTNAME", parts.hostname)).chain(of_image).collect();
    for one in &parts.config.envs {
        let value = std::str::from_utf8(&one.value).map_err(|_| {
            Status::invalid_argument(format!("the value of variable {} is no UTF-8", one.key))
        })?;
        all.push((&one.key, value));
    }
    Ok(last_of_each(&all))
}

/// Of variables with the same name the last one wins, at its last position.
fn last_of_each(all: &[(&str, &str)]) -> Vec<String> {
    let mut seen = HashSet::new();
    let last = all.iter().rev().filter(|(key, _)| seen.insert(*key));
    let mut env: Vec<_> = last.map(|(key, value)| format!("{key}={value}")).collect();
    env.reverse();
    env
}

fn user(security: &LinuxContainerSecurityContext, image: &ImageConfig) -> Result<User, Status> {
    let number = |value: i64| {
        u32::try_from(value)
            .map_err(|_| Status::invalid_argument(format!("{value} is no user or group")))
    };
    let name = match &security.run_as_user {
        Some(uid) => number(uid.value)?.to_string(),
        None if !security.run_as_username.is_empty() => security.run_as_username.clone(),
        None => image.user.clone(),
    };
    Ok(User {
        name,
        gid: security.run_as_group.as_ref().map(|gid| number(gid.value)).transpose()?,
        groups: security
            .supplemental_groups
            .iter()
            .map(|gid| number(*gid))
            .collect::<Result<_, _>>()?,
        strict_groups: security.supplemental_groups_policy() == SupplementalGroupsPolicy::Strict,
    })
}

/// The capability sets of a container: the defaults plus added minus dropped ones, within the bounding set.
pub(crate) fn capabilities(
    security: &LinuxContainerSecurityContext,
) -> Result<Capabilities, Status> {
    let possible = bounding();
    if security.privileged {
        return Ok(Capabilities { bounding: possible.0, inheritable: 0, ambient: 0 });
    }
    let named = |names: &[String]| {
        names.iter().try_fold(CapabilitySet::default(), |all, name| {
            if name.eq_ignore_ascii_case("ALL") {
                return Ok(CapabilitySet::ALL);
            }
            let one = CapabilitySet::from_name(name)
                .ok_or_else(|| Status::invalid_argument(format!("unknown capability {name:?}")))?;
            Ok::<_, Status>(all.union(one))
        })
    };
    let wanted = security.capabilities.clone().unwrap_or_default();
    let default = DEFAULT_CAPABILITIES
        .iter()
        .filter_map(|name| CapabilitySet::from_name(name))
        .fold(CapabilitySet::default(), CapabilitySet::union);
    let (add, drop) = (named(&wanted.add_capabilities)?, named(&wanted.drop_capabilities)?);
    let ambient = named(&wanted.add_ambient_capabilities)?.intersection(possible);
    // "drop ALL" is applied before additions, "add ALL" before drops.
    let set = if drop == CapabilitySet::ALL { add } else { default.union(add).difference(drop) };
    let set = set.union(ambient);
    let missing = add.difference(possible);
    if add != CapabilitySet::ALL && missing != CapabilitySet::default() {
        tracing::warn!(?missing, "the kernel lacks capabilities that a container requests");
    }
    let set = set.intersection(possible);
    Ok(Capabilities { bounding: set.0, inheritable: ambient.0, ambient: ambient.0 })
}

pub(crate) fn id_maps(uids: &[IdMapping], gids: &[IdMapping]) -> Option<IdMaps> {
    let map = |from: &IdMapping| IdMap {
        inside: from.container_id,
        outside: from.host_id,
        length: from.length,
    };
    let maps =
        IdMaps { uids: uids.iter().map(map).collect(), gids: gids.iter().map(map).collect() };
    (!maps.uids.is_empty() || !maps.gids.is_empty()).then_some(maps)
}

/// The cgroup limits of CRI resources. In CRI, zero and empty mean "not set".
pub(crate) fn limits(resources: &LinuxContainerResources) -> Limits {
    let said = |value: i64| (value != 0).then_some(value);
    let unsigned = |value: i64| said(value).and_then(|value| u64::try_from(value).ok());
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let memory = said(resources.memory_limit_in_bytes);
    Limits {
        cpu_shares: unsigned(resources.cpu_shares),
        cpu_quota: said(resources.cpu_quota),
        cpu_period: unsigned(resources.cpu_period),
        memory,
        // Without a swap limit no swap is allowed; otherwise a memory limit could be evaded.
        memory_and_swap: said(resources.memory_swap_limit_in_bytes).or(memory),
        pids: None,
        cpuset_cpus: text(&resources.cpuset_cpus),
        cpuset_mems: text(&resources.cpuset_mems),
        huge_pages: resources
            .hugepage_limits
            .iter()
            .map(|one| (one.page_size.clone(), one.limit))
            .collect(),
        unified: resources
            .unified
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{Capability, Int64Value};

    fn with(add: &[&str], drop: &[&str]) -> CapabilitySet {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let capabilities = Capability {
            add_capabilities: list(add),
            drop_capabilities: list(drop),
            ..Capability::default()
        };
        let security = LinuxContainerSecurityContext {
            capabilities: Some(capabilities),
            ..LinuxContainerSecurityContext::default()
        };
        CapabilitySet(super::capabilities(&security).expect("known").bounding)
    }

    #[test]
    fn capabilities_are_added_and_dropped() {
        let one = |name: &str| CapabilitySet::from_name(name).expect("known");
        assert!(with(&["NET_ADMIN"], &[]).contains(one("NET_ADMIN").union(one("CHOWN"))));
        assert!(!with(&[], &["CHOWN"]).contains(one("CHOWN")));
        assert_eq!(with(&["CHOWN"], &["ALL"]), one("CHOWN"));
        assert!(!with(&["ALL"], &["CHOWN"]).contains(one("CHOWN")));
    }

    #[test]
    fn commands_follow_the_image() {
        let image = ImageConfig {
            entrypoint: vec!["e".into()],
            cmd: vec!["c".into()],
            ..ImageConfig::default()
        };
        let of = |command: &[&str], given: &[&str]| {
            let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let config = ContainerConfig {
                command: list(command),
                args: list(given),
                ..ContainerConfig::default()
            };
            args(&config, &image).expect("a command").join(" ")
        };
        assert_eq!(of(&[], &[]), "e c");
        assert_eq!(of(&[], &["a"]), "e a");
        assert_eq!(of(&["x"], &[]), "x");
        assert_eq!(of(&["x"], &["a"]), "x a");
    }

    /// An image may have as many variables as fit into 2 MiB; a quadratic comparison takes minutes.
    #[test]
    fn many_variables_take_little_time() {
        assert_eq!(last_of_each(&[("a", "1"), ("b", "2"), ("a", "3")]), ["b=2", "a=3"]);
        let names: Vec<_> = (0..400_000).map(|at: u32| format!("{at:x}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        let began = std::time::Instant::now();
        assert_eq!(last_of_each(&all).len(), all.len());
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }

    #[test]
    fn a_group_needs_a_user() {
        let security = LinuxContainerSecurityContext {
            run_as_group: Some(Int64Value { value: 5 }),
            ..LinuxContainerSecurityContext::default()
        };
        assert!(reject_unsupported(&ContainerConfig::default(), &security).is_err());
    }
}
