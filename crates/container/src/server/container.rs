//! Containers: create, start, stop and remove.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sys::cgroup::Limits;
use tonic::Status;

use super::{
    Inner, blocking,
    caller::Caller,
    devices, internal, now,
    sandbox::hostname,
    spec::{self, SpecInputs, limits, security},
    state::{ContainerRecord, SandboxRecord},
};
use crate::{
    cri::{
        ContainerConfig, ContainerEventType, ContainerState, LinuxContainerSecurityContext,
        SecurityProfile, Signal, security_profile::ProfileType,
    },
    image::Image,
    shim::protocol::{Exit, Request},
};

/// The inputs of a new container.
struct NewContainer {
    id: String,
    cgroup: String,
    config: ContainerConfig,
    image: Image,
}

pub(super) const SPEC: &str = "config.json";
const SECCOMP_FILE: &str = "seccomp.json";

impl Inner {
    pub(super) async fn create_container(
        self: &Arc<Self>,
        sandbox: &str,
        config: ContainerConfig,
        caller: Caller,
    ) -> Result<String, Status> {
        let sandbox = self.state.sandbox(sandbox)?;
        if !sandbox.ready {
            return Err(Status::failed_precondition(format!(
                "sandbox {} is not ready",
                sandbox.id
            )));
        }
        let metadata = config.metadata.as_ref();
        if metadata.is_none_or(|metadata| metadata.name.is_empty()) {
            return Err(Status::invalid_argument("container config must include metadata"));
        }
        let asked = config.image.as_ref().map(|image| image.image.clone()).unwrap_or_default();
        let missing = || Status::not_found(format!("image {asked:?} not found"));
        let image = self.store.resolve(&asked).ok_or_else(missing)?;
        let id = self.new_id();
        let parent = sandbox.config().linux.as_ref().map(|linux| linux.cgroup_parent.clone());
        let cgroup = self.cgroup_path(&parent.unwrap_or_default(), &id);
        let new = NewContainer { id: id.clone(), cgroup: cgroup.clone(), config, image };
        let (inner, pod) = (self.clone(), sandbox.clone());
        if let Err(error) = blocking(move || inner.prepare_container(&pod, new, &caller)).await {
            self.delete_container_resources(&id, &cgroup).await;
            return Err(error);
        }
        self.event(ContainerEventType::ContainerCreatedEvent, &id, &sandbox.id);
        Ok(id)
    }

    /// Creates the record, directories, cgroup, seccomp filter and specification of a container.
    fn prepare_container(
        &self,
        sandbox: &SandboxRecord,
        new: NewContainer,
        caller: &Caller,
    ) -> Result<(), Status> {
        let NewContainer { id, cgroup, config, image } = new;
        let image = &image;
        let folder = self.state.container_folder(&id);
        let sandbox_folder = self.state.sandbox_folder(&sandbox.id);
        let group = self.cgroup(&cgroup).map_err(internal("find the cgroup"))?;
        let volumes = self.image_volumes(&config)?;
        self.store
            .lease_layers(&id, std::iter::once(image).chain(volumes.values()))
            .map_err(|error| Status::unknown(error.to_string()))?;
        let parts = SpecInputs {
            sandbox,
            sandbox_folder: &sandbox_folder,
            folder: &folder,
            config: &config,
            image,
            volumes: &volumes,
            cgroup: &cgroup,
            cgroup_procs: group.procs_files(),
            controllers: self.cgroups.controllers().into_iter().map(|(name, _)| name).collect(),
            hostname: &hostname(sandbox.config(), sandbox.host_network()),
        };
        let mut spec = spec::container(&parts)?;
        let resources = config.linux.as_ref().and_then(|linux| linux.resources.clone());
        let container = ContainerRecord {
            id,
            sandbox: sandbox.id.clone(),
            image_id: image.id.clone(),
            image_ref: image.repo_digests.first().unwrap_or(&image.id).clone(),
            created_at: now(),
            cgroup: cgroup.clone(),
            log_path: spec
                .log
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default(),
            stop_signal: stop_signal(&config, image),
            resources: resources.clone(),
            config: Some(config.clone()),
            ..ContainerRecord::default()
        };
        self.state.begin_container(&container).map_err(internal("record the container"))?;
        let security = security(&config);
        make_folders(&folder, image, sandbox).map_err(internal("make the container's folders"))?;
        create_mount_sources(&config).map_err(internal("make the sources of mounts"))?;
        if let Some(filter) = self.filter(&security, spec.process.capabilities.bounding)? {
            let path = folder.join(SECCOMP_FILE);
            fs::write(&path, filter).map_err(internal("write the filter"))?;
            spec.process.seccomp = Some(path);
        }
        let rules = if security.privileged {
            vec!["a".to_owned()]
        } else {
            devices::container_devices(&config.devices)?.1
        };
        let limited = group.create().and_then(|()| {
            let limits = resources.as_ref().map(limits).unwrap_or_default();
            group.apply_limits(&Limits { pids: self.config.pids_limit, ..limits })?;
            group.allow_devices(&rules)
        });
        limited.map_err(internal("limit the container"))?;
        let json =
            serde_json::to_vec(&spec).map_err(|error| Status::internal(error.to_string()))?;
        fs::write(folder.join(SPEC), json).map_err(internal("write the specification"))?;
        caller.check()?;
        self.state.put_container(container).map_err(internal("record the container"))
    }

    /// The images that the container mounts as volumes.
    fn image_volumes(&self, config: &ContainerConfig) -> Result<BTreeMap<String, Image>, Status> {
        let wanted = config.mounts.iter().filter_map(|mount| mount.image.as_ref());
        wanted
            .map(|spec| {
                let missing = || Status::not_found(format!("image {:?} not found", spec.image));
                Ok((spec.image.clone(), self.store.resolve(&spec.image).ok_or_else(missing)?))
            })
            .collect()
    }

    /// The compiled seccomp filter of a container; `None` for an unconfined one.
    fn filter(
        &self,
        security: &LinuxContainerSecurityContext,
        capabilities: u64,
    ) -> Result<Option<Arc<[u8]>>, Status> {
        let profile = profile(security)?;
        let wrong = |error: io::Error| Status::invalid_argument(format!("seccomp: {error}"));
        match profile.profile_type() {
            _ if security.privileged => Ok(None),
            ProfileType::Unconfined => Ok(None),
            ProfileType::RuntimeDefault => {
                self.default_filter(capabilities).map(Some).map_err(wrong)
            }
            ProfileType::Localhost => {
                if profile.localhost_ref.is_empty() {
                    return Err(Status::invalid_argument(
                        "seccomp: a localhost profile needs a path",
                    ));
                }
                let filters =
                    crate::seccomp::from_file(Path::new(&profile.localhost_ref)).map_err(wrong)?;
                let json = serde_json::to_vec(&filters)
                    .map_err(|error| Status::internal(error.to_string()))?;
                Ok(Some(json.into()))
            }
        }
    }

    pub(super) async fn start_container(self: &Arc<Self>, id: &str) -> Result<(), Status> {
        let container = self.state.container(id)?;
        if container.state() != ContainerState::ContainerCreated {
            return Err(Status::failed_precondition(format!("container {id} was started before")));
        }
        let id = container.id;
        let spec = self.state.container_folder(&id).join(SPEC);
        let started = self.shim(&container.sandbox).start_container(&id, spec).await;
        self.change_container(&id, |container| match &started {
            Ok(started) => container.started(started),
            Err(error) => {
                container.started_at = now();
                container.failed(error.to_string(), now());
            }
        });
        let started = started.map_err(internal("start the container"))?;
        for warning in &started.warnings {
            tracing::warn!(container = id, "{warning}");
        }
        self.event(ContainerEventType::ContainerStartedEvent, &id, &container.sandbox);
        self.watch_container(container.sandbox, id);
        Ok(())
    }

    /// Records the exit that the shim reports; if the shim is lost, kills the container's cgroup.
    pub(super) async fn container_ended(self: &Arc<Self>, id: &str, exit: io::Result<Exit>) {
        let Ok(container) = self.state.container(id) else { return };
        let exit = match exit {
            Ok(exit) => exit,
            Err(error) => {
                tracing::warn!(container = id, %error, "lost the connection to the shim");
                self.kill_group(&container.cgroup).await;
                Exit { code: 255, at: now(), out_of_memory: false }
            }
        };
        self.change_container(id, |container| container.ended(exit));
        self.event(ContainerEventType::ContainerStoppedEvent, id, &container.sandbox);
    }

    /// Changes a record in memory at once. The write to disk happens in the background, because it may be slow.
    pub(super) fn change_container(
        self: &Arc<Self>,
        id: &str,
        change: impl FnOnce(&mut ContainerRecord),
    ) {
        self.state.change_container(id, change);
        let (inner, id) = (self.clone(), id.to_owned());
        self.tasks.spawn(blocking(move || {
            inner.state.save_container(&id);
            Ok(())
        }));
    }

    /// Kills all processes of a cgroup and its descendants.
    pub(super) async fn kill_group(&self, path: &str) {
        let group = self.cgroup(path);
        let killed = blocking(move || {
            group.and_then(|group| group.kill_all()).map_err(internal("end the processes"))
        });
        if let Err(status) = killed.await {
            tracing::warn!(
                group = path,
                error = status.message(),
                "cannot kill all processes of a cgroup"
            );
        }
    }

    /// Sends the stop signal, waits `grace` seconds, then kills.
    pub(super) async fn stop_container(&self, id: &str, grace: i64) -> Result<(), Status> {
        let Ok(container) = self.state.container(id) else { return Ok(()) };
        if container.state() != ContainerState::ContainerRunning {
            return Ok(());
        }
        let shim = self.shim(&container.sandbox);
        let signal = |signal: i32| {
            let request = Request::Signal { id: container.id.clone(), signal };
            let shim = shim.clone();
            // An error means that the container or its shim has exited meanwhile; either way the exit will be reported.
            async move { drop(shim.request_done(request).await) }
        };
        if let Ok(grace @ 1..) = u64::try_from(grace) {
            signal(container.stop_signal).await;
            let ended = self.state.wait_until_stopped(&container.id);
            if tokio::time::timeout(Duration::from_secs(grace), ended).await.is_ok() {
                return Ok(());
            }
        }
        signal(9).await;
        self.kill_group(&container.cgroup).await; // includes frozen processes, and those beside the first one
        let ended = tokio::time::timeout(
            Duration::from_mins(1),
            self.state.wait_until_stopped(&container.id),
        )
        .await;
        ended.map_err(|_| Status::deadline_exceeded(format!("container {id} does not end")))
    }

    pub(super) async fn remove_container(self: &Arc<Self>, id: &str) -> Result<(), Status> {
        let Ok(container) = self.state.container(id) else { return Ok(()) };
        self.stop_container(&container.id, 0).await?;
        // An error means that the shim has exited and has no state left.
        let _ = self
            .shim(&container.sandbox)
            .request_done(Request::Delete { id: container.id.clone() })
            .await;
        let (inner, forgotten) = (self.clone(), container.id.clone());
        blocking(move || {
            inner.state.forget_container(&forgotten);
            Ok(())
        })
        .await?;
        self.delete_container_resources(&container.id, &container.cgroup).await;
        self.event(ContainerEventType::ContainerDeletedEvent, &container.id, &container.sandbox);
        Ok(())
    }

    /// Removes the cgroup, files and layer leases of a container.
    pub(super) async fn delete_container_resources(&self, id: &str, cgroup: &str) {
        let note = |what: &str, error: String| {
            tracing::warn!(container = id, error, "cannot remove {what}");
        };
        let (group, folder) = (self.cgroup(cgroup), self.state.container_folder(id));
        let removed = blocking(move || {
            let ended = group.and_then(|group| group.kill_all().and_then(|()| group.remove()));
            let removed = sys::tree::remove(&folder);
            ended.map_err(internal("the cgroup")).and(removed.map_err(internal("files")))
        });
        removed.await.unwrap_or_else(|status| note("all of it", status.message().to_owned()));
        let released = self.store.release_layers(id).await;
        released.unwrap_or_else(|error| note("the hold on layers", error.to_string()));
    }
}

fn make_folders(folder: &Path, image: &Image, sandbox: &SandboxRecord) -> io::Result<()> {
    for name in ["upper", "work", "rootfs"] {
        fs::create_dir_all(folder.join(name))?;
    }
    for number in 0..image.config.volumes.len() {
        fs::create_dir_all(folder.join("volumes").join(number.to_string()))?;
    }
    // The root directory gets owner and mode of the upper directory.
    std::os::unix::fs::chown(folder.join("upper"), Some(root_id(sandbox)), Some(root_id(sandbox)))
}

/// The host uid of the pod's root user.
fn root_id(sandbox: &SandboxRecord) -> u32 {
    let users = sandbox.namespaces().userns_options.unwrap_or_default();
    users.uids.first().map_or(0, |map| map.host_id)
}

/// Creates missing mount sources as directories, as the kubelet expects.
fn create_mount_sources(config: &ContainerConfig) -> io::Result<()> {
    for mount in config.mounts.iter().filter(|mount| mount.image.is_none()) {
        let path = PathBuf::from(&mount.host_path);
        if !path.exists() {
            fs::create_dir_all(path)?;
        }
    }
    Ok(())
}

/// The seccomp profile from its field, or from the deprecated path.
fn profile(security: &LinuxContainerSecurityContext) -> Result<SecurityProfile, Status> {
    if let Some(profile) = &security.seccomp {
        return Ok(profile.clone());
    }
    let (kind, path) = match security.seccomp_profile_path.as_str() {
        "" | "unconfined" => (ProfileType::Unconfined, ""),
        "runtime/default" | "docker/default" => (ProfileType::RuntimeDefault, ""),
        other => match other.strip_prefix("localhost/") {
            Some(path) => (ProfileType::Localhost, path),
            None => return Err(Status::invalid_argument(format!("seccomp profile {other:?}"))),
        },
    };
    Ok(SecurityProfile { profile_type: kind.into(), localhost_ref: path.to_owned() })
}

fn stop_signal(config: &ContainerConfig, image: &Image) -> i32 {
    let name = match config.stop_signal() {
        Signal::RuntimeDefault => image.config.stop_signal.clone(),
        signal => signal.as_str_name().trim_start_matches("SIGNAL_").to_owned(),
    };
    signal_number(&name).unwrap_or(15)
}

fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    if let Ok(number) = name.parse() {
        return (1..65).contains(&number).then_some(number);
    }
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let real_time = |prefix: &str, base: i32| {
        let rest = short.strip_prefix(prefix)?;
        let rest = rest
            .trim_start_matches(['+', '-'])
            .trim_start_matches("PLUS")
            .trim_start_matches("MINUS");
        let offset: i32 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        let number = if base == 34 { base.checked_add(offset) } else { base.checked_sub(offset) };
        number.filter(|number| (34..=64).contains(number))
    };
    let alias = match short {
        "IOT" => "ABRT",
        "CLD" => "CHLD",
        "POLL" => "IO",
        other => other,
    };
    let known =
        NAMES.iter().position(|known| *known == alias).and_then(|at| i32::try_from(at + 1).ok());
    known.or_else(|| real_time("RTMIN", 34)).or_else(|| real_time("RTMAX", 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name() {
        assert_eq!(signal_number("SIGTERM"), Some(15));
        assert_eq!(signal_number("quit"), Some(3));
        assert_eq!(signal_number("SIGRTMIN+3"), Some(37));
        assert_eq!(signal_number("SIGRTMAXMINUS1"), Some(63));
        assert_eq!(signal_number("9"), Some(9));
        // an image may say anything
        for name in ["SIGNOTHING", "RTMIN+2147483647", "RTMIN+31", "RTMAX-31", "0", "65", "-9", ""]
        {
            assert_eq!(signal_number(name), None, "{name}");
        }
    }
}
