//! authorization/v1: SelfSubjectAccessReview.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, Kind, ResourceNames, Scope, StorageConfig, verbs};

use super::rules::{check_attributes, check_metadata};
use super::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewStatus};

/// Asks whether the caller may do something.
#[api]
pub struct SelfSubjectAccessReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<SelfSubjectAccessReviewSpec>,
    /// Observed state.
    status: SubjectAccessReviewStatus,
}

#[api]
pub struct SelfSubjectAccessReviewSpec {
    /// The objects to be reached.
    resource_attributes: Option<ResourceAttributes>,
    /// The path to be reached, where it is no object's.
    non_resource_attributes: Option<NonResourceAttributes>,
}

impl Kind for SelfSubjectAccessReview {
    const NAMES: ResourceNames =
        super::names("SelfSubjectAccessReview", "selfsubjectaccessreviews");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["authorization.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn validate(&self, errs: &mut ErrorList) {
        let spec = self.spec();
        check_attributes(spec.resource_attributes(), spec.non_resource_attributes(), errs);
        if let Some(attributes) = spec.resource_attributes() {
            attributes.check(errs);
        }
        check_metadata(self.metadata(), false, errs);
    }
}
