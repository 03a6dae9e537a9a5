//! The CRI runtime service. Each call delegates to a method of `Inner`.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use futures_util::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tonic::{Request, Response, Status};

use super::{Inner, blocking, caller::Caller, internal, now, spec::limits, state::ContainerRecord};
// In test builds the lint is not active, and an expectation would fail.
#[cfg_attr(
    not(test),
    expect(
        clippy::wildcard_imports,
        reason = "nearly every message of the interface is named here"
    )
)]
use crate::cri::{runtime_service_server::RuntimeService, *};
use crate::shim::protocol;

/// Implements both CRI services.
#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Arc<Inner>);

pub(crate) type Stream<T> = Pin<Box<dyn futures_util::Stream<Item = Result<T, Status>> + Send>>;

/// Returns a list as a stream with a single message.
pub(crate) fn once<T: Send + 'static>(message: T) -> Response<Stream<T>> {
    Response::new(Box::pin(futures_util::stream::once(async { Ok(message) })))
}

type Answer<T> = Result<Response<T>, Status>;

#[expect(clippy::unnecessary_wraps, reason = "the shape of every answer")]
fn ok<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

#[tonic::async_trait]
impl RuntimeService for Service {
    type StreamPodSandboxesStream = Stream<StreamPodSandboxesResponse>;
    type StreamContainersStream = Stream<StreamContainersResponse>;
    type StreamContainerStatsStream = Stream<StreamContainerStatsResponse>;
    type StreamPodSandboxStatsStream = Stream<StreamPodSandboxStatsResponse>;
    type StreamPodSandboxMetricsStream = Stream<StreamPodSandboxMetricsResponse>;
    type GetContainerEventsStream = Stream<ContainerEventResponse>;

    async fn version(&self, _: Request<VersionRequest>) -> Answer<VersionResponse> {
        ok(VersionResponse {
            version: "0.1.0".into(),
            runtime_name: super::NAME.into(),
            runtime_version: env!("CARGO_PKG_VERSION").into(),
            runtime_api_version: "v1".into(),
        })
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<RunPodSandboxRequest>,
    ) -> Answer<RunPodSandboxResponse> {
        let request = request.into_inner();
        let config = request.config.ok_or_else(|| Status::invalid_argument("no sandbox config"))?;
        let inner = self.0.clone();
        let (caller, _waiting) = Caller::new();
        let run = async move { inner.run_sandbox(config, request.runtime_handler, &caller).await };
        let pod_sandbox_id = run_to_completion(run).await?;
        ok(RunPodSandboxResponse { pod_sandbox_id })
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<StopPodSandboxRequest>,
    ) -> Answer<StopPodSandboxResponse> {
        self.0.stop_sandbox(&request.into_inner().pod_sandbox_id).await?;
        ok(StopPodSandboxResponse {})
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<RemovePodSandboxRequest>,
    ) -> Answer<RemovePodSandboxResponse> {
        self.0.remove_sandbox(&request.into_inner().pod_sandbox_id).await?;
        ok(RemovePodSandboxResponse {})
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<PodSandboxStatusRequest>,
    ) -> Answer<PodSandboxStatusResponse> {
        let request = request.into_inner();
        let sandbox = self.0.state.sandbox(&request.pod_sandbox_id)?;
        let mut info = HashMap::new();
        if request.verbose {
            info.insert("info".to_owned(), format!("{{\"pid\":{}}}", sandbox.pid));
        }
        let containers = self.0.state.containers_of(&sandbox.id);
        ok(PodSandboxStatusResponse {
            status: Some(Inner::sandbox_status(&sandbox)),
            info,
            containers_statuses: containers.iter().map(Inner::container_status).collect(),
            timestamp: now(),
        })
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Answer<ListPodSandboxResponse> {
        ok(ListPodSandboxResponse { items: self.0.sandboxes(request.into_inner().filter) })
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<StreamPodSandboxesRequest>,
    ) -> Answer<Self::StreamPodSandboxesStream> {
        Ok(once(StreamPodSandboxesResponse {
            pod_sandboxes: self.0.sandboxes(request.into_inner().filter),
        }))
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Answer<CreateContainerResponse> {
        let request = request.into_inner();
        let config =
            request.config.ok_or_else(|| Status::invalid_argument("no container config"))?;
        let inner = self.0.clone();
        let (caller, _waiting) = Caller::new();
        let made =
            async move { inner.create_container(&request.pod_sandbox_id, config, caller).await };
        let container_id = run_to_completion(made).await?;
        ok(CreateContainerResponse { container_id })
    }

    async fn start_container(
        &self,
        request: Request<StartContainerRequest>,
    ) -> Answer<StartContainerResponse> {
        let (inner, id) = (self.0.clone(), request.into_inner().container_id);
        run_to_completion(async move { inner.start_container(&id).await }).await?;
        ok(StartContainerResponse {})
    }

    async fn stop_container(
        &self,
        request: Request<StopContainerRequest>,
    ) -> Answer<StopContainerResponse> {
        let request = request.into_inner();
        self.0.stop_container(&request.container_id, request.timeout).await?;
        ok(StopContainerResponse {})
    }

    async fn remove_container(
        &self,
        request: Request<RemoveContainerRequest>,
    ) -> Answer<RemoveContainerResponse> {
        self.0.remove_container(&request.into_inner().container_id).await?;
        ok(RemoveContainerResponse {})
    }

    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Answer<ListContainersResponse> {
        ok(ListContainersResponse { containers: self.0.containers(request.into_inner().filter) })
    }

    async fn stream_containers(
        &self,
        request: Request<StreamContainersRequest>,
    ) -> Answer<Self::StreamContainersStream> {
        Ok(once(StreamContainersResponse {
            containers: self.0.containers(request.into_inner().filter),
        }))
    }

    async fn container_status(
        &self,
        request: Request<ContainerStatusRequest>,
    ) -> Answer<ContainerStatusResponse> {
        let container = self.0.state.container(&request.into_inner().container_id)?;
        ok(ContainerStatusResponse {
            status: Some(Inner::container_status(&container)),
            info: HashMap::new(),
        })
    }

    async fn update_container_resources(
        &self,
        request: Request<UpdateContainerResourcesRequest>,
    ) -> Answer<UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        let container = self.0.state.container(&request.container_id)?;
        let Some(resources) = request.linux else { return ok(UpdateContainerResourcesResponse {}) };
        let inner = self.0.clone();
        let limit = move || {
            let group = inner.cgroup(&container.cgroup);
            group
                .and_then(|group| group.apply_limits(&limits(&resources)))
                .map_err(internal("limit the container"))?;
            let record = |one: &mut ContainerRecord| one.resources = Some(resources);
            inner.state.change_container(&container.id, record);
            inner.state.save_container(&container.id);
            Ok(())
        };
        blocking(limit).await?;
        ok(UpdateContainerResourcesResponse {})
    }

    async fn reopen_container_log(
        &self,
        request: Request<ReopenContainerLogRequest>,
    ) -> Answer<ReopenContainerLogResponse> {
        let container = self.0.running(&request.into_inner().container_id)?;
        let reopen = protocol::Request::ReopenLog { id: container.id };
        self.0
            .shim(&container.sandbox)
            .request_done(reopen)
            .await
            .map_err(internal("reopen the log"))?;
        ok(ReopenContainerLogResponse {})
    }

    async fn exec_sync(&self, request: Request<ExecSyncRequest>) -> Answer<ExecSyncResponse> {
        let request = request.into_inner();
        ok(self.0.exec_sync(&request.container_id, request.cmd, request.timeout).await?)
    }

    async fn exec(&self, request: Request<ExecRequest>) -> Answer<ExecResponse> {
        ok(ExecResponse { url: self.0.exec_url(request.into_inner())? })
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Answer<AttachResponse> {
        ok(AttachResponse { url: self.0.attach_url(&request.into_inner())? })
    }

    async fn port_forward(
        &self,
        request: Request<PortForwardRequest>,
    ) -> Answer<PortForwardResponse> {
        ok(PortForwardResponse { url: self.0.port_forward_url(&request.into_inner())? })
    }

    async fn container_stats(
        &self,
        request: Request<ContainerStatsRequest>,
    ) -> Answer<ContainerStatsResponse> {
        let container = self.0.state.container(&request.into_inner().container_id)?;
        let inner = self.0.clone();
        let stats = blocking(move || Ok(inner.container_stats(&container))).await?;
        ok(ContainerStatsResponse { stats: Some(stats) })
    }

    async fn list_container_stats(
        &self,
        request: Request<ListContainerStatsRequest>,
    ) -> Answer<ListContainerStatsResponse> {
        let inner = self.0.clone();
        let stats = blocking(move || Ok(inner.list_stats(request.into_inner().filter))).await?;
        ok(ListContainerStatsResponse { stats })
    }

    async fn stream_container_stats(
        &self,
        request: Request<StreamContainerStatsRequest>,
    ) -> Answer<Self::StreamContainerStatsStream> {
        let inner = self.0.clone();
        let container_stats =
            blocking(move || Ok(inner.list_stats(request.into_inner().filter))).await?;
        Ok(once(StreamContainerStatsResponse { container_stats }))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<PodSandboxStatsRequest>,
    ) -> Answer<PodSandboxStatsResponse> {
        let sandbox = self.0.state.sandbox(&request.into_inner().pod_sandbox_id)?;
        let inner = self.0.clone();
        let stats = blocking(move || Ok(inner.sandbox_stats(&sandbox))).await?;
        ok(PodSandboxStatsResponse { stats: Some(stats) })
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<ListPodSandboxStatsRequest>,
    ) -> Answer<ListPodSandboxStatsResponse> {
        let inner = self.0.clone();
        let filter = request.into_inner().filter;
        let stats = blocking(move || Ok(inner.list_sandbox_stats(filter))).await?;
        ok(ListPodSandboxStatsResponse { stats })
    }

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<StreamPodSandboxStatsRequest>,
    ) -> Answer<Self::StreamPodSandboxStatsStream> {
        let inner = self.0.clone();
        let filter = request.into_inner().filter;
        let pod_sandbox_stats = blocking(move || Ok(inner.list_sandbox_stats(filter))).await?;
        Ok(once(StreamPodSandboxStatsResponse { pod_sandbox_stats }))
    }

    async fn update_runtime_config(
        &self,
        request: Request<UpdateRuntimeConfigRequest>,
    ) -> Answer<UpdateRuntimeConfigResponse> {
        let config = request.into_inner().runtime_config.and_then(|config| config.network_config);
        if let Some(network) = config.filter(|network| !network.pod_cidr.is_empty()) {
            let set = self.0.cni.set_pod_cidr(&network.pod_cidr).await;
            set.map_err(|error| Status::unknown(error.to_string()))?;
        }
        ok(UpdateRuntimeConfigResponse {})
    }

    async fn status(&self, _: Request<StatusRequest>) -> Answer<StatusResponse> {
        ok(self.0.status().await)
    }

    async fn checkpoint_container(
        &self,
        _: Request<CheckpointContainerRequest>,
    ) -> Answer<CheckpointContainerResponse> {
        Err(Status::unimplemented("checkpoints are not supported"))
    }

    async fn checkpoint_pod(
        &self,
        _: Request<CheckpointPodRequest>,
    ) -> Answer<CheckpointPodResponse> {
        Err(Status::unimplemented("checkpoints are not supported"))
    }

    async fn restore_pod(&self, _: Request<RestorePodRequest>) -> Answer<RestorePodResponse> {
        Err(Status::unimplemented("checkpoints are not supported"))
    }

    async fn get_container_events(
        &self,
        _: Request<GetEventsRequest>,
    ) -> Answer<Self::GetContainerEventsStream> {
        let events = BroadcastStream::new(self.0.events.subscribe());
        let stop = self.0.stop.clone();
        // A subscriber that falls behind is disconnected and lists again.
        let events =
            events.map(|event| event.map_err(|error| Status::data_loss(error.to_string())));
        Ok(Response::new(Box::pin(events.take_until(stop.cancelled_owned()))))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<ListMetricDescriptorsRequest>,
    ) -> Answer<ListMetricDescriptorsResponse> {
        Err(Status::unimplemented("metrics are not supported; stats are"))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<ListPodSandboxMetricsRequest>,
    ) -> Answer<ListPodSandboxMetricsResponse> {
        Err(Status::unimplemented("metrics are not supported; stats are"))
    }

    async fn stream_pod_sandbox_metrics(
        &self,
        _: Request<StreamPodSandboxMetricsRequest>,
    ) -> Answer<Self::StreamPodSandboxMetricsStream> {
        Err(Status::unimplemented("metrics are not supported; stats are"))
    }

    async fn runtime_config(
        &self,
        _: Request<RuntimeConfigRequest>,
    ) -> Answer<RuntimeConfigResponse> {
        let linux = LinuxRuntimeConfiguration { cgroup_driver: CgroupDriver::Cgroupfs.into() };
        ok(RuntimeConfigResponse { linux: Some(linux) })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<UpdatePodSandboxResourcesRequest>,
    ) -> Answer<UpdatePodSandboxResourcesResponse> {
        let request = request.into_inner();
        let inner = self.0.clone();
        blocking(move || inner.update_sandbox(request)).await?;
        ok(UpdatePodSandboxResourcesResponse {})
    }
}

/// Runs a future to completion even if the caller goes away: what was begun must be recorded or undone.
async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    #[expect(
        clippy::disallowed_methods,
        reason = "joined on the next line, unless the caller has gone"
    )]
    let task = tokio::spawn(panics::contain("cri", work));
    let done = task.await.map_err(|error| Status::internal(error.to_string()))?;
    done.map_err(|panicked| Status::internal(panicked.to_string()))?
}
