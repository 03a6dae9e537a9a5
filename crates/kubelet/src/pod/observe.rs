//! The sandboxes and containers of one pod, as the runtime reports them.

use std::collections::HashMap;

use container::cri;

use crate::{
    cgroup::ContainerLimits,
    runtime::{RuntimeClient, labels},
};

/// State of a container in the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerRunState {
    #[default]
    Created,
    Running,
    Exited,
    Unknown,
}

/// A pod sandbox in the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    pub created: i64,
    pub ips: Vec<String>,
}

/// A container in the runtime. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContainer {
    pub id: String,
    pub name: String,
    pub sandbox: String,
    pub state: ContainerRunState,
    pub created: i64,
    pub started: i64,
    pub finished: i64,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub image: String,
    pub image_id: String,
    pub restarts: i32,
    pub hash: String,
    pub log: String,
    /// Current resource limits, where the runtime reports them.
    pub limits: Option<ContainerLimits>,
    /// Uid, gid and supplemental groups of its first process.
    pub user: Option<(i64, i64, Vec<i64>)>,
}

/// The sandboxes and containers of a pod. Both lists begin with the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimePodState {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<RuntimeContainer>,
}

impl RuntimePodState {
    /// Queries the runtime for the sandboxes and containers of a pod.
    pub(crate) async fn of(runtime: &RuntimeClient, uid: &str) -> Result<Self, tonic::Status> {
        let selector: HashMap<_, _> = [(labels::UID.to_owned(), uid.to_owned())].into();
        let (sandboxes, containers) = futures_util::future::try_join(
            runtime.sandboxes(selector.clone()),
            runtime.containers(selector),
        )
        .await?;
        let mut found = Self::default();
        for sandbox in sandboxes {
            let status = runtime.sandbox_status(&sandbox.id).await;
            match status {
                Ok(status) => found.sandboxes.push(status.into()),
                Err(error) if error.code() == tonic::Code::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for container in containers {
            match runtime.container_status(&container.id).await {
                Ok(status) => {
                    let mut status = RuntimeContainer::from(status);
                    status.sandbox = container.pod_sandbox_id;
                    found.containers.push(status);
                }
                Err(error) if error.code() == tonic::Code::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found
            .sandboxes
            .sort_by_key(|sandbox| std::cmp::Reverse((sandbox.created, sandbox.attempt)));
        found.containers.sort_by_key(|one| std::cmp::Reverse((one.created, one.restarts)));
        Ok(found)
    }

    /// The newest sandbox, if it is ready.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// The newest container with this name.
    pub fn newest(&self, name: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// The container with this name before the newest one.
    pub fn previous(&self, name: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().filter(|container| container.name == name).nth(1)
    }

    /// The containers that run, or whose state is unknown.
    pub fn running(&self) -> impl Iterator<Item = &RuntimeContainer> {
        self.containers.iter().filter(|container| {
            matches!(container.state, ContainerRunState::Running | ContainerRunState::Unknown)
        })
    }
}

impl From<cri::PodSandboxStatus> for Sandbox {
    fn from(status: cri::PodSandboxStatus) -> Self {
        let ready = status.state() == cri::PodSandboxState::SandboxReady;
        let network = status.network.unwrap_or_default();
        let mut ips = vec![network.ip];
        ips.extend(network.additional_ips.into_iter().map(|one| one.ip));
        ips.retain(|ip| !ip.is_empty());
        Self {
            id: status.id,
            attempt: status.metadata.map_or(0, |metadata| metadata.attempt),
            ready,
            created: status.created_at,
            ips,
        }
    }
}

impl From<cri::ContainerStatus> for RuntimeContainer {
    fn from(status: cri::ContainerStatus) -> Self {
        let state = match status.state() {
            cri::ContainerState::ContainerCreated => ContainerRunState::Created,
            cri::ContainerState::ContainerRunning => ContainerRunState::Running,
            cri::ContainerState::ContainerExited => ContainerRunState::Exited,
            cri::ContainerState::ContainerUnknown => ContainerRunState::Unknown,
        };
        let note = |name: &str| status.annotations.get(name).cloned().unwrap_or_default();
        Self {
            name: status.metadata.as_ref().map(|meta| meta.name.clone()).unwrap_or_default(),
            restarts: note(labels::RESTARTS).parse().unwrap_or_default(),
            hash: note(labels::HASH),
            image: status.image.map(|image| image.image).unwrap_or_default(),
            image_id: status.image_ref,
            id: status.id,
            sandbox: String::new(),
            state,
            created: status.created_at,
            started: status.started_at,
            finished: status.finished_at,
            exit_code: status.exit_code,
            reason: status.reason,
            message: status.message,
            log: status.log_path,
            limits: status
                .resources
                .and_then(|resources| resources.linux)
                .map(ContainerLimits::from),
            user: status
                .user
                .and_then(|user| user.linux)
                .map(|user| (user.uid, user.gid, user.supplemental_groups)),
        }
    }
}
