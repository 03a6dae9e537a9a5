//! authorization/v1: LocalSubjectAccessReview.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, Names, verbs};

use super::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};

#[api]
pub struct LocalSubjectAccessReview {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: SubjectAccessReviewSpec,
    #[api(tag = 3)]
    status: SubjectAccessReviewStatus,
}

impl Kind for LocalSubjectAccessReview {
    const NAMES: Names = Names {
        group: "authorization.k8s.io",
        version: "v1",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        short: &[],
        categories: &[],
    };
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
