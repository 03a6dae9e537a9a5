//! lifecycle/v1alpha1.

mod eviction;
mod eviction_request;
mod responders;

pub use self::{
    eviction::{
        Eviction, EvictionPodReference, EvictionSpec, EvictionStatus, EvictionTarget, Requester,
        ResponderStatus, TargetResponder,
    },
    eviction_request::{
        EvictionRequest, EvictionRequestPodReference, EvictionRequestSpec, EvictionRequestStatus,
        EvictionRequestTarget,
    },
};
