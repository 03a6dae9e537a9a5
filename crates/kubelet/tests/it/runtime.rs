//! A fake container runtime: it stores what it is given, follows the test's script, and records every call that changes
//! something.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "all calls have the same form: a request in, a response or a status out"
)]

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use container::cri::*;
use object::{Clock as _, SystemClock};
use tokio::sync::broadcast;
use tonic::Status;

/// IP address of every pod.
pub(crate) const POD_IP: &str = "192.0.2.77";

#[derive(Clone)]
pub(crate) struct Runtime(Arc<Mutex<State>>, broadcast::Sender<ContainerEventResponse>);

struct State {
    /// Calls in order, such as `StartContainer pod/name#0`.
    calls: Vec<String>,
    /// Calls that are to fail, with the message of each failure; once the list is empty, calls succeed.
    failures: HashMap<String, Vec<String>>,
    /// Exit codes of commands that are run in containers; 0 if not listed.
    exit_codes: HashMap<String, i32>,
    sandboxes: BTreeMap<String, PodSandboxStatus>,
    /// Containers by id, with the sandbox of each.
    containers: BTreeMap<String, (String, ContainerStatus)>,
    images: Vec<String>,
    network: Result<(), String>,
    has_events: bool,
    last_id: u32,
}

impl Runtime {
    pub(crate) fn new() -> Self {
        let state = State {
            calls: Vec::new(),
            failures: HashMap::new(),
            exit_codes: HashMap::new(),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            images: vec!["present:1".into()],
            network: Ok(()),
            has_events: true,
            last_id: 0,
        };
        Self(Arc::new(Mutex::new(state)), broadcast::channel(256).0)
    }

    /// All calls about a pod, in order.
    pub(crate) fn calls(&self, pod: &str) -> Vec<String> {
        let of_pod = |call: &&String| {
            let subject = call.split(' ').nth(1).unwrap_or_default();
            subject.split(['/', '#', '@']).next() == Some(pod)
        };
        self.state().calls.iter().filter(of_pod).cloned().collect()
    }

    /// Makes the next call of this kind fail; can be repeated for further calls.
    pub(crate) fn fail(&self, call: &str, message: &str) {
        self.state().failures.entry(call.into()).or_default().push(message.into());
    }

    /// All calls succeed from now on.
    pub(crate) fn stop_failing(&self) {
        self.state().failures.clear();
    }

    /// Commands that run from now on exit with this code.
    pub(crate) fn set_exit_code(&self, command: &str, code: i32) {
        self.state().exit_codes.insert(command.into(), code);
    }

    /// Sets whether the runtime's network is ready, or why not.
    pub(crate) fn set_network(&self, network: Result<(), String>) {
        self.state().network = network;
    }

    /// A runtime without container events, which must be polled.
    pub(crate) fn without_events(self) -> Self {
        self.state().has_events = false;
        self
    }

    /// A container exits by itself.
    pub(crate) fn exit(&self, pod: &str, container: &str, code: i32) {
        let mut state = self.state();
        let running = ContainerState::ContainerRunning;
        let found = state.containers.values().find(|(sandbox, one)| {
            let of_pod = metadata(&state.sandboxes[sandbox]).name == pod;
            of_pod && name(one) == container && one.state() == running
        });
        let id = found.unwrap_or_else(|| panic!("{container} of {pod} runs")).1.id.clone();
        state.end(&id, code);
        self.tell(&state, &id);
    }

    /// The sandbox of a pod dies, with all containers in it.
    pub(crate) fn end_sandbox(&self, pod: &str) {
        let mut state = self.state();
        let id = state
            .sandboxes
            .values()
            .find(|one| metadata(one).name == pod)
            .expect("a sandbox")
            .id
            .clone();
        state.end_sandbox(&id);
        let ended: Vec<String> = state.ids_in(&id);
        ended.iter().for_each(|id| self.tell(&state, id));
    }

    /// The running containers of all pods, as `pod/name#attempt`.
    pub(crate) fn running(&self) -> Vec<String> {
        let state = self.state();
        let running = state
            .containers
            .values()
            .filter(|(_, one)| one.state() == ContainerState::ContainerRunning);
        running.map(|(sandbox, one)| state.subject(sandbox, one)).collect()
    }

    pub(crate) fn events(&self) -> Option<broadcast::Receiver<ContainerEventResponse>> {
        self.state().has_events.then(|| self.1.subscribe())
    }

    pub(crate) fn images(&self) -> Vec<Image> {
        let image = |name: &String| Image {
            id: name.clone(),
            repo_tags: vec![name.clone()],
            size: 1000,
            ..Image::default()
        };
        self.state().images.iter().map(image).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn tell(&self, state: &State, id: &str) {
        let Some((sandbox, _)) = state.containers.get(id) else { return };
        let event = ContainerEventResponse {
            container_id: id.into(),
            pod_sandbox_status: state.sandboxes.get(sandbox).cloned(),
            created_at: now(),
            ..Default::default()
        };
        let _ = self.1.send(event); // fails while the kubelet is stopped
    }
}

impl State {
    fn id(&mut self, kind: &str) -> String {
        self.last_id += 1;
        format!("{kind}{:04}", self.last_id)
    }

    /// Records a call; fails it if the script says so.
    fn call(&mut self, call: String) -> Result<(), Status> {
        let failures = self.failures.get_mut(&call);
        let failure = failures.filter(|all| !all.is_empty()).map(|all| all.remove(0));
        self.calls.push(call);
        failure.map_or(Ok(()), |message| Err(Status::unknown(message)))
    }

    fn sandbox(&mut self, id: &str) -> Result<&mut PodSandboxStatus, Status> {
        self.sandboxes.get_mut(id).ok_or_else(|| Status::not_found(format!("no sandbox {id}")))
    }

    fn container(&mut self, id: &str) -> Result<&mut ContainerStatus, Status> {
        let found = self.containers.get_mut(id).map(|(_, one)| one);
        found.ok_or_else(|| Status::not_found(format!("no container {id}")))
    }

    /// `pod/name#attempt`
    fn subject(&self, sandbox: &str, container: &ContainerStatus) -> String {
        let pod = self.sandboxes.get(sandbox).map(metadata).unwrap_or_default();
        let own = container.metadata.clone().unwrap_or_default();
        format!("{}/{}#{}", pod.name, own.name, own.attempt)
    }

    fn subject_of(&self, id: &str) -> Result<String, Status> {
        let found = self.containers.get(id).map(|(sandbox, one)| self.subject(sandbox, one));
        found.ok_or_else(|| Status::not_found(format!("no container {id}")))
    }

    fn ids_in(&self, sandbox: &str) -> Vec<String> {
        let inside = self.containers.iter().filter(|(_, (of, _))| of == sandbox);
        inside.map(|(id, _)| id.clone()).collect()
    }

    fn end(&mut self, id: &str, code: i32) {
        let Ok(one) = self.container(id) else { return };
        if one.state() == ContainerState::ContainerRunning {
            one.set_state(ContainerState::ContainerExited);
            (one.finished_at, one.exit_code) = (now(), code);
            one.reason = if code == 0 { "Completed" } else { "Error" }.into();
        }
    }

    fn end_sandbox(&mut self, id: &str) {
        if let Ok(sandbox) = self.sandbox(id) {
            sandbox.set_state(PodSandboxState::SandboxNotready);
        }
        for id in self.ids_in(id) {
            self.end(&id, 137);
        }
    }
}

/// The CRI calls that the kubelet makes.
impl Runtime {
    #[expect(clippy::unused_self, reason = "all calls look alike")]
    pub(crate) fn version(&self, _: VersionRequest) -> Result<VersionResponse, Status> {
        Ok(VersionResponse {
            version: "v1".into(),
            runtime_name: "scripted".into(),
            runtime_version: "1.2.3".into(),
            runtime_api_version: "v1".into(),
        })
    }

    pub(crate) fn status(&self, _: StatusRequest) -> Result<StatusResponse, Status> {
        let network = self.state().network.clone();
        let condition = |name: &str, result: Result<(), String>| RuntimeCondition {
            r#type: name.into(),
            status: result.is_ok(),
            reason: result
                .as_ref()
                .err()
                .map(|_| "NetworkPluginNotReady".into())
                .unwrap_or_default(),
            message: result.err().unwrap_or_default(),
        };
        let conditions =
            vec![condition("RuntimeReady", Ok(())), condition("NetworkReady", network)];
        Ok(StatusResponse { status: Some(RuntimeStatus { conditions }), ..Default::default() })
    }

    pub(crate) fn update_runtime_config(
        &self,
        asked: UpdateRuntimeConfigRequest,
    ) -> Result<UpdateRuntimeConfigResponse, Status> {
        let network =
            asked.runtime_config.and_then(|config| config.network_config).unwrap_or_default();
        self.state().call(format!("UpdateRuntimeConfig {}", network.pod_cidr))?;
        Ok(UpdateRuntimeConfigResponse {})
    }

    pub(crate) fn run_pod_sandbox(
        &self,
        asked: RunPodSandboxRequest,
    ) -> Result<RunPodSandboxResponse, Status> {
        let config = asked.config.unwrap_or_default();
        let metadata = config.metadata.unwrap_or_default();
        let mut state = self.state();
        state.call(format!("RunPodSandbox {}#{}", metadata.name, metadata.attempt))?;
        let id = state.id("sandbox");
        let status = PodSandboxStatus {
            id: id.clone(),
            metadata: Some(metadata),
            state: PodSandboxState::SandboxReady.into(),
            created_at: now(),
            network: Some(PodSandboxNetworkStatus { ip: POD_IP.into(), ..Default::default() }),
            labels: config.labels,
            annotations: config.annotations,
            ..Default::default()
        };
        state.sandboxes.insert(id.clone(), status);
        Ok(RunPodSandboxResponse { pod_sandbox_id: id })
    }

    pub(crate) fn stop_pod_sandbox(
        &self,
        asked: StopPodSandboxRequest,
    ) -> Result<StopPodSandboxResponse, Status> {
        let (mut state, id) = (self.state(), asked.pod_sandbox_id);
        let of = metadata(state.sandbox(&id)?);
        state.call(format!("StopPodSandbox {}#{}", of.name, of.attempt))?;
        state.end_sandbox(&id);
        Ok(StopPodSandboxResponse {})
    }

    pub(crate) fn remove_pod_sandbox(
        &self,
        asked: RemovePodSandboxRequest,
    ) -> Result<RemovePodSandboxResponse, Status> {
        let (mut state, id) = (self.state(), asked.pod_sandbox_id);
        let of = metadata(state.sandbox(&id)?);
        state.call(format!("RemovePodSandbox {}#{}", of.name, of.attempt))?;
        for inside in state.ids_in(&id) {
            state.containers.remove(&inside);
        }
        state.sandboxes.remove(&id);
        Ok(RemovePodSandboxResponse {})
    }

    pub(crate) fn pod_sandbox_status(
        &self,
        asked: PodSandboxStatusRequest,
    ) -> Result<PodSandboxStatusResponse, Status> {
        let status = self.state().sandbox(&asked.pod_sandbox_id)?.clone();
        Ok(PodSandboxStatusResponse { status: Some(status), ..Default::default() })
    }

    pub(crate) fn list_pod_sandbox(
        &self,
        asked: ListPodSandboxRequest,
    ) -> Result<ListPodSandboxResponse, Status> {
        let wanted = asked.filter.unwrap_or_default().label_selector;
        let state = self.state();
        let found = state.sandboxes.values().filter(|one| selects(&wanted, &one.labels));
        let items = found.map(|one| PodSandbox {
            id: one.id.clone(),
            metadata: one.metadata.clone(),
            state: one.state,
            created_at: one.created_at,
            labels: one.labels.clone(),
            ..Default::default()
        });
        Ok(ListPodSandboxResponse { items: items.collect() })
    }

    pub(crate) fn create_container(
        &self,
        asked: CreateContainerRequest,
    ) -> Result<CreateContainerResponse, Status> {
        let config = asked.config.unwrap_or_default();
        let image = config.image.clone().unwrap_or_default();
        let status = ContainerStatus {
            metadata: config.metadata,
            state: ContainerState::ContainerCreated.into(),
            created_at: now(),
            image_ref: image.image.clone(),
            image: Some(image),
            labels: config.labels,
            annotations: config.annotations,
            mounts: config.mounts,
            log_path: config.log_path,
            ..Default::default()
        };
        let mut state = self.state();
        let subject = state.subject(&asked.pod_sandbox_id, &status);
        state.call(format!("CreateContainer {subject}"))?;
        let id = state.id("container");
        let status = ContainerStatus { id: id.clone(), ..status };
        state.containers.insert(id.clone(), (asked.pod_sandbox_id, status));
        Ok(CreateContainerResponse { container_id: id })
    }

    pub(crate) fn start_container(
        &self,
        asked: StartContainerRequest,
    ) -> Result<StartContainerResponse, Status> {
        let (mut state, id) = (self.state(), asked.container_id);
        let subject = state.subject_of(&id)?;
        state.call(format!("StartContainer {subject}"))?;
        let one = state.container(&id)?;
        one.set_state(ContainerState::ContainerRunning);
        one.started_at = now();
        self.tell(&state, &id);
        Ok(StartContainerResponse {})
    }

    pub(crate) fn stop_container(
        &self,
        asked: StopContainerRequest,
    ) -> Result<StopContainerResponse, Status> {
        let (mut state, id) = (self.state(), asked.container_id);
        let subject = state.subject_of(&id)?;
        state.call(format!("StopContainer {subject} {}", asked.timeout))?;
        state.end(&id, 137);
        self.tell(&state, &id);
        Ok(StopContainerResponse {})
    }

    pub(crate) fn remove_container(
        &self,
        asked: RemoveContainerRequest,
    ) -> Result<RemoveContainerResponse, Status> {
        let (mut state, id) = (self.state(), asked.container_id);
        let subject = state.subject_of(&id)?;
        state.call(format!("RemoveContainer {subject}"))?;
        state.containers.remove(&id);
        Ok(RemoveContainerResponse {})
    }

    pub(crate) fn list_containers(
        &self,
        asked: ListContainersRequest,
    ) -> Result<ListContainersResponse, Status> {
        let wanted = asked.filter.unwrap_or_default().label_selector;
        let state = self.state();
        let found = state.containers.values().filter(|(_, one)| selects(&wanted, &one.labels));
        let containers = found.map(|(sandbox, one)| Container {
            id: one.id.clone(),
            pod_sandbox_id: sandbox.clone(),
            metadata: one.metadata.clone(),
            state: one.state,
            created_at: one.created_at,
            labels: one.labels.clone(),
            ..Default::default()
        });
        Ok(ListContainersResponse { containers: containers.collect() })
    }

    pub(crate) fn container_status(
        &self,
        asked: ContainerStatusRequest,
    ) -> Result<ContainerStatusResponse, Status> {
        let status = self.state().container(&asked.container_id)?.clone();
        Ok(ContainerStatusResponse { status: Some(status), ..Default::default() })
    }

    pub(crate) fn exec_sync(&self, asked: ExecSyncRequest) -> Result<ExecSyncResponse, Status> {
        let (mut state, command) = (self.state(), asked.cmd.join(" "));
        let subject = state.subject_of(&asked.container_id)?;
        state.call(format!("ExecSync {subject} {command}"))?;
        let exit_code = state.exit_codes.get(&command).copied().unwrap_or_default();
        Ok(ExecSyncResponse { exit_code, stdout: command.into(), ..Default::default() })
    }

    pub(crate) fn pull_image(&self, asked: PullImageRequest) -> Result<PullImageResponse, Status> {
        let image = asked.image.unwrap_or_default().image;
        let pod = asked.sandbox_config.and_then(|config| config.metadata).unwrap_or_default().name;
        let mut state = self.state();
        state.call(format!("PullImage {pod}@ {image}"))?;
        state.images.push(image.clone());
        Ok(PullImageResponse { image_ref: image })
    }
}

fn metadata(sandbox: &PodSandboxStatus) -> PodSandboxMetadata {
    sandbox.metadata.clone().unwrap_or_default()
}

fn name(container: &ContainerStatus) -> &str {
    container.metadata.as_ref().map(|metadata| &*metadata.name).unwrap_or_default()
}

fn selects(wanted: &HashMap<String, String>, labels: &HashMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    SystemClock.now_micros() * 1000
}
