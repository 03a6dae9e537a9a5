//! authentication/v1: more.

use macros::api;
use object::{List, Map, ObjectMeta, Time};

#[api]
pub struct TokenRequest {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, always)]
    spec: TokenRequestSpec,
    #[api(tag = 3)]
    status: TokenRequestStatus,
}

#[api]
pub struct TokenRequestSpec {
    #[api(tag = 1, always)]
    audiences: List<String>,
    #[api(tag = 4, default = 3600, implied)]
    expiration_seconds: Option<i64>,
    #[api(tag = 3, always)]
    bound_object_ref: Option<BoundObjectReference>,
    #[api(tag = 5, go = "map[string]v1.AttestationValue")]
    attestations: Map<List<String>>,
}

#[api]
pub struct BoundObjectReference {
    #[api(tag = 1)]
    kind: String,
    #[api(tag = 2)]
    api_version: String,
    #[api(tag = 3)]
    name: String,
    #[api(tag = 4, go = "types.UID")]
    uid: String,
}

#[api]
pub struct TokenRequestStatus {
    #[api(tag = 1, always)]
    token: String,
    #[api(tag = 2, always)]
    expiration_timestamp: Time,
}
