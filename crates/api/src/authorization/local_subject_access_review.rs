//! authorization/v1: LocalSubjectAccessReview.

use macros::api;
use object::ObjectMeta;
use schema::{Errors, Kind, Names, verbs};

use super::rules::{SPEC, check_metadata};
use super::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use crate::shown::shown;

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

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(errs);
        check_metadata(self.metadata(), true, errs);
        let (spec, at) = (self.spec(), SPEC.field("resourceAttributes"));
        if let Some(wanted) = spec.resource_attributes()
            && wanted.namespace() != self.metadata().namespace()
        {
            let why = "must match metadata.namespace";
            errs.invalid(&at.field("namespace"), wanted.namespace(), why);
        }
        if let Some(path) = spec.non_resource_attributes() {
            let why = "disallowed on this kind of request";
            errs.invalid_shown(&SPEC.field("nonResourceAttributes"), shown(path), why);
        }
    }
}
