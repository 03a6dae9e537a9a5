//! core/v1: volumes that are made of several sources.

use macros::api;
use object::{LabelSelector, List, Map};

use crate::core::{LocalObjectReference, ObjectFieldSelector, ResourceFieldSelector};

#[api]
pub struct ProjectedVolumeSource {
    /// Sources of the files.
    #[api(no_omitempty)]
    sources: List<VolumeProjection>,
    /// Permission bits of files that set none themselves, 0644 by default.
    #[api(default = 420, unpublished_default)]
    default_mode: Option<i32>,
    /// User ID that owns files that set none themselves.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    default_user: Option<i64>,
}

#[api]
pub struct VolumeProjection {
    /// Keys of a Secret.
    secret: Option<SecretProjection>,
    /// Fields of the pod.
    #[api(name = "downwardAPI")]
    downward_api: Option<DownwardAPIProjection>,
    /// Keys of a ConfigMap.
    config_map: Option<ConfigMapProjection>,
    /// A token of the pod's service account, renewed before it expires.
    service_account_token: Option<ServiceAccountTokenProjection>,
    /// Certificates that the cluster trusts.
    cluster_trust_bundle: Option<ClusterTrustBundleProjection>,
    /// A certificate of the pod's own.
    pod_certificate: Option<PodCertificateProjection>,
}

#[api]
pub struct SecretProjection {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Keys to project, and the path of each. If empty, every key becomes a file of its name.
    items: List<KeyToPath>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ConfigMapProjection {
    /// Name of the object, which is in the same namespace.
    #[api(inline)]
    local_object_reference: LocalObjectReference,
    /// Keys to project, and the path of each. If empty, every key becomes a file of its name.
    items: List<KeyToPath>,
    /// Whether the object or key may be missing. By default a pod does not start without it.
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ServiceAccountTokenProjection {
    /// Audience of the token. Defaults to the API server.
    audience: String,
    /// Lifetime of the token in seconds, 3600 by default, at least 600.
    #[api(default = 3600, unpublished_default)]
    expiration_seconds: Option<i64>,
    /// Path of the file, relative to the volume.
    path: Must<String>,
    /// User ID that owns the file.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
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
    /// Whether the object or key may be missing. By default a pod does not start without it.
    #[api(tag = 5)]
    optional: Option<bool>,
    /// Path of the file, relative to the volume.
    #[api(tag = 4)]
    path: Must<String>,
    /// User ID that owns the file.
    #[api(tag = 6, feature_gate = "AtomicWriteVolumeUserFields")]
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
    /// Annotations that are passed to the signer.
    user_annotations: Map<String>,
    /// User ID that owns the file.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct DownwardAPIProjection {
    /// Which fields become which files.
    items: List<DownwardAPIVolumeFile>,
}

#[api]
pub struct DownwardAPIVolumeFile {
    /// Path of the file, relative to the volume.
    path: Must<String>,
    /// A field of the pod, such as metadata.name or status.podIP.
    field_ref: Option<ObjectFieldSelector>,
    /// A limit or request of a container.
    resource_field_ref: Option<ResourceFieldSelector>,
    /// Permission bits of the file.
    mode: Option<i32>,
    /// User ID that owns the file.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}

#[api]
pub struct KeyToPath {
    /// Key to project.
    key: Must<String>,
    /// Path of the file, relative to the volume.
    path: Must<String>,
    /// Permission bits of the file.
    mode: Option<i32>,
    /// User ID that owns the file.
    #[api(feature_gate = "AtomicWriteVolumeUserFields")]
    user: Option<i64>,
}
