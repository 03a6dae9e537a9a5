//! certificates/v1beta1: PodCertificateRequest.

use macros::api;
use object::{Bytes, Condition, List, Map, ObjectMeta, Time};
use schema::{Kind, METADATA, Names, Storage, Subresource};

#[api]
pub struct PodCertificateRequest {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: PodCertificateRequestSpec,
    #[api(tag = 3)]
    status: PodCertificateRequestStatus,
}

#[api]
pub struct PodCertificateRequestSpec {
    #[api(tag = 1, required, always)]
    signer_name: String,
    #[api(tag = 2, required, always)]
    pod_name: String,
    #[api(tag = 3, name = "podUID", required, always, go = "types.UID")]
    pod_uid: String,
    #[api(tag = 4, required, always)]
    service_account_name: String,
    #[api(tag = 5, name = "serviceAccountUID", required, always, go = "types.UID")]
    service_account_uid: String,
    #[api(tag = 6, required, always, go = "types.NodeName")]
    node_name: String,
    #[api(tag = 7, name = "nodeUID", required, always, go = "types.UID")]
    node_uid: String,
    #[api(tag = 8, default = 86400)]
    max_expiration_seconds: Option<i32>,
    #[api(tag = 9, always)]
    pkix_public_key: Bytes,
    #[api(tag = 10, always)]
    proof_of_possession: Bytes,
    #[api(tag = 12, name = "stubPKCS10Request", required, always)]
    stub_pkcs10_request: Bytes,
    #[api(tag = 11)]
    unverified_user_annotations: Map<String>,
}

#[api]
pub struct PodCertificateRequestStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    #[api(tag = 2)]
    certificate_chain: String,
    #[api(tag = 4)]
    not_before: Option<Time>,
    #[api(tag = 5)]
    begin_refresh_at: Option<Time>,
    #[api(tag = 6)]
    not_after: Option<Time>,
}

impl Kind for PodCertificateRequest {
    const NAMES: Names = Names {
        group: "certificates.k8s.io",
        version: "v1beta1",
        kind: "PodCertificateRequest",
        plural: "podcertificaterequests",
        singular: "podcertificaterequest",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("podcertificaterequests", "v1beta1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "PodCertificateRequest", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
