//! scheduling/v1alpha3: how the pods of a workload are scheduled together.

use macros::api;
use object::List;

use super::TopologyConstraint;

#[api]
pub struct WorkloadPodGroupSchedulingPolicy {
    /// One by one.
    #[api(validations(UnionMember), union)]
    basic: Option<WorkloadPodGroupBasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(validations(UnionMember), union)]
    gang: Option<WorkloadPodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadPodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadPodGroupGangSchedulingPolicy {
    /// How many pods there must be room for.
    #[api(validations(Min(1)))]
    min_count: Option<i32>,
}

#[api]
pub struct WorkloadPodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(validations(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadPodGroupResourceClaim {
    /// What the claim is called here.
    #[api(validations(Required, Format("short-name")))]
    name: Must<String>,
    /// The claim.
    #[api(validations(UnionMember, Format("long-name")))]
    resource_claim_name: Option<String>,
    /// The template that the claim is made from.
    #[api(validations(UnionMember, Format("long-name")))]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct WorkloadPodGroupDisruptionMode {
    /// Only the one.
    #[api(validations(UnionMember), union)]
    single: Option<WorkloadPodGroupSingleDisruptionMode>,
    /// All of them.
    #[api(validations(UnionMember), union)]
    all: Option<WorkloadPodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadPodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadPodGroupAllDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupSchedulingPolicy {
    /// One by one.
    #[api(validations(UnionMember))]
    basic: Option<WorkloadCompositePodGroupBasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(validations(UnionMember))]
    gang: Option<WorkloadCompositePodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadCompositePodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadCompositePodGroupGangSchedulingPolicy {
    /// How many groups there must be room for.
    #[api(validations(Min(1)))]
    min_group_count: Option<i32>,
}

#[api]
pub struct WorkloadCompositePodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(validations(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadCompositePodGroupDisruptionMode {
    /// Only the one.
    #[api(validations(UnionMember))]
    single: Option<WorkloadCompositePodGroupSingleDisruptionMode>,
    /// All of them.
    #[api(validations(UnionMember))]
    all: Option<WorkloadCompositePodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadCompositePodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupAllDisruptionMode {}
