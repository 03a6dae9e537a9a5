//! scheduling/v1alpha3: how the pods of a workload are scheduled together.

use macros::api;
use object::List;

use super::TopologyConstraint;

#[api]
pub struct WorkloadPodGroupSchedulingPolicy {
    /// One by one.
    #[api(checks(OneOf), union)]
    basic: Option<WorkloadPodGroupBasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(checks(OneOf), union)]
    gang: Option<WorkloadPodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadPodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadPodGroupGangSchedulingPolicy {
    /// How many pods there must be room for.
    #[api(checks(Min(1)))]
    min_count: Option<i32>,
}

#[api]
pub struct WorkloadPodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadPodGroupResourceClaim {
    /// What the claim is called here.
    #[api(checks(Filled, Format("short-name")))]
    name: Must<String>,
    /// The claim.
    #[api(checks(OneOf, Format("long-name")))]
    resource_claim_name: Option<String>,
    /// The template that the claim is made from.
    #[api(checks(OneOf, Format("long-name")))]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct WorkloadPodGroupDisruptionMode {
    /// Only the one.
    #[api(checks(OneOf), union)]
    single: Option<WorkloadPodGroupSingleDisruptionMode>,
    /// All of them.
    #[api(checks(OneOf), union)]
    all: Option<WorkloadPodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadPodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadPodGroupAllDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupSchedulingPolicy {
    /// One by one.
    #[api(checks(OneOf))]
    basic: Option<WorkloadCompositePodGroupBasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(checks(OneOf))]
    gang: Option<WorkloadCompositePodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadCompositePodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadCompositePodGroupGangSchedulingPolicy {
    /// How many groups there must be room for.
    #[api(checks(Min(1)))]
    min_group_count: Option<i32>,
}

#[api]
pub struct WorkloadCompositePodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadCompositePodGroupDisruptionMode {
    /// Only the one.
    #[api(checks(OneOf))]
    single: Option<WorkloadCompositePodGroupSingleDisruptionMode>,
    /// All of them.
    #[api(checks(OneOf))]
    all: Option<WorkloadCompositePodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadCompositePodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupAllDisruptionMode {}
