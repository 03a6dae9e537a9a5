//! core/v1: what a volume is claimed by, in a claim of its own or within a pod.

use macros::api;
use object::{LabelSelector, List, Map, ObjectMeta, Quantity};

use crate::core::{TypedLocalObjectReference, TypedObjectReference, resources::round_up};

#[api]
pub struct EphemeralVolumeSource {
    #[api(tag = 1)]
    volume_claim_template: Option<PersistentVolumeClaimTemplate>,
}

#[api]
pub struct PersistentVolumeClaimTemplate {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: PersistentVolumeClaimSpec,
}

#[api]
pub struct PersistentVolumeClaimSpec {
    /// How the volume shall be used.
    #[api(tag = 1, go = "[]v1.PersistentVolumeAccessMode")]
    access_modes: List<String>,
    /// Labels of the volumes that will do.
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    /// How large it must be.
    #[api(tag = 2)]
    resources: VolumeResourceRequirements,
    /// The volume that the claim has got.
    #[api(tag = 3)]
    volume_name: String,
    /// The class that the volume shall be of.
    #[api(tag = 5)]
    storage_class_name: Option<String>,
    /// Filesystem or Block.
    #[api(tag = 6, default = "Filesystem", implied, go = "v1.PersistentVolumeMode")]
    volume_mode: Option<String>,
    /// What the volume is filled from: a claim or a snapshot.
    #[api(tag = 7)]
    data_source: Option<TypedLocalObjectReference>,
    /// What the volume is filled from, of any kind.
    #[api(tag = 8)]
    data_source_ref: Option<TypedObjectReference>,
    /// The class of attributes that it shall have.
    #[api(tag = 9)]
    volume_attributes_class_name: Option<String>,
}

#[api]
pub struct VolumeResourceRequirements {
    #[api(tag = 1, go = "v1.ResourceList")]
    limits: Map<Quantity>,
    #[api(tag = 2, go = "v1.ResourceList")]
    requests: Map<Quantity>,
}

impl VolumeResourceRequirements {
    pub(crate) fn round_up(&mut self) {
        round_up(self.limits_mut());
        round_up(self.requests_mut());
    }
}
