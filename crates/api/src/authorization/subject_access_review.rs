//! authorization/v1: SubjectAccessReview.

use macros::api;
use object::{LabelSelectorRequirement, List, Map, ObjectMeta};
use schema::{Errors, Kind, Names, Scope, verbs};

use super::rules::check_metadata;
use crate::meta::FieldSelectorRequirement;

#[api]
pub struct SubjectAccessReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: SubjectAccessReviewSpec,
    #[api(tag = 3)]
    status: SubjectAccessReviewStatus,
}

#[api]
pub struct SubjectAccessReviewSpec {
    #[api(tag = 1)]
    resource_attributes: Option<ResourceAttributes>,
    #[api(tag = 2)]
    non_resource_attributes: Option<NonResourceAttributes>,
    #[api(tag = 3)]
    user: String,
    #[api(tag = 4)]
    groups: List<String>,
    #[api(tag = 5, go = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
    #[api(tag = 6)]
    uid: String,
}

#[api]
pub struct ResourceAttributes {
    #[api(tag = 1)]
    namespace: String,
    #[api(tag = 2)]
    verb: String,
    #[api(tag = 3)]
    group: String,
    #[api(tag = 4)]
    version: String,
    #[api(tag = 5)]
    resource: String,
    #[api(tag = 6)]
    subresource: String,
    #[api(tag = 7)]
    name: String,
    #[api(tag = 8)]
    field_selector: Option<FieldSelectorAttributes>,
    #[api(tag = 9)]
    label_selector: Option<LabelSelectorAttributes>,
}

#[api]
pub struct LabelSelectorAttributes {
    #[api(tag = 1)]
    raw_selector: String,
    #[api(tag = 2)]
    requirements: List<LabelSelectorRequirement>,
}

#[api]
pub struct FieldSelectorAttributes {
    #[api(tag = 1)]
    raw_selector: String,
    #[api(tag = 2)]
    requirements: List<FieldSelectorRequirement>,
}

#[api]
pub struct NonResourceAttributes {
    #[api(tag = 1)]
    path: String,
    #[api(tag = 2)]
    verb: String,
}

#[api]
pub struct SubjectAccessReviewStatus {
    #[api(tag = 1, required, always)]
    allowed: bool,
    #[api(tag = 4)]
    denied: bool,
    #[api(tag = 2)]
    reason: String,
    #[api(tag = 3)]
    evaluation_error: String,
}

impl Kind for SubjectAccessReview {
    const NAMES: Names = Names {
        group: "authorization.k8s.io",
        version: "v1",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(errs);
        check_metadata(self.metadata(), false, errs);
    }
}
