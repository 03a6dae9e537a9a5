//! core/v1: what a volume is claimed by, in a claim of its own or within a pod.

use macros::api;
use object::{LabelSelector, List, Map, ObjectMeta, Quantity};

use crate::core::{
    TypedLocalObjectReference, TypedObjectReference, persistent_volume_claim::ACCESS_MODES,
};

#[api]
pub struct EphemeralVolumeSource {
    /// Template of the claim, which is created and deleted with the pod.
    volume_claim_template: Option<PersistentVolumeClaimTemplate>,
}

#[api]
pub struct PersistentVolumeClaimTemplate {
    /// Labels and annotations of the claim.
    metadata: ObjectMeta,
    /// Specification of the claim.
    spec: Must<PersistentVolumeClaimSpec>,
}

#[api]
pub struct PersistentVolumeClaimSpec {
    /// Ways in which the volume must be mountable: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.
    #[api(go_type = "[]v1.PersistentVolumeAccessMode", enum_values = &ACCESS_MODES)]
    access_modes: List<String>,
    /// Label selector of the volumes that may be bound.
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    /// Requested size, as requests.storage.
    #[api(tag = 2)]
    resources: VolumeResourceRequirements,
    /// PersistentVolume that the claim is bound to.
    volume_name: String,
    /// StorageClass to provision the volume with. If not set, the default class; if "", only volumes without a class.
    #[api(tag = 5)]
    storage_class_name: Option<String>,
    /// Filesystem (default) or Block for a raw device.
    #[api(default = "Filesystem", unpublished_default, go_type = "v1.PersistentVolumeMode")]
    #[api(enum_values("Block", "Filesystem"))]
    volume_mode: Option<String>,
    /// Claim or VolumeSnapshot that the new volume is filled from.
    data_source: Option<TypedLocalObjectReference>,
    /// Object of any kind that the new volume is filled from.
    data_source_ref: Option<TypedObjectReference>,
    /// VolumeAttributesClass that the volume should have.
    volume_attributes_class_name: Option<String>,
}

#[api]
pub struct VolumeResourceRequirements {
    /// Largest size that is acceptable.
    #[api(go_type = "v1.ResourceList")]
    limits: Map<Quantity>,
    /// Smallest size that is acceptable.
    #[api(go_type = "v1.ResourceList")]
    requests: Map<Quantity>,
}
