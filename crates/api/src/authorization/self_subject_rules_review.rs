//! authorization/v1: SelfSubjectRulesReview.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, ResourceNames, Scope, StorageConfig, verbs};

/// Asks what the caller may do in a namespace.
#[api]
pub struct SelfSubjectRulesReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: Must<SelfSubjectRulesReviewSpec>,
    /// Observed state.
    status: SubjectRulesReviewStatus,
}

#[api]
pub struct SelfSubjectRulesReviewSpec {
    /// Where the rules hold.
    namespace: String,
}

#[api]
pub struct SubjectRulesReviewStatus {
    /// What may be done to objects.
    resource_rules: Must<List<ResourceRule>>,
    /// What may be done to other paths.
    non_resource_rules: Must<List<NonResourceRule>>,
    /// Whether there may be more rules than these.
    incomplete: Must<bool>,
    /// What went wrong in finding out.
    evaluation_error: String,
}

#[api]
pub struct ResourceRule {
    /// What may be done; * is all.
    verbs: Must<List<String>>,
    /// In which groups; * is all.
    api_groups: List<String>,
    /// To which resources; * is all.
    resources: List<String>,
    /// To which objects; empty is all.
    resource_names: List<String>,
}

#[api]
pub struct NonResourceRule {
    /// What may be done; * is all.
    verbs: Must<List<String>>,
    /// To which paths; a * may end them.
    #[api(name = "nonResourceURLs")]
    non_resource_urls: List<String>,
}

impl Kind for SelfSubjectRulesReview {
    const NAMES: ResourceNames = super::names("SelfSubjectRulesReview", "selfsubjectrulesreviews");
    const FORMER_API_VERSIONS: &'static [&'static str] = &["authorization.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;
}
