//! The container runtime, with a deadline on everything that is asked of it.

use std::{collections::HashMap, future::Future, path::Path, time::Duration};

use container::{Cri, cri};
use tokio::time::timeout;
use tonic::Status;

/// What sandboxes and containers are found by again.
pub(crate) mod labels {
    pub(crate) const NAME: &str = "io.kubernetes.pod.name";
    pub(crate) const NAMESPACE: &str = "io.kubernetes.pod.namespace";
    pub(crate) const UID: &str = "io.kubernetes.pod.uid";
    pub(crate) const CONTAINER: &str = "io.kubernetes.container.name";
    pub(crate) const HASH: &str = "io.kubernetes.container.hash";
    pub(crate) const RESTARTS: &str = "io.kubernetes.container.restartCount";
}

/// As upstream's kubelet gives the runtime.
const USUAL: Duration = Duration::from_mins(2);
const SANDBOX: Duration = Duration::from_mins(4);
const PULL: Duration = Duration::from_mins(30);

#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    cri: Cri,
    /// What container ids begin with: `containerd`.
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Runtime {
    pub(crate) async fn connect(socket: &Path) -> Result<Self, String> {
        let mut cri = Cri::connect(socket).await.map_err(|error| error.to_string())?;
        let asked = cri.runtime.version(cri::VersionRequest { version: "v1".into() });
        let answer = within(USUAL, asked).await.map_err(|error| error.message().to_owned())?;
        Ok(Self { cri, name: answer.runtime_name, version: answer.runtime_version })
    }

    pub(crate) fn cri(&self) -> Cri {
        self.cri.clone()
    }

    pub(crate) async fn status(&self) -> Result<cri::StatusResponse, Status> {
        within(USUAL, self.cri().runtime.status(cri::StatusRequest { verbose: false })).await
    }

    pub(crate) async fn set_pod_cidr(&self, range: &str) -> Result<(), Status> {
        let network_config = Some(cri::NetworkConfig { pod_cidr: range.into() });
        let runtime_config = Some(cri::RuntimeConfig { network_config });
        let asked = cri::UpdateRuntimeConfigRequest { runtime_config };
        within(USUAL, self.cri().runtime.update_runtime_config(asked)).await.map(drop)
    }

    pub(crate) async fn sandboxes(
        &self,
        label_selector: HashMap<String, String>,
    ) -> Result<Vec<cri::PodSandbox>, Status> {
        let filter = cri::PodSandboxFilter { label_selector, ..Default::default() };
        let asked = cri::ListPodSandboxRequest { filter: Some(filter) };
        Ok(within(USUAL, self.cri().runtime.list_pod_sandbox(asked)).await?.items)
    }

    pub(crate) async fn containers(
        &self,
        label_selector: HashMap<String, String>,
    ) -> Result<Vec<cri::Container>, Status> {
        let filter = cri::ContainerFilter { label_selector, ..Default::default() };
        let asked = cri::ListContainersRequest { filter: Some(filter) };
        Ok(within(USUAL, self.cri().runtime.list_containers(asked)).await?.containers)
    }

    pub(crate) async fn sandbox_status(&self, id: &str) -> Result<cri::PodSandboxStatus, Status> {
        let asked = cri::PodSandboxStatusRequest { pod_sandbox_id: id.into(), verbose: false };
        let answer = within(USUAL, self.cri().runtime.pod_sandbox_status(asked)).await?;
        answer.status.ok_or_else(|| Status::not_found("the runtime gives no status"))
    }

    pub(crate) async fn container_status(&self, id: &str) -> Result<cri::ContainerStatus, Status> {
        let asked = cri::ContainerStatusRequest { container_id: id.into(), verbose: false };
        let answer = within(USUAL, self.cri().runtime.container_status(asked)).await?;
        answer.status.ok_or_else(|| Status::not_found("the runtime gives no status"))
    }

    pub(crate) async fn run_sandbox(
        &self,
        config: cri::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, Status> {
        let asked =
            cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.into() };
        Ok(within(SANDBOX, self.cri().runtime.run_pod_sandbox(asked)).await?.pod_sandbox_id)
    }

    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        let asked = cri::StopPodSandboxRequest { pod_sandbox_id: id.into() };
        gone_is_fine(within(SANDBOX, self.cri().runtime.stop_pod_sandbox(asked)).await.map(drop))
    }

    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        let asked = cri::RemovePodSandboxRequest { pod_sandbox_id: id.into() };
        gone_is_fine(within(SANDBOX, self.cri().runtime.remove_pod_sandbox(asked)).await.map(drop))
    }

    pub(crate) async fn create(
        &self,
        sandbox: &str,
        config: cri::ContainerConfig,
        sandbox_config: cri::PodSandboxConfig,
    ) -> Result<String, Status> {
        let asked = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        Ok(within(USUAL, self.cri().runtime.create_container(asked)).await?.container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<(), Status> {
        let asked = cri::StartContainerRequest { container_id: id.into() };
        within(USUAL, self.cri().runtime.start_container(asked)).await.map(drop)
    }

    pub(crate) async fn stop(&self, id: &str, grace: i64) -> Result<(), Status> {
        let asked = cri::StopContainerRequest { container_id: id.into(), timeout: grace };
        let patience = USUAL + Duration::from_secs(grace.try_into().unwrap_or_default());
        let stopped = within(patience, self.cri().runtime.stop_container(asked)).await;
        gone_is_fine(stopped.map(drop))
    }

    /// Gives a running container other limits.
    pub(crate) async fn update(
        &self,
        id: &str,
        resources: cri::LinuxContainerResources,
    ) -> Result<(), Status> {
        let asked = cri::UpdateContainerResourcesRequest {
            container_id: id.into(),
            linux: Some(resources),
            ..Default::default()
        };
        within(USUAL, self.cri().runtime.update_container_resources(asked)).await.map(drop)
    }

    /// Has a container write to a new file where its log was.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<(), Status> {
        let asked = cri::ReopenContainerLogRequest { container_id: id.into() };
        within(USUAL, self.cri().runtime.reopen_container_log(asked)).await.map(drop)
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<(), Status> {
        let asked = cri::RemoveContainerRequest { container_id: id.into() };
        gone_is_fine(within(USUAL, self.cri().runtime.remove_container(asked)).await.map(drop))
    }

    pub(crate) async fn exec(
        &self,
        id: &str,
        cmd: Vec<String>,
        patience: Duration,
    ) -> Result<cri::ExecSyncResponse, Status> {
        let seconds = patience.as_secs().max(1).try_into().unwrap_or(i64::MAX);
        let asked = cri::ExecSyncRequest { container_id: id.into(), cmd, timeout: seconds };
        // the runtime ends the process first
        let slack = patience + Duration::from_secs(2);
        within(slack, self.cri().runtime.exec_sync(asked)).await
    }

    pub(crate) async fn image(&self, image: &str) -> Result<Option<cri::Image>, Status> {
        let image = Some(cri::ImageSpec { image: image.into(), ..Default::default() });
        let asked = cri::ImageStatusRequest { image, verbose: false };
        Ok(within(USUAL, self.cri().images.image_status(asked)).await?.image)
    }

    pub(crate) async fn images(&self) -> Result<Vec<cri::Image>, Status> {
        let asked = cri::ListImagesRequest { filter: None };
        Ok(within(USUAL, self.cri().images.list_images(asked)).await?.images)
    }

    pub(crate) async fn remove_image(&self, id: &str) -> Result<(), Status> {
        let image = Some(cri::ImageSpec { image: id.into(), ..Default::default() });
        let asked = cri::RemoveImageRequest { image };
        within(USUAL, self.cri().images.remove_image(asked)).await.map(drop)
    }

    /// Where the runtime keeps images.
    pub(crate) async fn image_folder(&self) -> Result<Option<String>, Status> {
        let mut client = self.cri();
        let asked = client.images.image_fs_info(cri::ImageFsInfoRequest {});
        let answer = within(USUAL, asked).await?;
        let first = answer.image_filesystems.into_iter().next();
        Ok(first.and_then(|fs| fs.fs_id).map(|id| id.mountpoint))
    }

    pub(crate) async fn pull(
        &self,
        image: &str,
        auth: Option<cri::AuthConfig>,
        sandbox_config: cri::PodSandboxConfig,
    ) -> Result<String, Status> {
        let asked = cri::PullImageRequest {
            image: Some(cri::ImageSpec { image: image.into(), ..Default::default() }),
            auth,
            sandbox_config: Some(sandbox_config),
        };
        Ok(within(PULL, self.cri().images.pull_image(asked)).await?.image_ref)
    }
}

/// An answer in time.
pub(crate) async fn within<T>(
    patience: Duration,
    asked: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match timeout(patience, asked).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

fn gone_is_fine(answer: Result<(), Status>) -> Result<(), Status> {
    match answer {
        Err(error) if error.code() == tonic::Code::NotFound => Ok(()),
        answer => answer,
    }
}
