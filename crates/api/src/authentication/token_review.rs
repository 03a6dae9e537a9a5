//! authentication/v1: TokenReview.

use macros::api;
use object::{List, Map, ObjectMeta};
use schema::{Kind, Names, Scope, verbs};

#[api]
pub struct TokenReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: TokenReviewSpec,
    #[api(tag = 3)]
    status: TokenReviewStatus,
}

#[api]
pub struct TokenReviewSpec {
    #[api(tag = 1)]
    token: String,
    #[api(tag = 2)]
    audiences: List<String>,
}

#[api]
pub struct TokenReviewStatus {
    #[api(tag = 1)]
    authenticated: bool,
    #[api(tag = 2)]
    user: UserInfo,
    #[api(tag = 4)]
    audiences: List<String>,
    #[api(tag = 3)]
    error: String,
}

#[api]
pub struct UserInfo {
    #[api(tag = 1)]
    username: String,
    #[api(tag = 2)]
    uid: String,
    #[api(tag = 3)]
    groups: List<String>,
    #[api(tag = 4, go = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
}

impl Kind for TokenReview {
    const NAMES: Names = Names {
        group: "authentication.k8s.io",
        version: "v1",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
