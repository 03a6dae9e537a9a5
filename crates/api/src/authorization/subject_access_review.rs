//! authorization/v1: SubjectAccessReview.

use macros::api;
use object::{LabelSelectorRequirement, List, Map, ObjectMeta};
use schema::{ErrorList, Kind, ResourceNames, Scope, StorageConfig, verbs};

use super::rules::check_metadata;
use crate::meta::FieldSelectorRequirement;

/// Asks whether a user or group may perform an action.
#[api]
pub struct SubjectAccessReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<SubjectAccessReviewSpec>,
    /// Observed state.
    status: SubjectAccessReviewStatus,
}

#[api]
pub struct SubjectAccessReviewSpec {
    /// The objects to be reached.
    resource_attributes: Option<ResourceAttributes>,
    /// The path to be reached, where it is no object's.
    non_resource_attributes: Option<NonResourceAttributes>,
    /// Who.
    user: String,
    /// The groups of who.
    groups: List<String>,
    /// What else is known of who.
    #[api(go_type = "map[string]v1.ExtraValue")]
    extra: Map<List<String>>,
    /// UID of the user.
    uid: String,
}

#[api]
pub struct ResourceAttributes {
    /// In which namespace; empty is all, or none.
    namespace: String,
    /// What is to be done.
    verb: String,
    /// In which group.
    group: String,
    /// In which version.
    version: String,
    /// To which resource.
    resource: String,
    /// Through which subresource.
    subresource: String,
    /// To which object; empty is all.
    name: String,
    /// To objects with which fields.
    field_selector: Option<FieldSelectorAttributes>,
    /// To objects with which labels.
    label_selector: Option<LabelSelectorAttributes>,
}

#[api]
pub struct LabelSelectorAttributes {
    /// The selector, as requests write it.
    raw_selector: String,
    /// The selector, taken apart.
    requirements: List<LabelSelectorRequirement>,
}

#[api]
pub struct FieldSelectorAttributes {
    /// The selector, as requests write it.
    raw_selector: String,
    /// The selector, taken apart.
    requirements: List<FieldSelectorRequirement>,
}

#[api]
pub struct NonResourceAttributes {
    /// The path.
    path: String,
    /// What is to be done.
    verb: String,
}

#[api]
pub struct SubjectAccessReviewStatus {
    /// Whether it may be done.
    allowed: Must<bool>,
    /// Whether it is refused, whatever others say.
    #[api(tag = 4)]
    denied: bool,
    /// Why.
    #[api(tag = 2)]
    reason: String,
    /// What went wrong in finding out.
    evaluation_error: String,
}

impl Kind for SubjectAccessReview {
    const NAMES: ResourceNames = super::names("SubjectAccessReview", "subjectaccessreviews");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["authorization.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(errs);
        check_metadata(self.metadata(), false, errs);
    }
}
