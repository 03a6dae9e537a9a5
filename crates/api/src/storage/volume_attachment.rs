//! storage/v1: VolumeAttachment.

use macros::api;
use object::{Map, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Scope, Storage, Subresource};

use crate::core::PersistentVolumeSpec;

#[api]
pub struct VolumeAttachment {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: VolumeAttachmentSpec,
    #[api(tag = 3)]
    status: VolumeAttachmentStatus,
}

#[api]
pub struct VolumeAttachmentSpec {
    #[api(tag = 1, required, always)]
    attacher: String,
    #[api(tag = 2, required, always)]
    source: VolumeAttachmentSource,
    #[api(tag = 3, required, always)]
    node_name: String,
}

#[api]
pub struct VolumeAttachmentSource {
    #[api(tag = 1)]
    persistent_volume_name: Option<String>,
    #[api(tag = 2)]
    inline_volume_spec: Option<PersistentVolumeSpec>,
}

#[api]
pub struct VolumeAttachmentStatus {
    #[api(tag = 1, required, always)]
    attached: bool,
    #[api(tag = 2)]
    attachment_metadata: Map<String>,
    #[api(tag = 3)]
    attach_error: Option<VolumeError>,
    #[api(tag = 4)]
    detach_error: Option<VolumeError>,
}

#[api]
pub struct VolumeError {
    #[api(tag = 1)]
    time: Time,
    #[api(tag = 2)]
    message: String,
    #[api(tag = 3)]
    error_code: Option<i32>,
}

impl Kind for VolumeAttachment {
    const NAMES: Names = Names {
        group: "storage.k8s.io",
        version: "v1",
        kind: "VolumeAttachment",
        plural: "volumeattachments",
        singular: "volumeattachment",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("volumeattachments", "v1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "VolumeAttachment", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
