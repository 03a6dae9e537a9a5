//! authentication/v1: SelfSubjectReview.

use macros::api;
use object::ObjectMeta;
use schema::{Kind, ResourceNames, Scope, StorageConfig, verbs};

use super::UserInfo;

/// Asks who the server takes the caller for.
#[api]
pub struct SelfSubjectReview {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Observed state.
    status: SelfSubjectReviewStatus,
}

#[api]
pub struct SelfSubjectReviewStatus {
    /// Who asks.
    user_info: UserInfo,
}

impl Kind for SelfSubjectReview {
    const NAMES: ResourceNames = ResourceNames::new(
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["authentication.k8s.io/v1alpha1", "authentication.k8s.io/v1beta1"];
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const SCOPE: Scope = Scope::Cluster;
    const VERBS: &'static [&'static str] = verbs::CREATE;
}
