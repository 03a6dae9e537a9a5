//! authentication/v1: SelfSubjectReview.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, Scope, verbs};

use super::UserInfo;

#[api]
pub struct SelfSubjectReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    status: SelfSubjectReviewStatus,
}

#[api]
pub struct SelfSubjectReviewStatus {
    #[api(tag = 1)]
    user_info: UserInfo,
}

impl Kind for SelfSubjectReview {
    const NAMES: Names = Names {
        group: "authentication.k8s.io",
        version: "v1",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
