//! certificates/v1: CertificateSigningRequest.

use macros::api;
use object::{Bytes, List, Map, ObjectMeta, Time};
use schema::{Kind, Names, Scope, Storage, Subresource};

#[api]
pub struct CertificateSigningRequest {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: CertificateSigningRequestSpec,
    #[api(tag = 3)]
    status: CertificateSigningRequestStatus,
}

#[api]
pub struct CertificateSigningRequestSpec {
    #[api(tag = 1, required, always)]
    request: Bytes,
    #[api(tag = 7, required, always)]
    signer_name: String,
    #[api(tag = 8)]
    expiration_seconds: Option<i32>,
    #[api(tag = 5, go = "[]v1.KeyUsage")]
    usages: List<String>,
    #[api(tag = 2)]
    username: String,
    #[api(tag = 3)]
    uid: String,
    #[api(tag = 4)]
    groups: List<String>,
    #[api(tag = 6, go = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
}

#[api]
pub struct CertificateSigningRequestStatus {
    #[api(tag = 1, keys("type"))]
    conditions: List<CertificateSigningRequestCondition>,
    #[api(tag = 2)]
    certificate: Bytes,
}

#[api]
pub struct CertificateSigningRequestCondition {
    #[api(tag = 1, required, always, go = "v1.RequestConditionType")]
    type_: String,
    #[api(tag = 6, required, always, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 2)]
    reason: String,
    #[api(tag = 3)]
    message: String,
    #[api(tag = 4)]
    last_update_time: Time,
    #[api(tag = 5)]
    last_transition_time: Time,
}

impl Kind for CertificateSigningRequest {
    const NAMES: Names = Names {
        group: "certificates.k8s.io",
        version: "v1",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        singular: "certificatesigningrequest",
        short: &["csr"],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("certificatesigningrequests", "v1");
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::new("approval", "CertificateSigningRequest", &["get", "patch", "update"]),
        Subresource::new("status", "CertificateSigningRequest", &["get", "patch", "update"]),
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
