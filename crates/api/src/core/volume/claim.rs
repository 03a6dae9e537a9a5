//! core/v1: what a volume is claimed by, in a claim of its own or within a pod.

use macros::api;
use object::{LabelSelector, List, Map, ObjectMeta, Quantity};

use crate::core::{
    TypedLocalObjectReference, TypedObjectReference, persistent_volume_claim::ACCESS_MODES,
};

#[api]
pub struct EphemeralVolumeSource {
    /// What the claim is made from.
    volume_claim_template: Option<PersistentVolumeClaimTemplate>,
}

#[api]
pub struct PersistentVolumeClaimTemplate {
    /// Labels and annotations of the claim.
    metadata: ObjectMeta,
    /// What the claim asks for.
    spec: Must<PersistentVolumeClaimSpec>,
}

#[api]
pub struct PersistentVolumeClaimSpec {
    /// How the volume shall be used.
    #[api(go = "[]v1.PersistentVolumeAccessMode", values = &ACCESS_MODES)]
    access_modes: List<String>,
    /// Labels of the volumes that will do.
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    /// How large it must be.
    #[api(tag = 2)]
    resources: VolumeResourceRequirements,
    /// The volume that the claim has got.
    volume_name: String,
    /// The class that the volume shall be of.
    #[api(tag = 5)]
    storage_class_name: Option<String>,
    /// Filesystem or Block.
    #[api(default = "Filesystem", implied, go = "v1.PersistentVolumeMode")]
    #[api(values("Block", "Filesystem"))]
    volume_mode: Option<String>,
    /// What the volume is filled from: a claim or a snapshot.
    data_source: Option<TypedLocalObjectReference>,
    /// What the volume is filled from, of any kind.
    data_source_ref: Option<TypedObjectReference>,
    /// The class of attributes that it shall have.
    volume_attributes_class_name: Option<String>,
}

#[api]
pub struct VolumeResourceRequirements {
    /// The most that it may be.
    #[api(go = "v1.ResourceList")]
    limits: Map<Quantity>,
    /// The least that it must be.
    #[api(go = "v1.ResourceList")]
    requests: Map<Quantity>,
}
