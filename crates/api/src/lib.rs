//! Every built-in kind, one file each. To add a kind, add its file and a line in `kinds`.

pub mod admissionregistration;
mod advice;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
mod columns;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod expression;
pub mod flowcontrol;
mod generation;
pub mod internal;
pub mod lifecycle;
pub mod meta;
pub mod networking;
pub mod node;
pub mod parts;
pub mod policy;
pub mod possession;
pub mod rbac;
pub mod resource;
mod rules;
pub mod scheduling;
mod shown;
pub mod storage;
pub mod storagemigration;
#[cfg(test)]
mod testing;

use schema::Definition;

pub use self::{
    apps::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    authentication::{TokenRequest, TokenReview},
    autoscaling::{HorizontalPodAutoscaler, v1::Scale},
    batch::{CronJob, Job},
    coordination::Lease,
    core::{
        Binding, ConfigMap, Container, Endpoints, Event, LimitRange, Namespace, Node,
        PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, PodTemplateSpec,
        ReplicationController, ResourceQuota, Resources, Secret, Service, ServiceAccount, Taint,
        Toleration, untolerated,
    },
    discovery::EndpointSlice,
    networking::{IPAddress, Ingress, NetworkPolicy, ServiceCIDR},
    policy::PodDisruptionBudget,
    rbac::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject},
    scheduling::PriorityClass,
    storage::{CSINode, StorageClass},
};

const UNTIL_38: &str = "deprecated in v1.35+, unavailable in v1.38+";
const UNTIL_39: &str = "deprecated in v1.36+, unavailable in v1.39+";

/// What the server can serve: each kind, and its further versions that look alike. The
/// order is the order of discovery.
#[expect(clippy::too_many_lines, reason = "one line for each kind")]
pub fn kinds() -> Vec<Definition> {
    vec![
        Definition::of::<core::Binding>(),
        Definition::of::<core::ComponentStatus>(),
        Definition::of::<core::ConfigMap>(),
        Definition::of::<core::Endpoints>(),
        Definition::of::<core::Event>(),
        Definition::of::<core::LimitRange>(),
        Definition::of::<core::Namespace>(),
        Definition::of::<core::Node>(),
        Definition::of::<core::PersistentVolumeClaim>(),
        Definition::of::<core::PersistentVolume>(),
        Definition::of::<core::Pod>(),
        Definition::of::<core::PodTemplate>(),
        Definition::of::<core::ReplicationController>(),
        Definition::of::<core::ResourceQuota>(),
        Definition::of::<core::Secret>(),
        Definition::of::<core::ServiceAccount>(),
        Definition::of::<core::Service>(),
        Definition::of::<apiregistration::APIService>(),
        Definition::of::<apps::ControllerRevision>(),
        Definition::of::<apps::DaemonSet>(),
        Definition::of::<apps::Deployment>(),
        Definition::of::<apps::ReplicaSet>(),
        Definition::of::<apps::StatefulSet>(),
        Definition::of::<events::Event>(),
        Definition::of::<authentication::SelfSubjectReview>(),
        Definition::of::<authentication::TokenReview>(),
        Definition::of::<authorization::LocalSubjectAccessReview>(),
        Definition::of::<authorization::SelfSubjectAccessReview>(),
        Definition::of::<authorization::SelfSubjectRulesReview>(),
        Definition::of::<authorization::SubjectAccessReview>(),
        Definition::of::<autoscaling::HorizontalPodAutoscaler>(),
        Definition::of::<autoscaling::v1::HorizontalPodAutoscaler>(),
        Definition::of::<batch::CronJob>(),
        Definition::of::<batch::Job>(),
        Definition::of::<certificates::CertificateSigningRequest>(),
        Definition::of::<certificates::ClusterTrustBundle>(),
        Definition::of::<certificates::PodCertificateRequest>(),
        Definition::also::<certificates::ClusterTrustBundle>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use certificates.k8s.io/v1 ClusterTrustBundle",
        ),
        Definition::of::<certificates::v1beta1::PodCertificateRequest>(),
        Definition::of::<networking::IngressClass>(),
        Definition::of::<networking::Ingress>(),
        Definition::of::<networking::IPAddress>(),
        Definition::of::<networking::NetworkPolicy>(),
        Definition::of::<networking::ServiceCIDR>(),
        Definition::of::<policy::PodDisruptionBudget>(),
        Definition::of::<rbac::ClusterRoleBinding>(),
        Definition::of::<rbac::ClusterRole>(),
        Definition::of::<rbac::RoleBinding>(),
        Definition::of::<rbac::Role>(),
        Definition::of::<storage::CSIDriver>(),
        Definition::of::<storage::CSINode>(),
        Definition::of::<storage::CSIStorageCapacity>(),
        Definition::of::<storage::StorageClass>(),
        Definition::of::<storage::VolumeAttachment>(),
        Definition::of::<storage::VolumeAttributesClass>(),
        Definition::of::<admissionregistration::MutatingAdmissionPolicy>(),
        Definition::of::<admissionregistration::MutatingAdmissionPolicyBinding>(),
        Definition::of::<admissionregistration::MutatingWebhookConfiguration>(),
        Definition::of::<admissionregistration::ValidatingAdmissionPolicy>(),
        Definition::of::<admissionregistration::ValidatingAdmissionPolicyBinding>(),
        Definition::of::<admissionregistration::ValidatingWebhookConfiguration>(),
        Definition::also::<admissionregistration::MutatingAdmissionPolicy>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
        ),
        Definition::also::<admissionregistration::MutatingAdmissionPolicyBinding>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding",
        ),
        Definition::also::<admissionregistration::MutatingAdmissionPolicy>("v1alpha1", UNTIL_38),
        Definition::of::<admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding>(),
        Definition::of::<apiextensions::CustomResourceDefinition>(),
        Definition::of::<scheduling::PriorityClass>(),
        Definition::of::<scheduling::PodGroup>(),
        Definition::of::<scheduling::Workload>(),
        Definition::of::<scheduling::CompositePodGroup>(),
        Definition::also::<scheduling::PodGroup>("v1alpha3", ""),
        Definition::also::<scheduling::Workload>("v1alpha3", ""),
        Definition::of::<coordination::Lease>(),
        Definition::of::<coordination::v1beta1::LeaseCandidate>(),
        Definition::also::<coordination::v1beta1::LeaseCandidate>("v1alpha2", UNTIL_38),
        Definition::of::<node::RuntimeClass>(),
        Definition::of::<discovery::EndpointSlice>(),
        Definition::of::<resource::DeviceClass>(),
        Definition::of::<resource::DeviceTaintRule>(),
        Definition::of::<resource::ResourceClaim>(),
        Definition::of::<resource::ResourceClaimTemplate>(),
        Definition::of::<resource::ResourceSlice>(),
        Definition::also::<resource::DeviceClass>("v1beta2", UNTIL_39),
        Definition::also::<resource::DeviceTaintRule>("v1beta2", ""),
        Definition::also::<resource::ResourceClaim>("v1beta2", UNTIL_39),
        Definition::also::<resource::ResourceClaimTemplate>("v1beta2", UNTIL_39),
        Definition::also::<resource::ResourceSlice>("v1beta2", UNTIL_39),
        Definition::also::<resource::DeviceClass>("v1beta1", UNTIL_38),
        Definition::of::<resource::v1beta1::ResourceClaim>(),
        Definition::of::<resource::v1beta1::ResourceClaimTemplate>(),
        Definition::of::<resource::v1beta1::ResourceSlice>(),
        Definition::also::<resource::DeviceTaintRule>("v1alpha3", UNTIL_39),
        Definition::of::<resource::ResourcePoolStatusRequest>(),
        Definition::of::<flowcontrol::FlowSchema>(),
        Definition::of::<flowcontrol::PriorityLevelConfiguration>(),
        Definition::of::<internal::StorageVersion>(),
        Definition::of::<storagemigration::StorageVersionMigration>(),
        Definition::also::<storagemigration::StorageVersionMigration>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use storagemigration.k8s.io/v1 StorageVersionMigration",
        ),
        Definition::of::<lifecycle::EvictionRequest>(),
        Definition::of::<lifecycle::Eviction>(),
    ]
}
