//! Client of the container runtime (CRI), with a timeout on every call.

use std::{collections::HashMap, future::Future, path::Path, time::Duration};

use container::{CriClient, cri};
use object::wait_seconds;
use tokio::time::timeout;
use tonic::Status;

/// Labels and annotations of sandboxes and containers, by which the kubelet finds them again.
pub(crate) mod labels {
    pub(crate) const NAME: &str = "io.kubernetes.pod.name";
    pub(crate) const NAMESPACE: &str = "io.kubernetes.pod.namespace";
    pub(crate) const UID: &str = "io.kubernetes.pod.uid";
    pub(crate) const CONTAINER: &str = "io.kubernetes.container.name";
    pub(crate) const HASH: &str = "io.kubernetes.container.hash";
    pub(crate) const RESTARTS: &str = "io.kubernetes.container.restartCount";
}

/// The default timeout of upstream's kubelet.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
const SANDBOX: Duration = Duration::from_mins(4);
const PULL: Duration = Duration::from_mins(30);

/// Connection to the container runtime.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeClient {
    cri: CriClient,
    /// Prefix of container ids, such as `containerd`.
    pub(crate) name: String,
    pub(crate) version: String,
}

impl RuntimeClient {
    pub(crate) async fn connect(socket: &Path) -> Result<Self, String> {
        let mut cri = CriClient::connect(socket).await.map_err(|error| error.to_string())?;
        let asked = cri.runtime.version(cri::VersionRequest { version: "v1".into() });
        let answer = with_timeout(DEFAULT_TIMEOUT, asked)
            .await
            .map_err(|error| error.message().to_owned())?;
        Ok(Self { cri, name: answer.runtime_name, version: answer.runtime_version })
    }

    pub(crate) fn cri(&self) -> CriClient {
        self.cri.clone()
    }

    /// Makes an idempotent call. It is retried once on a new connection if the connection was lost.
    async fn repeatable<Q: Clone, A, F>(
        &self,
        asked: Q,
        call: impl Fn(CriClient, Q) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        twice_if_lost(|| with_timeout(DEFAULT_TIMEOUT, call(self.cri(), asked.clone()))).await
    }

    pub(crate) async fn status(&self) -> Result<cri::StatusResponse, Status> {
        let asked = cri::StatusRequest { verbose: false };
        self.repeatable(asked, |mut cri, asked| async move { cri.runtime.status(asked).await })
            .await
    }

    pub(crate) async fn set_pod_cidr(&self, range: &str) -> Result<(), Status> {
        let network_config = Some(cri::NetworkConfig { pod_cidr: range.into() });
        let runtime_config = Some(cri::RuntimeConfig { network_config });
        let asked = cri::UpdateRuntimeConfigRequest { runtime_config };
        with_timeout(DEFAULT_TIMEOUT, self.cri().runtime.update_runtime_config(asked))
            .await
            .map(drop)
    }

    pub(crate) async fn sandboxes(
        &self,
        label_selector: HashMap<String, String>,
    ) -> Result<Vec<cri::PodSandbox>, Status> {
        let filter = cri::PodSandboxFilter { label_selector, ..Default::default() };
        let asked = cri::ListPodSandboxRequest { filter: Some(filter) };
        Ok(self
            .repeatable(
                asked,
                |mut cri, asked| async move { cri.runtime.list_pod_sandbox(asked).await },
            )
            .await?
            .items)
    }

    pub(crate) async fn containers(
        &self,
        label_selector: HashMap<String, String>,
    ) -> Result<Vec<cri::Container>, Status> {
        let filter = cri::ContainerFilter { label_selector, ..Default::default() };
        let asked = cri::ListContainersRequest { filter: Some(filter) };
        Ok(self
            .repeatable(
                asked,
                |mut cri, asked| async move { cri.runtime.list_containers(asked).await },
            )
            .await?
            .containers)
    }

    pub(crate) async fn sandbox_status(&self, id: &str) -> Result<cri::PodSandboxStatus, Status> {
        let asked = cri::PodSandboxStatusRequest { pod_sandbox_id: id.into(), verbose: false };
        let answer = self
            .repeatable(asked, |mut cri, asked| async move {
                cri.runtime.pod_sandbox_status(asked).await
            })
            .await?;
        answer.status.ok_or_else(|| Status::not_found("the runtime gives no status"))
    }

    pub(crate) async fn container_status(&self, id: &str) -> Result<cri::ContainerStatus, Status> {
        let asked = cri::ContainerStatusRequest { container_id: id.into(), verbose: false };
        let answer =
            self.repeatable(asked, |mut cri, asked| async move {
                cri.runtime.container_status(asked).await
            })
            .await?;
        answer.status.ok_or_else(|| Status::not_found("the runtime gives no status"))
    }

    pub(crate) async fn run_sandbox(
        &self,
        config: cri::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, Status> {
        let asked =
            cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.into() };
        Ok(with_timeout(SANDBOX, self.cri().runtime.run_pod_sandbox(asked)).await?.pod_sandbox_id)
    }

    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        let asked = cri::StopPodSandboxRequest { pod_sandbox_id: id.into() };
        ignore_not_found(
            with_timeout(SANDBOX, self.cri().runtime.stop_pod_sandbox(asked)).await.map(drop),
        )
    }

    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        let asked = cri::RemovePodSandboxRequest { pod_sandbox_id: id.into() };
        ignore_not_found(
            with_timeout(SANDBOX, self.cri().runtime.remove_pod_sandbox(asked)).await.map(drop),
        )
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
        Ok(with_timeout(DEFAULT_TIMEOUT, self.cri().runtime.create_container(asked))
            .await?
            .container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<(), Status> {
        let asked = cri::StartContainerRequest { container_id: id.into() };
        with_timeout(DEFAULT_TIMEOUT, self.cri().runtime.start_container(asked)).await.map(drop)
    }

    pub(crate) async fn stop(&self, id: &str, grace: i64) -> Result<(), Status> {
        let asked = cri::StopContainerRequest { container_id: id.into(), timeout: grace };
        let patience = DEFAULT_TIMEOUT + wait_seconds(grace);
        let stopped = with_timeout(patience, self.cri().runtime.stop_container(asked)).await;
        ignore_not_found(stopped.map(drop))
    }

    /// Changes the resource limits of a running container.
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
        with_timeout(DEFAULT_TIMEOUT, self.cri().runtime.update_container_resources(asked))
            .await
            .map(drop)
    }

    /// Makes the runtime reopen the log file of a container, after rotation.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<(), Status> {
        let asked = cri::ReopenContainerLogRequest { container_id: id.into() };
        with_timeout(DEFAULT_TIMEOUT, self.cri().runtime.reopen_container_log(asked))
            .await
            .map(drop)
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<(), Status> {
        let asked = cri::RemoveContainerRequest { container_id: id.into() };
        ignore_not_found(
            self.repeatable(asked, |mut cri, asked| async move {
                cri.runtime.remove_container(asked).await
            })
            .await
            .map(drop),
        )
    }

    /// Runs a command in a container and returns its exit code and output.
    pub(crate) async fn exec(
        &self,
        id: &str,
        cmd: Vec<String>,
        patience: Duration,
    ) -> Result<cri::ExecSyncResponse, Status> {
        let seconds = patience.as_secs().max(1).try_into().unwrap_or(i64::MAX);
        let asked = cri::ExecSyncRequest { container_id: id.into(), cmd, timeout: seconds };
        // the runtime's own timeout kills the process first
        let slack = patience + Duration::from_secs(2);
        with_timeout(slack, self.cri().runtime.exec_sync(asked)).await
    }

    pub(crate) async fn image(&self, image: &str) -> Result<Option<cri::Image>, Status> {
        let image = Some(cri::ImageSpec { image: image.into(), ..Default::default() });
        let asked = cri::ImageStatusRequest { image, verbose: false };
        Ok(self
            .repeatable(asked, |mut cri, asked| async move { cri.images.image_status(asked).await })
            .await?
            .image)
    }

    pub(crate) async fn images(&self) -> Result<Vec<cri::Image>, Status> {
        let asked = cri::ListImagesRequest { filter: None };
        Ok(self
            .repeatable(asked, |mut cri, asked| async move { cri.images.list_images(asked).await })
            .await?
            .images)
    }

    pub(crate) async fn remove_image(&self, id: &str) -> Result<(), Status> {
        let image = Some(cri::ImageSpec { image: id.into(), ..Default::default() });
        let asked = cri::RemoveImageRequest { image };
        self.repeatable(asked, |mut cri, asked| async move { cri.images.remove_image(asked).await })
            .await
            .map(drop)
    }

    /// The directory where the runtime stores images.
    pub(crate) async fn image_folder(&self) -> Result<Option<String>, Status> {
        let asked = cri::ImageFsInfoRequest {};
        let answer =
            self.repeatable(asked, |mut cri, asked| async move {
                cri.images.image_fs_info(asked).await
            })
            .await?;
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
        Ok(with_timeout(PULL, self.cri().images.pull_image(asked)).await?.image_ref)
    }
}

/// Calls `ask` again if the connection was lost the first time.
async fn twice_if_lost<A, F: Future<Output = Result<A, Status>>>(
    ask: impl Fn() -> F,
) -> Result<A, Status> {
    match ask().await {
        Err(error) if is_lost_connection(&error) => ask().await,
        answer => answer,
    }
}

/// Whether the call failed without a response. Only such errors have a source; errors that the runtime returns have
/// none.
fn is_lost_connection(error: &Status) -> bool {
    std::error::Error::source(error).is_some()
}

/// Awaits a response with a timeout. The length of error messages is limited, because they end up in events and
/// statuses.
pub(crate) async fn with_timeout<T>(
    patience: Duration,
    asked: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match timeout(patience, asked).await {
        Ok(answer) => answer.map(tonic::Response::into_inner).map_err(container::bounded),
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

fn ignore_not_found(answer: Result<(), Status>) -> Result<(), Status> {
    match answer {
        Err(error) if error.code() == tonic::Code::NotFound => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn only_a_lost_connection_is_asked_again() {
        let asked = Cell::new(0);
        let lost = || {
            let mut status = Status::unknown("transport error");
            status.set_source(Arc::new(std::io::Error::other("h2 protocol error")));
            status
        };
        let answer = twice_if_lost(|| {
            asked.set(asked.get() + 1);
            let answer = if asked.get() == 1 { Err(lost()) } else { Ok(7) };
            async move { answer }
        });
        assert_eq!((answer.await.expect("the second"), asked.get()), (7, 2));
        let refused = twice_if_lost(|| {
            asked.set(asked.get() + 1);
            async { Err::<(), _>(Status::not_found("no such container")) }
        });
        refused.await.expect_err("as answered");
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test]
    async fn what_a_runtime_says_is_bounded() {
        let long = async { Err::<tonic::Response<()>, _>(Status::unknown("x".repeat(200_000))) };
        let error = with_timeout(DEFAULT_TIMEOUT, long).await.expect_err("an error");
        assert!(error.message().len() < 6000);
    }
}
