//! authorization/v1: SelfSubjectRulesReview.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Scope, verbs};

#[api]
pub struct SelfSubjectRulesReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: SelfSubjectRulesReviewSpec,
    #[api(tag = 3)]
    status: SubjectRulesReviewStatus,
}

#[api]
pub struct SelfSubjectRulesReviewSpec {
    #[api(tag = 1)]
    namespace: String,
}

#[api]
pub struct SubjectRulesReviewStatus {
    #[api(tag = 1, required, always)]
    resource_rules: List<ResourceRule>,
    #[api(tag = 2, required, always)]
    non_resource_rules: List<NonResourceRule>,
    #[api(tag = 3, required, always)]
    incomplete: bool,
    #[api(tag = 4)]
    evaluation_error: String,
}

#[api]
pub struct ResourceRule {
    #[api(tag = 1, required, always)]
    verbs: List<String>,
    #[api(tag = 2)]
    api_groups: List<String>,
    #[api(tag = 3)]
    resources: List<String>,
    #[api(tag = 4)]
    resource_names: List<String>,
}

#[api]
pub struct NonResourceRule {
    #[api(tag = 1, required, always)]
    verbs: List<String>,
    #[api(tag = 2, name = "nonResourceURLs")]
    non_resource_urls: List<String>,
}

impl Kind for SelfSubjectRulesReview {
    const NAMES: Names = Names {
        group: "authorization.k8s.io",
        version: "v1",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
