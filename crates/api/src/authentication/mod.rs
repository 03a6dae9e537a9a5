//! authentication/v1.

mod self_subject_review;
mod token_request;
mod token_review;

pub use self::{
    self_subject_review::{SelfSubjectReview, SelfSubjectReviewStatus},
    token_request::{BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus},
    token_review::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
};
