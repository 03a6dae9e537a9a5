//! core/v1: volumes that are made of several sources.

use macros::api;
use object::{LabelSelector, List, Map};

use crate::core::{LocalObjectReference, ObjectFieldSelector, ResourceFieldSelector};

#[api]
pub struct ProjectedVolumeSource {
    #[api(tag = 1, always)]
    sources: List<VolumeProjection>,
    #[api(tag = 2, default = 420, implied)]
    default_mode: Option<i32>,
    #[api(tag = 3)]
    default_user: Option<i64>,
}

#[api]
pub struct VolumeProjection {
    #[api(tag = 1)]
    secret: Option<SecretProjection>,
    #[api(tag = 2, name = "downwardAPI")]
    downward_api: Option<DownwardAPIProjection>,
    #[api(tag = 3)]
    config_map: Option<ConfigMapProjection>,
    #[api(tag = 4)]
    service_account_token: Option<ServiceAccountTokenProjection>,
    #[api(tag = 5)]
    cluster_trust_bundle: Option<ClusterTrustBundleProjection>,
    #[api(tag = 6)]
    pod_certificate: Option<PodCertificateProjection>,
}

#[api]
pub struct SecretProjection {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2)]
    items: List<KeyToPath>,
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ConfigMapProjection {
    #[api(tag = 1, inline)]
    local_object_reference: LocalObjectReference,
    #[api(tag = 2)]
    items: List<KeyToPath>,
    #[api(tag = 4)]
    optional: Option<bool>,
}

#[api]
pub struct ServiceAccountTokenProjection {
    #[api(tag = 1)]
    audience: String,
    #[api(tag = 2, default = 3600, implied)]
    expiration_seconds: Option<i64>,
    #[api(tag = 3, required, always)]
    path: String,
    #[api(tag = 4)]
    user: Option<i64>,
}

#[api]
pub struct ClusterTrustBundleProjection {
    #[api(tag = 1)]
    name: Option<String>,
    #[api(tag = 2)]
    signer_name: Option<String>,
    #[api(tag = 3)]
    label_selector: Option<LabelSelector>,
    #[api(tag = 5)]
    optional: Option<bool>,
    #[api(tag = 4, required, always)]
    path: String,
    #[api(tag = 6)]
    user: Option<i64>,
}

#[api]
pub struct PodCertificateProjection {
    #[api(tag = 1)]
    signer_name: String,
    #[api(tag = 2)]
    key_type: String,
    #[api(tag = 3)]
    max_expiration_seconds: Option<i32>,
    #[api(tag = 4)]
    credential_bundle_path: String,
    #[api(tag = 5)]
    key_path: String,
    #[api(tag = 6)]
    certificate_chain_path: String,
    #[api(tag = 7)]
    user_annotations: Map<String>,
    #[api(tag = 8)]
    user: Option<i64>,
}

#[api]
pub struct DownwardAPIProjection {
    #[api(tag = 1)]
    items: List<DownwardAPIVolumeFile>,
}

#[api]
pub struct DownwardAPIVolumeFile {
    #[api(tag = 1, required, always)]
    path: String,
    #[api(tag = 2)]
    field_ref: Option<ObjectFieldSelector>,
    #[api(tag = 3)]
    resource_field_ref: Option<ResourceFieldSelector>,
    #[api(tag = 4)]
    mode: Option<i32>,
    #[api(tag = 5)]
    user: Option<i64>,
}

#[api]
pub struct KeyToPath {
    #[api(tag = 1, required, always)]
    key: String,
    #[api(tag = 2, required, always)]
    path: String,
    #[api(tag = 3)]
    mode: Option<i32>,
    #[api(tag = 4)]
    user: Option<i64>,
}
