//! Executes the steps of a plan.

use std::{fs, path::Path, sync::Arc, time::Duration};

use ::container::cri::Mount;
use api::core::{Container as Spec, Pod};
use futures_util::future::join_all;
use object::wait_seconds;
use runtime::EventType;
use sys::container_file;
use tokio::time::Instant;

use super::{
    container::{self, ContainerInputs},
    observe::{RuntimePodState, Sandbox},
    plan::{ContainerType, Step},
    sandbox,
};
use crate::{
    KubeletContext, blocking, cgroup, dns,
    env::{self, EnvSources},
    images::{self, ImageRequest, WaitingReason},
    pod_logs::{LogOf, PodLogs},
    probe::{ProbeTarget, run_hook},
    volumes::{self, MountedVolume, MountedVolumes},
};

/// Timeout of postStart hooks: a hook that never ends must not block its pod for ever.
const HOOK_TIMEOUT: Duration = Duration::from_mins(10);
/// Grace period, in seconds, of a container whose preStop hook used up the whole grace period.
const MIN_GRACE_AFTER_PRE_STOP: i64 = 2;

/// The pod and its observed state, while steps are executed.
#[derive(Clone, Debug)]
pub(crate) struct StepContext {
    pub(crate) host: Arc<KubeletContext>,
    pub(crate) pod: Pod,
    pub(crate) seen: RuntimePodState,
    pub(crate) places: Option<MountedVolumes>,
}

/// Result of a step.
#[derive(Debug)]
pub(crate) enum StepOutcome {
    Done,
    Prepared(Result<MountedVolumes, String>),
    Sandboxed(Result<(), WaitingReason>),
    Started { name: String, places: Option<MountedVolumes>, result: Result<(), WaitingReason> },
    Resized(Result<(), String>),
    Failed(String),
}

/// Executes steps in order, consecutive kills in parallel. Stops after a failure that makes the remaining steps
/// pointless, and after a sandbox was created, because the pod must be observed again.
pub(crate) async fn execute(task: StepContext, steps: Vec<Step>) -> Vec<StepOutcome> {
    let mut outcomes = Vec::new();
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        let is_kill = |step: &Step| matches!(step, Step::KillContainer { .. });
        if is_kill(&step) {
            let mut kills = vec![step];
            while let Some(next) = steps.next_if(is_kill) {
                kills.push(next);
            }
            outcomes.extend(join_all(kills.iter().map(|kill| task.take_one(kill))).await);
            continue;
        }
        let outcome = task.take_one(&step).await;
        let stop = matches!(
            outcome,
            StepOutcome::Failed(_) | StepOutcome::Prepared(Err(_)) | StepOutcome::Sandboxed(_)
        );
        outcomes.push(outcome);
        if stop {
            break;
        }
    }
    outcomes
}

impl StepContext {
    async fn take_one(&self, step: &Step) -> StepOutcome {
        let runtime = &self.host.runtime;
        let done = |result: Result<(), tonic::Status>| match result {
            Ok(()) => StepOutcome::Done,
            Err(error) => StepOutcome::Failed(error.message().to_owned()),
        };
        match step {
            Step::PrepareVolumes => StepOutcome::Prepared(self.prepare().await),
            Step::CreateSandbox { attempt } => StepOutcome::Sandboxed(self.sandbox(*attempt).await),
            Step::StartContainer { name, role, restarts } => {
                self.start(name, *role, *restarts).await
            }
            Step::KillContainer { id, name, grace, why } => {
                done(self.kill(id, name, *grace, why).await)
            }
            Step::Resize { containers } => StepOutcome::Resized(self.resize(containers).await),
            Step::RemoveContainer { id } => done(self.remove(id).await),
            Step::StopSandbox { id } => done(runtime.stop_sandbox(id).await),
            Step::RemoveSandbox { id } => done(runtime.remove_sandbox(id).await),
            Step::CleanUp => match self.host.clean_up_pod(&self.pod).await {
                Ok(()) => StepOutcome::Done,
                Err(error) => StepOutcome::Failed(error),
            },
        }
    }

    /// Removes a container. Its log is removed too, unless it is the newest with its name, whose log users read.
    async fn remove(&self, id: &str) -> Result<(), tonic::Status> {
        self.host.runtime.remove(id).await?;
        let found = self.seen.containers.iter().find(|one| one.id == id);
        let is_last = |name: &str| self.seen.newest(name).is_none_or(|newest| newest.id == id);
        if let Some(found) = found.filter(|found| !is_last(&found.name)) {
            let (container, restarts) = (&*found.name, found.restarts);
            let logs = PodLogs::of(&self.host.config, &self.pod);
            if let Err(error) = logs.remove_container(LogOf { container, id, restarts }) {
                tracing::warn!(pod = self.pod.metadata().name(), %error, "cannot remove a container log");
            }
        }
        Ok(())
    }

    async fn prepare(&self) -> Result<MountedVolumes, String> {
        let config = &self.host.config;
        let folder = config.pod_folder(self.pod.metadata().uid());
        let logs = PodLogs::of(config, &self.pod);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        logs.create().map_err(|error| format!("{}: {error}", logs.folder().display()))?;
        let group = cgroup::pod_cgroup_path(&config.cgroup_root, &self.pod);
        cgroup::create(&group, &self.pod, config.pod_max_pids)
            .map_err(|error| format!("{group}: {error}"))?;
        volumes::mount_volumes(&self.host, &self.pod).await
    }

    async fn sandbox(&self, attempt: u32) -> Result<(), WaitingReason> {
        let refused = |error: String| ("CreatePodSandboxError".to_owned(), error);
        if attempt > 0 {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            let kind = EventType::Normal;
            self.host.record_event(&self.pod, "", kind, "SandboxChanged", message.into());
        }
        let config = sandbox::config(&self.host.config, &self.pod, attempt).map_err(refused)?;
        let handler = match self.pod.spec().runtime_class_name() {
            Some(class) if !class.is_empty() => {
                let found = self.host.api_reader.runtime_handler(class).await;
                found.map_err(|why| refused(format!("failed to get sandbox runtime: {why}")))?
            }
            _ => String::new(), // the runtime's default
        };
        let made = self.host.runtime.run_sandbox(config, &handler).await;
        self.host.counters.started_pod(made.is_ok());
        made.map(drop)
            .map_err(|error| refused(format!("Failed to create pod sandbox: {}", error.message())))
    }

    /// Applies new resource limits. The pod's cgroup limits are lifted meanwhile, so that growing containers do not hit
    /// them.
    async fn resize(&self, containers: &[(String, String)]) -> Result<(), String> {
        let group = cgroup::pod_cgroup_path(&self.host.config.cgroup_root, &self.pod);
        cgroup::clear_pod_limits(&group).map_err(|error| format!("{group}: {error}"))?;
        let mut done = Ok(());
        for (id, name) in containers {
            let Some((spec, _)) = self.spec(name) else { continue };
            let mut limits = cgroup::resources(&self.pod, &spec, self.host.machine.memory);
            // a removed limit must be passed as -1, because 0 means "unchanged"
            for amount in [&mut limits.cpu_quota, &mut limits.memory_limit_in_bytes] {
                if *amount == 0 {
                    *amount = -1;
                }
            }
            limits.cpu_period = limits.cpu_period.max(cgroup::PERIOD);
            if let Err(error) = self.host.runtime.update(id, limits).await {
                done = Err(format!("Failed to resize container {name}: {}", error.message()));
            }
        }
        cgroup::create(&group, &self.pod, self.host.config.pod_max_pids)
            .map_err(|error| format!("{group}: {error}"))?;
        done
    }

    async fn start(&self, name: &str, role: ContainerType, restarts: i32) -> StepOutcome {
        let mut task = self.clone();
        let mut made = None;
        if task.places.is_none() {
            match self.prepare().await {
                Ok(places) => {
                    made = Some(places.clone());
                    task.places = Some(places);
                }
                Err(error) => {
                    let result = Err(("CreateContainerConfigError".to_owned(), error));
                    return StepOutcome::Started { name: name.into(), places: None, result };
                }
            }
        }
        let result = task.try_start(name, role, restarts).await;
        let failure = result.as_ref().err().map(|(reason, _)| reason.as_str());
        self.host.counters.started_container(role.metric_name(), failure);
        StepOutcome::Started { name: name.into(), places: made, result }
    }

    async fn try_start(
        &self,
        name: &str,
        role: ContainerType,
        restarts: i32,
    ) -> Result<(), WaitingReason> {
        let host = &self.host;
        let (spec, target) = self.spec(name).ok_or_else(|| {
            ("CreateContainerError".to_owned(), format!("there is no container {name}"))
        })?;
        let Some(sandbox) = self.seen.sandbox() else {
            return Err(("CreateContainerError".into(), "the sandbox has ended".into()));
        };
        let failed = |reason: &str, message: String| {
            host.record_event(
                &self.pod,
                name,
                EventType::Warning,
                "Failed",
                format!("Error: {message}"),
            );
            (reason.to_owned(), message)
        };
        let sandbox_config = sandbox::config(&host.config, &self.pod, sandbox.attempt)
            .map_err(|error| failed("CreateContainerConfigError", error))?;
        let wanted =
            ImageRequest { container: name, image: spec.image(), policy: spec.image_pull_policy() };
        let image = images::ensure_image_exists(host, &self.pod, wanted, &sandbox_config).await?;
        let mut places = self.places.clone().unwrap_or_default();
        for (volume, source) in volumes::images(&self.pod, &spec) {
            let (image, policy) = (source.reference(), source.pull_policy());
            let wanted = ImageRequest { container: name, image, policy };
            let image =
                images::ensure_image_exists(host, &self.pod, wanted, &sandbox_config).await?;
            places.insert(volume.to_owned(), MountedVolume::Image(image.id));
        }
        let parts = self
            .container_inputs(&spec, sandbox, (image, &places), restarts)
            .await
            .map_err(|error| failed("CreateContainerConfigError", error))?;
        let parts = ContainerInputs {
            target: target.filter(|_| role == ContainerType::Ephemeral),
            ..parts
        };
        let config = container::config(&self.pod, &spec, parts)
            .map_err(|error| failed("CreateContainerConfigError", error))?;
        let pod_logs = PodLogs::of(&host.config, &self.pod);
        let logs = pod_logs.folder().join(name);
        fs::create_dir_all(&logs).map_err(|error| {
            failed("CreateContainerError", format!("{}: {error}", logs.display()))
        })?;
        let id = host
            .runtime
            .create(&sandbox.id, config, sandbox_config)
            .await
            .map_err(|error| failed("CreateContainerError", error.message().to_owned()))?;
        host.record_event(
            &self.pod,
            name,
            EventType::Normal,
            "Created",
            "Container created".into(),
        );
        host.runtime
            .start(&id)
            .await
            .map_err(|error| failed("RunContainerError", error.message().to_owned()))?;
        if let Err(error) = pod_logs.link(LogOf { container: name, id: &id, restarts }) {
            tracing::warn!(pod = self.pod.metadata().name(), %error, "cannot create the symlink to a container log");
        }
        host.record_event(
            &self.pod,
            name,
            EventType::Normal,
            "Started",
            "Container started".into(),
        );
        self.post_start(&spec, &id, sandbox).await
    }

    async fn post_start(
        &self,
        spec: &Spec,
        id: &str,
        sandbox: &Sandbox,
    ) -> Result<(), WaitingReason> {
        let Some(hook) = spec.lifecycle().and_then(|lifecycle| lifecycle.post_start()) else {
            return Ok(());
        };
        let target = self.target(id, sandbox);
        let Err(error) = run_hook(&target, spec, hook, HOOK_TIMEOUT).await else {
            return Ok(());
        };
        let message = format!("PostStartHook failed: {error}");
        self.host.record_event(
            &self.pod,
            spec.name(),
            EventType::Warning,
            "FailedPostStartHook",
            message.clone(),
        );
        let grace = self.pod.spec().termination_grace_period_seconds();
        let why = "FailedPostStartHook";
        if let Err(error) = self.kill(id, spec.name(), grace, why).await {
            tracing::warn!(%error, "cannot stop a container whose postStart hook failed");
        }
        Err(("PostStartHookError".into(), message))
    }

    fn target(&self, id: &str, sandbox: &Sandbox) -> ProbeTarget {
        let ip = if self.pod.spec().host_network() {
            self.host.config.node_ip().to_string()
        } else {
            sandbox.ips.first().cloned().unwrap_or_default()
        };
        ProbeTarget { runtime: self.host.runtime.clone(), container: id.into(), ip }
    }

    /// The spec of a container, and the id of the target of an ephemeral container.
    fn spec(&self, name: &str) -> Option<(Spec, Option<String>)> {
        if let Some(spec) = self.pod.spec().all_containers().find(|one| one.name() == name) {
            return Some((spec.clone(), None));
        }
        let ephemeral = self.pod.spec().ephemeral_containers();
        let found = ephemeral.iter().find(|one| one.as_container().name() == name)?;
        let target = self.seen.newest(found.target_container_name()).map(|one| one.id.clone());
        Some((found.as_container().clone(), target))
    }

    /// Gathers environment, mounts and files of a container.
    async fn container_inputs(
        &self,
        spec: &Spec,
        sandbox: &Sandbox,
        (image, places): (::container::cri::Image, &MountedVolumes),
        restarts: i32,
    ) -> Result<ContainerInputs, String> {
        let host = &self.host;
        let mut sources = self.sources(spec, sandbox).await?;
        let (pod, spec_of, folders) = (self.pod.clone(), spec.clone(), places.clone());
        sources.files = blocking(move || {
            env::file::read_all(&pod, &spec_of, |name| folders.get(name)?.folder())
        })
        .await?;
        let env = env::env(&self.pod, spec, &sources)?;
        let (task, spec_of, places) = (self.clone(), spec.clone(), places.clone());
        let (env, mut mounts) = blocking(move || {
            let mounts = volumes::mounts(&task.host, &task.pod, &spec_of, &places, &env)?;
            Ok((env, mounts))
        })
        .await?;
        let folder = host.config.pod_folder(self.pod.metadata().uid());
        let own = folder.join("containers").join(spec.name());
        fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let bind = |path: &Path, at: &str| Mount {
            host_path: path.to_string_lossy().into_owned(),
            container_path: at.into(),
            ..Mount::default()
        };
        if !mounts.iter().any(|mount| mount.container_path == "/etc/hosts") {
            let path = folder.join("etc-hosts");
            let content = dns::etc_hosts(&host.config, &self.pod, &sources.pod_ips);
            container_file::overwrite(&path, content.as_bytes(), 0o644)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            mounts.push(bind(&path, "/etc/hosts"));
        }
        if !spec.termination_message_path().is_empty() {
            let path = own.join(restarts.to_string());
            // any user in the container may write the termination message
            container_file::overwrite(&path, b"", 0o666)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            mounts.push(bind(&path, spec.termination_message_path()));
        }
        let machine_memory = host.machine.memory;
        let seccomp = host.config.root_dir.join("seccomp");
        let seccomp_default = host.config.seccomp_default;
        Ok(ContainerInputs {
            env,
            mounts,
            image,
            restarts,
            machine_memory,
            seccomp,
            seccomp_default,
            target: None,
        })
    }

    /// Reads the ConfigMaps, Secrets and other values that the container's environment refers to.
    async fn sources(&self, spec: &Spec, sandbox: &Sandbox) -> Result<EnvSources, String> {
        let host = &self.host;
        let namespace = self.pod.metadata().namespace();
        let mut sources = EnvSources {
            services: host.service_links(&self.pod),
            host_ips: host.host_ips(),
            pod_ips: if self.pod.spec().host_network() {
                host.host_ips()
            } else {
                sandbox.ips.clone()
            },
            allocatable: host.allocatable(),
            ..EnvSources::default()
        };
        let (mut maps, mut secrets) = (Vec::new(), Vec::new());
        for from in spec.env_from().iter() {
            maps.extend(from.config_map_ref().map(|one| one.local_object_reference().name()));
            secrets.extend(from.secret_ref().map(|one| one.local_object_reference().name()));
        }
        for from in spec.env().iter().filter_map(|var| var.value_from()) {
            maps.extend(from.config_map_key_ref().map(|one| one.local_object_reference().name()));
            secrets.extend(from.secret_key_ref().map(|one| one.local_object_reference().name()));
        }
        for name in maps {
            let data = host.api_reader.config_map(namespace, name).await?;
            sources.config_maps.insert(name.to_owned(), data);
        }
        for name in secrets {
            let data = host.api_reader.secret(namespace, name).await?;
            sources.secrets.insert(name.to_owned(), data);
        }
        Ok(sources)
    }

    /// Runs the preStop hook, then stops the container with the rest of the grace period.
    async fn kill(&self, id: &str, name: &str, grace: i64, why: &str) -> Result<(), tonic::Status> {
        self.host.record_event(&self.pod, name, EventType::Normal, "Killing", why.to_owned());
        let began = Instant::now();
        let hook = self.spec(name).and_then(|(spec, _)| {
            let hook = spec.lifecycle()?.pre_stop()?.clone();
            Some((spec, hook))
        });
        let mut left = grace;
        if let (Some((spec, hook)), Some(sandbox), true) = (hook, self.seen.sandbox(), grace > 0) {
            let limit = wait_seconds(grace);
            let target = self.target(id, sandbox);
            let asked = tokio::time::timeout(limit, run_hook(&target, &spec, &hook, limit));
            if let Ok(Err(error)) = asked.await {
                let message = format!("PreStopHook failed: {error}");
                self.host.record_event(
                    &self.pod,
                    name,
                    EventType::Warning,
                    "FailedPreStopHook",
                    message,
                );
            }
            let used = i64::try_from(began.elapsed().as_secs()).unwrap_or(i64::MAX);
            left = grace.saturating_sub(used).max(MIN_GRACE_AFTER_PRE_STOP);
        }
        self.host.runtime.stop(id, left).await
    }
}
