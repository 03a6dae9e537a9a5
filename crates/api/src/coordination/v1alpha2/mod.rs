//! coordination/v1alpha2.

mod lease_candidate;

pub use self::lease_candidate::{LeaseCandidate, LeaseCandidateSpec};
