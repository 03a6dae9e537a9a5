//! apps/v1.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
pub(crate) mod workload;

pub use self::{
    controller_revision::ControllerRevision,
    daemon_set::{
        DaemonSet, DaemonSetCondition, DaemonSetSpec, DaemonSetStatus, DaemonSetUpdateStrategy,
        RollingUpdateDaemonSet,
    },
    deployment::{
        Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, DeploymentStrategy,
        RollingUpdateDeployment,
    },
    replica_set::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus},
    stateful_set::{
        RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetCondition, StatefulSetOrdinals,
        StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetStatus,
        StatefulSetUpdateStrategy,
    },
};
