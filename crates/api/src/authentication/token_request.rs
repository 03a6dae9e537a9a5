//! authentication/v1: more.

use macros::api;
use object::{List, Map, ObjectMeta, Time};

#[api]
pub struct TokenRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    #[api(always)]
    spec: TokenRequestSpec,
    /// Observed state.
    status: TokenRequestStatus,
}

#[api]
pub struct TokenRequestSpec {
    /// Whom the token is for.
    #[api(always)]
    audiences: List<String>,
    /// How long the token should be good.
    #[api(tag = 4, default = 3600, implied)]
    expiration_seconds: Option<i64>,
    /// The object whose end is the token's end, too.
    #[api(tag = 3, always)]
    bound_object_ref: Option<BoundObjectReference>,
    /// What the node can prove of itself.
    #[api(tag = 5, go = "map[string]v1.AttestationValue")]
    attestations: Map<List<String>>,
}

#[api]
pub struct BoundObjectReference {
    /// Pod, Secret or Node.
    kind: String,
    /// Its group and version.
    api_version: String,
    /// Its name.
    name: String,
    /// Its uid.
    #[api(go = "types.UID")]
    uid: String,
}

#[api]
pub struct TokenRequestStatus {
    /// The token.
    #[api(always)]
    token: String,
    /// When it ends.
    #[api(always)]
    expiration_timestamp: Time,
}
