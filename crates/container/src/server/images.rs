//! The CRI image service.

use std::time::Duration;

use tonic::{Request, Response, Status};

use super::service::{Service, Stream, once};
use crate::{
    cri::{
        AuthConfig, Image as CriImage, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec,
        ImageStatusRequest, ImageStatusResponse, Int64Value, ListImagesRequest, ListImagesResponse,
        PullImageRequest, PullImageResponse, RemoveImageRequest, RemoveImageResponse,
        StreamImagesRequest, StreamImagesResponse, image_service_server::ImageService,
    },
    image::{Error, Image, RegistryAuth},
};

/// Time limit of a pull, so that its pod does not wait for ever.
const PULL_TIMEOUT: Duration = Duration::from_hours(1);

#[tonic::async_trait]
impl ImageService for Service {
    type StreamImagesStream = Stream<StreamImagesResponse>;

    async fn list_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        Ok(Response::new(ListImagesResponse { images: self.images(filter) }))
    }

    async fn stream_images(
        &self,
        request: Request<StreamImagesRequest>,
    ) -> Result<Response<Self::StreamImagesStream>, Status> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        Ok(once(StreamImagesResponse { images: self.images(filter) }))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let spec = request.into_inner().image.unwrap_or_default();
        let image = self.0.store.resolve(&spec.image).map(to_cri_image);
        Ok(Response::new(ImageStatusResponse { image, ..ImageStatusResponse::default() }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let request = request.into_inner();
        let spec = request.image.unwrap_or_default();
        let auth = request.auth.map(credentials).transpose()?.flatten();
        let pull = self.0.store.pull(&spec.image, auth.as_ref());
        let pulled = tokio::time::timeout(PULL_TIMEOUT, pull).await.map_err(|_| {
            Status::deadline_exceeded(format!("pull of {} took too long", spec.image))
        })?;
        let image = pulled.map_err(status)?;
        Ok(Response::new(PullImageResponse { image_ref: image.id }))
    }

    async fn remove_image(
        &self,
        request: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        let spec = request.into_inner().image.unwrap_or_default();
        self.0.store.remove(&spec.image).await.map_err(status)?;
        Ok(Response::new(RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        let inner = self.0.clone();
        let info = crate::threads::run(move || inner.image_fs_info()).await;
        info.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Service {
    fn images(&self, filter: Option<ImageSpec>) -> Vec<CriImage> {
        match filter.filter(|spec| !spec.image.is_empty()) {
            Some(spec) => self.0.store.resolve(&spec.image).into_iter().map(to_cri_image).collect(),
            None => self.0.store.list().into_iter().map(to_cri_image).collect(),
        }
    }
}

fn to_cri_image(image: Image) -> CriImage {
    let user = image.config.user.split(':').next().unwrap_or_default();
    // A number outside the range of uids is treated as a name, so that `runAsNonRoot` is not misled.
    let number = user.parse().ok().filter(|uid| (0..=i64::from(i32::MAX)).contains(uid));
    let uid = if user.is_empty() { Some(0) } else { number };
    let username = if uid.is_none() { user.to_owned() } else { String::new() };
    CriImage {
        spec: Some(ImageSpec {
            annotations: image.config.labels.clone().into_iter().collect(),
            ..ImageSpec::default()
        }),
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        uid: uid.map(|value| Int64Value { value }),
        username,
        pinned: image.pinned,
    }
}

/// The registry credentials of a request; `None` if all fields are empty.
fn credentials(from: AuthConfig) -> Result<Option<RegistryAuth>, Status> {
    if from == AuthConfig::default() {
        return Ok(None);
    }
    if !from.auth.is_empty() {
        return RegistryAuth::from_base64(&from.auth).map(Some).map_err(status);
    }
    Ok(Some(RegistryAuth {
        username: from.username,
        password: from.password,
        identity_token: from.identity_token,
        registry_token: from.registry_token,
    }))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn status(error: Error) -> Status {
    match error {
        Error::NotFound(_) => Status::not_found(error.to_string()),
        Error::Unauthorized { .. } => Status::permission_denied(error.to_string()),
        Error::Reference(_) => Status::invalid_argument(error.to_string()),
        _ => Status::unknown(error.to_string()),
    }
}
