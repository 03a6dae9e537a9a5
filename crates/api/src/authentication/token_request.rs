//! authentication/v1: more.

use macros::api;
use object::{List, Map, ObjectMeta, Time};

#[api]
pub struct TokenRequest {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    #[api(no_omitempty)]
    spec: TokenRequestSpec,
    /// Observed state.
    status: TokenRequestStatus,
}

#[api]
pub struct TokenRequestSpec {
    /// Whom the token is for.
    #[api(no_omitempty)]
    audiences: List<String>,
    /// How long the token should be good.
    #[api(tag = 4, default = 3600, unpublished_default)]
    expiration_seconds: Option<i64>,
    /// The object whose end is the token's end, too.
    #[api(tag = 3, no_omitempty)]
    bound_object_ref: Option<BoundObjectReference>,
    /// What the node can prove of itself.
    #[api(tag = 5, go_type = "map[string]v1.AttestationValue")]
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
    #[api(go_type = "types.UID")]
    uid: String,
}

#[api]
pub struct TokenRequestStatus {
    /// The token.
    #[api(no_omitempty)]
    token: String,
    /// When it ends.
    #[api(no_omitempty)]
    expiration_timestamp: Time,
}
