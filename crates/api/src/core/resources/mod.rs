//! core/v1: resources.

pub(crate) mod rules;

use macros::api;
use object::{List, Map, Quantity};

#[api]
pub struct ResourceRequirements {
    /// The most that may be used.
    #[api(go = "v1.ResourceList")]
    limits: Map<Quantity>,
    /// What is set aside.
    #[api(go = "v1.ResourceList")]
    requests: Map<Quantity>,
    /// Claimed devices that are used.
    #[api(keys("name"))]
    claims: List<ResourceClaim>,
}

#[api]
pub struct ResourceClaim {
    /// The claim, as the pod names it.
    name: Must<String>,
    /// The request in the claim; all when absent.
    request: String,
}

/// Whether a pod as a whole can ask for it.
pub(crate) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

pub(crate) fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
