//! The scripted runtime's gRPC service: every call goes to the method of `Runtime` with the same name.

use std::pin::Pin;

use container::cri::*;
use container::cri::{
    image_service_server::{ImageService, ImageServiceServer},
    runtime_service_server::{RuntimeService, RuntimeServiceServer},
};
use tokio::net::UnixListener;
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{BroadcastStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, transport::Server};

use crate::runtime::Runtime;

type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Implements `RuntimeService` from three lists: calls that `Runtime` handles, unimplemented calls, and unimplemented
/// streams.
macro_rules! runtime_service {
    (
        { $($name:ident($request:ty) -> $response:ty;)* }
        { $($absent:ident($absent_request:ty) -> $absent_response:ty;)* }
        { $($stream:ident($stream_request:ty) -> $type:ident of $item:ty;)* }
    ) => {
        #[tonic::async_trait]
        impl RuntimeService for Runtime {
            $(
                async fn $name(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                    Runtime::$name(self, request.into_inner()).map(Response::new)
                }
            )*
            $(
                async fn $absent(&self, _: Request<$absent_request>) -> Result<Response<$absent_response>, Status> {
                    Err(Status::unimplemented(stringify!($absent)))
                }
            )*
            $(
                type $type = Streaming<$item>;
                async fn $stream(&self, _: Request<$stream_request>) -> Result<Response<Self::$type>, Status> {
                    Err(Status::unimplemented(stringify!($stream)))
                }
            )*
            type GetContainerEventsStream = Streaming<ContainerEventResponse>;
            async fn get_container_events(
                &self,
                _: Request<GetEventsRequest>,
            ) -> Result<Response<Self::GetContainerEventsStream>, Status> {
                let Some(events) = self.events() else { return Err(Status::unimplemented("no events")) };
                let events = BroadcastStream::new(events).map(|event| {
                    event.map_err(|_| Status::unavailable("too many events at once"))
                });
                Ok(Response::new(Box::pin(events)))
            }
        }
    };
}

runtime_service! {
    {
        version(VersionRequest) -> VersionResponse;
        status(StatusRequest) -> StatusResponse;
        update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        create_container(CreateContainerRequest) -> CreateContainerResponse;
        start_container(StartContainerRequest) -> StartContainerResponse;
        stop_container(StopContainerRequest) -> StopContainerResponse;
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
        list_containers(ListContainersRequest) -> ListContainersResponse;
        container_status(ContainerStatusRequest) -> ContainerStatusResponse;
        exec_sync(ExecSyncRequest) -> ExecSyncResponse;
    }
    {
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
        exec(ExecRequest) -> ExecResponse;
        attach(AttachRequest) -> AttachResponse;
        port_forward(PortForwardRequest) -> PortForwardResponse;
        container_stats(ContainerStatsRequest) -> ContainerStatsResponse;
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
        pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse;
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
        checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse;
        checkpoint_pod(CheckpointPodRequest) -> CheckpointPodResponse;
        restore_pod(RestorePodRequest) -> RestorePodResponse;
        list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse;
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse;
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;
    }
    {
        stream_pod_sandboxes(StreamPodSandboxesRequest) -> StreamPodSandboxesStream of StreamPodSandboxesResponse;
        stream_containers(StreamContainersRequest) -> StreamContainersStream of StreamContainersResponse;
        stream_container_stats(StreamContainerStatsRequest) -> StreamContainerStatsStream of StreamContainerStatsResponse;
        stream_pod_sandbox_stats(StreamPodSandboxStatsRequest) -> StreamPodSandboxStatsStream of StreamPodSandboxStatsResponse;
        stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest) -> StreamPodSandboxMetricsStream of StreamPodSandboxMetricsResponse;
    }
}

#[tonic::async_trait]
impl ImageService for Runtime {
    type StreamImagesStream = Streaming<StreamImagesResponse>;

    async fn stream_images(
        &self,
        _: Request<StreamImagesRequest>,
    ) -> Result<Response<Self::StreamImagesStream>, Status> {
        Err(Status::unimplemented("stream_images"))
    }

    async fn list_images(
        &self,
        _: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        Ok(Response::new(ListImagesResponse { images: self.images() }))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let name = request.into_inner().image.unwrap_or_default().image;
        let image = self.images().into_iter().find(|image| image.id == name);
        Ok(Response::new(ImageStatusResponse { image, ..Default::default() }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        Runtime::pull_image(self, request.into_inner()).map(Response::new)
    }

    async fn remove_image(
        &self,
        _: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        Err(Status::unimplemented("remove_image"))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        Ok(Response::new(ImageFsInfoResponse::default()))
    }
}

/// Serves both services until the test's runtime ends.
pub(crate) async fn serve(runtime: Runtime, listener: UnixListener) {
    let served = Server::builder()
        .add_service(RuntimeServiceServer::new(runtime.clone()))
        .add_service(ImageServiceServer::new(runtime))
        .serve_with_incoming(UnixListenerStream::new(listener));
    served.await.expect("the socket stays open");
}
