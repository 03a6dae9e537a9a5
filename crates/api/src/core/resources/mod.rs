//! core/v1: resources.

pub(crate) mod rules;

use macros::api;
use object::{List, Map, Quantity};

#[api]
pub struct ResourceRequirements {
    /// Maximum amount of each resource that may be used.
    #[api(go_type = "v1.ResourceList")]
    limits: Map<Quantity>,
    /// Minimum amount of each resource that is reserved. Defaults to the limits.
    #[api(go_type = "v1.ResourceList")]
    requests: Map<Quantity>,
    /// Claims of spec.resourceClaims that the container uses.
    #[api(keys("name"))]
    claims: List<ResourceClaim>,
}

#[api]
pub struct ResourceClaim {
    /// Name of an entry of the pod's spec.resourceClaims.
    name: Must<String>,
    /// Request of the claim to use. If empty, all of them.
    request: String,
}

/// Whether a pod as a whole can ask for it.
pub(crate) fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_hugepages(name)
}

pub(crate) fn is_hugepages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
