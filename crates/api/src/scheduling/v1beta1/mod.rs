//! scheduling/v1beta1.

mod pod_group;
mod workload;

pub use self::{
    pod_group::{
        PodGroup, PodGroupResourceClaimStatus, PodGroupSpec, PodGroupStatus, WorkloadReference,
    },
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
