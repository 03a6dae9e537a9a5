//! authorization/v1.

mod local_subject_access_review;
mod rules;
mod self_subject_access_review;
mod self_subject_rules_review;
mod subject_access_review;

use schema::ResourceNames;

pub use self::{
    local_subject_access_review::LocalSubjectAccessReview,
    self_subject_access_review::{SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    self_subject_rules_review::{
        NonResourceRule, ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
        SubjectRulesReviewStatus,
    },
    subject_access_review::{
        FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes,
        ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    },
};

const fn names(kind: &'static str, plural: &'static str) -> ResourceNames {
    ResourceNames::new("authorization.k8s.io", "v1", kind, plural)
}
