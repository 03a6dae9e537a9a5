//! scheduling/v1, v1beta1 and v1alpha3.

mod composite_pod_group;
mod pod_group;
mod pod_group_policy;
mod priority_class;
mod workload;

pub use self::{
    composite_pod_group::{CompositePodGroup, CompositePodGroupSpec, CompositePodGroupStatus},
    pod_group::{
        PodGroup, PodGroupResourceClaimStatus, PodGroupSpec, PodGroupStatus, WorkloadReference,
    },
    pod_group_policy::{
        WorkloadCompositePodGroupAllDisruptionMode, WorkloadCompositePodGroupBasicSchedulingPolicy,
        WorkloadCompositePodGroupDisruptionMode, WorkloadCompositePodGroupGangSchedulingPolicy,
        WorkloadCompositePodGroupSchedulingConstraints, WorkloadCompositePodGroupSchedulingPolicy,
        WorkloadCompositePodGroupSingleDisruptionMode, WorkloadPodGroupAllDisruptionMode,
        WorkloadPodGroupBasicSchedulingPolicy, WorkloadPodGroupDisruptionMode,
        WorkloadPodGroupGangSchedulingPolicy, WorkloadPodGroupResourceClaim,
        WorkloadPodGroupSchedulingConstraints, WorkloadPodGroupSchedulingPolicy,
        WorkloadPodGroupSingleDisruptionMode,
    },
    priority_class::PriorityClass,
    workload::{
        AllCompositeDisruptionMode, AllDisruptionMode, BasicSchedulingPolicy,
        CompositeBasicSchedulingPolicy, CompositeDisruptionMode, CompositeGangSchedulingPolicy,
        CompositePodGroupSchedulingConstraints, CompositePodGroupSchedulingPolicy,
        CompositePodGroupTemplate, DisruptionMode, GangSchedulingPolicy, PodGroupResourceClaim,
        PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, PodGroupTemplate,
        SingleCompositeDisruptionMode, SingleDisruptionMode, TopologyConstraint,
        TypedLocalObjectReference, Workload, WorkloadSpec,
    },
};
