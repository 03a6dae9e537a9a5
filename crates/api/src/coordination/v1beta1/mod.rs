//! coordination/v1beta1.

mod lease_candidate;

pub use self::lease_candidate::{LeaseCandidate, LeaseCandidateSpec};
