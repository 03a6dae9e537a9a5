//! core/v1: volumes that are made of several sources.

use macros::api;
use object::{LabelSelector, List, Map};

use crate::core::{LocalObjectReference, ObjectFieldSelector, ResourceFieldSelector};

#[api]
pub struct ProjectedVolumeSource {
    /// What the files come from.
    #[api(always)]
    sources: List<VolumeProjection>,
    /// The mode of files that do not name one.
    #[api(default = 420, implied)]
    default_mode: Option<i32>,
    /// The user who owns files that do not name one.
    #[api(gate = "AtomicWriteVolumeUserFields")]
    default_user: Option<i64>,
}

#[api]
pub struct VolumeProjection {
    /// Keys of a secret.
    secret: Option<SecretProjection>,
    /// Fields of the pod.
    #[api(name = "downwardAPI")]
    downward_api: Option<DownwardAPIProjection>,
    /// Keys of a map.
    config_map: Option<ConfigMapProjection>,
    /// A token of the pod's account.
    service_account_token: Option<ServiceAccountTokenProjection>,
    /// Certificates that the cluster trusts.
    cluster_trust_bundle: Option<ClusterTrustBundleProjection>,
    /// A certificate of the pod's own.
    pod_certificate: Option<PodCertificateProjection>,
}

#[api]
pub struct SecretProjection {
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Which keys become which files; all when empty.
    items: List<KeyToPath>,
    /// Whether it may be missing.
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ConfigMapProjection {
    /// Which object, by name.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Which keys become which files; all when empty.
    items: List<KeyToPath>,
    /// Whether it may be missing.
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ServiceAccountTokenProjection {
    /// Whom the token is for.
    audience: String,
    /// How long the token is good.
    #[api(default = 3600, implied)]
    expiration_seconds: Option<i64>,
    /// The file, relative to the volume.
    path: Must<String>,
    /// The user who owns the file.
    #[api(gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct ClusterTrustBundleProjection {
    /// The bundle, where it is one alone.
    name: Option<String>,
    /// The signer whose bundles are taken.
    signer_name: Option<String>,
    /// Which of the signer's bundles.
    label_selector: Option<LabelSelector>,
    /// Whether it may be missing.
    #[api(tag = 5)]
    optional: Option<bool>,
    /// The file, relative to the volume.
    #[api(tag = 4)]
    path: Must<String>,
    /// The user who owns the file.
    #[api(tag = 6, gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct PodCertificateProjection {
    /// Who signs the certificate.
    #[api(required)]
    signer_name: String,
    /// The kind of key that is made.
    #[api(required)]
    key_type: String,
    /// How long the certificate may be good.
    max_expiration_seconds: Option<i32>,
    /// The file with the key and the certificates.
    credential_bundle_path: String,
    /// The file with the key alone.
    key_path: String,
    /// The file with the certificates alone.
    certificate_chain_path: String,
    /// What the signer is told.
    user_annotations: Map<String>,
    /// The user who owns the file.
    #[api(gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct DownwardAPIProjection {
    /// Which fields become which files.
    items: List<DownwardAPIVolumeFile>,
}

#[api]
pub struct DownwardAPIVolumeFile {
    /// The file, relative to the volume.
    path: Must<String>,
    /// A field of the pod.
    field_ref: Option<ObjectFieldSelector>,
    /// A limit or request of a container.
    resource_field_ref: Option<ResourceFieldSelector>,
    /// The mode of the file.
    mode: Option<i32>,
    /// The user who owns the file.
    #[api(gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct KeyToPath {
    /// The key.
    key: Must<String>,
    /// The file, relative to the volume.
    path: Must<String>,
    /// The mode of the file.
    mode: Option<i32>,
    /// The user who owns the file.
    #[api(gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}
