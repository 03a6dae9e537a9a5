//! authentication/v1: TokenReview.

use macros::api;
use object::{List, Map, ObjectMeta};
use schema::{Kind, ResourceNames, Scope, StorageConfig, verbs};

/// Asks whose a token is.
#[api]
pub struct TokenReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<TokenReviewSpec>,
    /// Observed state.
    status: TokenReviewStatus,
}

#[api]
pub struct TokenReviewSpec {
    /// The token in question.
    #[api(required)]
    token: String,
    /// Whom it should be for.
    audiences: List<String>,
}

#[api]
pub struct TokenReviewStatus {
    /// Whether the token is good.
    authenticated: bool,
    /// Whose it is.
    user: UserInfo,
    /// Which of the audiences it is for.
    #[api(tag = 4)]
    audiences: List<String>,
    /// Why it could not be checked.
    #[api(tag = 3)]
    error: String,
}

#[api]
pub struct UserInfo {
    /// The name of the user.
    username: String,
    /// UID of the user.
    uid: String,
    /// The groups of the user.
    groups: List<String>,
    /// What else is known.
    #[api(go_type = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
}

impl Kind for TokenReview {
    const NAMES: ResourceNames =
        ResourceNames::new("authentication.k8s.io", "v1", "TokenReview", "tokenreviews");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["authentication.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;
}
