//! scheduling/v1alpha3: how the pods of a workload are scheduled together.

use macros::api;
use object::List;

use super::TopologyConstraint;

#[api]
pub struct WorkloadPodGroupSchedulingPolicy {
    #[api(tag = 1, checks(OneOf))]
    basic: Option<WorkloadPodGroupBasicSchedulingPolicy>,
    #[api(tag = 2, checks(OneOf))]
    gang: Option<WorkloadPodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadPodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadPodGroupGangSchedulingPolicy {
    #[api(tag = 1, checks(Min(1)))]
    min_count: Option<i32>,
}

#[api]
pub struct WorkloadPodGroupSchedulingConstraints {
    #[api(tag = 1, checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadPodGroupResourceClaim {
    #[api(tag = 1, required, always, checks(Filled, Format("short-name")))]
    name: String,
    #[api(tag = 2, checks(OneOf, Format("long-name")))]
    resource_claim_name: Option<String>,
    #[api(tag = 3, checks(OneOf, Format("long-name")))]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct WorkloadPodGroupDisruptionMode {
    #[api(tag = 1, checks(OneOf))]
    single: Option<WorkloadPodGroupSingleDisruptionMode>,
    #[api(tag = 2, checks(OneOf))]
    all: Option<WorkloadPodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadPodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadPodGroupAllDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupSchedulingPolicy {
    #[api(tag = 1, checks(OneOf))]
    basic: Option<WorkloadCompositePodGroupBasicSchedulingPolicy>,
    #[api(tag = 2, checks(OneOf))]
    gang: Option<WorkloadCompositePodGroupGangSchedulingPolicy>,
}

#[api]
pub struct WorkloadCompositePodGroupBasicSchedulingPolicy {}

#[api]
pub struct WorkloadCompositePodGroupGangSchedulingPolicy {
    #[api(tag = 1, checks(Min(1)))]
    min_group_count: Option<i32>,
}

#[api]
pub struct WorkloadCompositePodGroupSchedulingConstraints {
    #[api(tag = 1, checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct WorkloadCompositePodGroupDisruptionMode {
    #[api(tag = 1, checks(OneOf))]
    single: Option<WorkloadCompositePodGroupSingleDisruptionMode>,
    #[api(tag = 2, checks(OneOf))]
    all: Option<WorkloadCompositePodGroupAllDisruptionMode>,
}

#[api]
pub struct WorkloadCompositePodGroupSingleDisruptionMode {}

#[api]
pub struct WorkloadCompositePodGroupAllDisruptionMode {}
