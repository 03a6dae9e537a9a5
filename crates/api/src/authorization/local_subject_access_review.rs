//! authorization/v1: LocalSubjectAccessReview.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, StorageConfig, verbs};

use super::rules::check_metadata;
use super::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use crate::shown::format_go;

/// Asks whether a user or group may perform an action in one namespace.
#[api]
pub struct LocalSubjectAccessReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<SubjectAccessReviewSpec>,
    /// Observed state.
    status: SubjectAccessReviewStatus,
}

impl Kind for LocalSubjectAccessReview {
    const NAMES: ResourceNames =
        super::names("LocalSubjectAccessReview", "localsubjectaccessreviews");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["authorization.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(errs);
        check_metadata(self.metadata(), true, errs);
        let (spec, at) = (self.spec(), FieldPath::SPEC.field("resourceAttributes"));
        if let Some(wanted) = spec.resource_attributes()
            && wanted.namespace() != self.metadata().namespace()
        {
            let why = "must match metadata.namespace";
            errs.invalid(&at.field("namespace"), wanted.namespace(), why);
        }
        if let Some(path) = spec.non_resource_attributes() {
            let why = "disallowed on this kind of request";
            errs.invalid_formatted(
                &FieldPath::SPEC.field("nonResourceAttributes"),
                format_go(path),
                why,
            );
        }
    }
}
