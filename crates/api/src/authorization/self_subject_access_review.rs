//! authorization/v1: SelfSubjectAccessReview.

use macros::api;
use object::ObjectMeta;
use schema::{Errors, Kind, Names, Scope, verbs};

use super::rules::{check_attributes, check_metadata};
use super::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewStatus};

#[api]
pub struct SelfSubjectAccessReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: SelfSubjectAccessReviewSpec,
    #[api(tag = 3)]
    status: SubjectAccessReviewStatus,
}

#[api]
pub struct SelfSubjectAccessReviewSpec {
    #[api(tag = 1)]
    resource_attributes: Option<ResourceAttributes>,
    #[api(tag = 2)]
    non_resource_attributes: Option<NonResourceAttributes>,
}

impl Kind for SelfSubjectAccessReview {
    const NAMES: Names = Names {
        group: "authorization.k8s.io",
        version: "v1",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        let spec = self.spec();
        check_attributes(spec.resource_attributes(), spec.non_resource_attributes(), errs);
        if let Some(attributes) = spec.resource_attributes() {
            attributes.check(errs);
        }
        check_metadata(self.metadata(), false, errs);
    }
}
