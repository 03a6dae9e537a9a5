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

use schema::ResourceDefinition;

pub use self::{
    apps::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    authentication::{TokenRequest, TokenReview},
    autoscaling::{HorizontalPodAutoscaler, v1::Scale},
    batch::{CronJob, Job},
    coordination::Lease,
    core::{
        Binding, ConfigMap, Container, Endpoints, Event, LimitRange, Namespace, Node,
        PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, PodTemplateSpec,
        ReplicationController, ResourceList, ResourceQuota, Secret, Service, ServiceAccount, Taint,
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
pub fn builtin_resources() -> Vec<ResourceDefinition> {
    vec![
        ResourceDefinition::from_kind::<core::Binding>(),
        ResourceDefinition::from_kind::<core::ComponentStatus>(),
        ResourceDefinition::from_kind::<core::ConfigMap>(),
        ResourceDefinition::from_kind::<core::Endpoints>(),
        ResourceDefinition::from_kind::<core::Event>(),
        ResourceDefinition::from_kind::<core::LimitRange>(),
        ResourceDefinition::from_kind::<core::Namespace>(),
        ResourceDefinition::from_kind::<core::Node>(),
        ResourceDefinition::from_kind::<core::PersistentVolumeClaim>(),
        ResourceDefinition::from_kind::<core::PersistentVolume>(),
        ResourceDefinition::from_kind::<core::Pod>(),
        ResourceDefinition::from_kind::<core::PodTemplate>(),
        ResourceDefinition::from_kind::<core::ReplicationController>(),
        ResourceDefinition::from_kind::<core::ResourceQuota>(),
        ResourceDefinition::from_kind::<core::Secret>(),
        ResourceDefinition::from_kind::<core::ServiceAccount>(),
        ResourceDefinition::from_kind::<core::Service>(),
        ResourceDefinition::from_kind::<apiregistration::APIService>(),
        ResourceDefinition::from_kind::<apps::ControllerRevision>(),
        ResourceDefinition::from_kind::<apps::DaemonSet>(),
        ResourceDefinition::from_kind::<apps::Deployment>(),
        ResourceDefinition::from_kind::<apps::ReplicaSet>(),
        ResourceDefinition::from_kind::<apps::StatefulSet>(),
        ResourceDefinition::from_kind::<events::Event>(),
        ResourceDefinition::from_kind::<authentication::SelfSubjectReview>(),
        ResourceDefinition::from_kind::<authentication::TokenReview>(),
        ResourceDefinition::from_kind::<authorization::LocalSubjectAccessReview>(),
        ResourceDefinition::from_kind::<authorization::SelfSubjectAccessReview>(),
        ResourceDefinition::from_kind::<authorization::SelfSubjectRulesReview>(),
        ResourceDefinition::from_kind::<authorization::SubjectAccessReview>(),
        ResourceDefinition::from_kind::<autoscaling::HorizontalPodAutoscaler>(),
        ResourceDefinition::from_kind::<autoscaling::v1::HorizontalPodAutoscaler>(),
        ResourceDefinition::from_kind::<batch::CronJob>(),
        ResourceDefinition::from_kind::<batch::Job>(),
        ResourceDefinition::from_kind::<certificates::CertificateSigningRequest>(),
        ResourceDefinition::from_kind::<certificates::ClusterTrustBundle>(),
        ResourceDefinition::from_kind::<certificates::PodCertificateRequest>(),
        ResourceDefinition::additional_version::<certificates::ClusterTrustBundle>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use certificates.k8s.io/v1 ClusterTrustBundle",
        ),
        ResourceDefinition::from_kind::<certificates::v1beta1::PodCertificateRequest>(),
        ResourceDefinition::from_kind::<networking::IngressClass>(),
        ResourceDefinition::from_kind::<networking::Ingress>(),
        ResourceDefinition::from_kind::<networking::IPAddress>(),
        ResourceDefinition::from_kind::<networking::NetworkPolicy>(),
        ResourceDefinition::from_kind::<networking::ServiceCIDR>(),
        ResourceDefinition::from_kind::<policy::PodDisruptionBudget>(),
        ResourceDefinition::from_kind::<rbac::ClusterRoleBinding>(),
        ResourceDefinition::from_kind::<rbac::ClusterRole>(),
        ResourceDefinition::from_kind::<rbac::RoleBinding>(),
        ResourceDefinition::from_kind::<rbac::Role>(),
        ResourceDefinition::from_kind::<storage::CSIDriver>(),
        ResourceDefinition::from_kind::<storage::CSINode>(),
        ResourceDefinition::from_kind::<storage::CSIStorageCapacity>(),
        ResourceDefinition::from_kind::<storage::StorageClass>(),
        ResourceDefinition::from_kind::<storage::VolumeAttachment>(),
        ResourceDefinition::from_kind::<storage::VolumeAttributesClass>(),
        ResourceDefinition::from_kind::<admissionregistration::MutatingAdmissionPolicy>(),
        ResourceDefinition::from_kind::<admissionregistration::MutatingAdmissionPolicyBinding>(),
        ResourceDefinition::from_kind::<admissionregistration::MutatingWebhookConfiguration>(),
        ResourceDefinition::from_kind::<admissionregistration::ValidatingAdmissionPolicy>(),
        ResourceDefinition::from_kind::<admissionregistration::ValidatingAdmissionPolicyBinding>(),
        ResourceDefinition::from_kind::<admissionregistration::ValidatingWebhookConfiguration>(),
        ResourceDefinition::additional_version::<admissionregistration::MutatingAdmissionPolicy>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
        ),
        ResourceDefinition::additional_version::<
            admissionregistration::MutatingAdmissionPolicyBinding,
        >(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding",
        ),
        ResourceDefinition::additional_version::<admissionregistration::MutatingAdmissionPolicy>(
            "v1alpha1", UNTIL_38,
        ),
        ResourceDefinition::from_kind::<
            admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding,
        >(),
        ResourceDefinition::from_kind::<apiextensions::CustomResourceDefinition>(),
        ResourceDefinition::from_kind::<scheduling::PriorityClass>(),
        ResourceDefinition::from_kind::<scheduling::PodGroup>(),
        ResourceDefinition::from_kind::<scheduling::Workload>(),
        ResourceDefinition::from_kind::<scheduling::CompositePodGroup>(),
        ResourceDefinition::additional_version::<scheduling::PodGroup>("v1alpha3", ""),
        ResourceDefinition::additional_version::<scheduling::Workload>("v1alpha3", ""),
        ResourceDefinition::from_kind::<coordination::Lease>(),
        ResourceDefinition::from_kind::<coordination::v1beta1::LeaseCandidate>(),
        ResourceDefinition::additional_version::<coordination::v1beta1::LeaseCandidate>(
            "v1alpha2", UNTIL_38,
        ),
        ResourceDefinition::from_kind::<node::RuntimeClass>(),
        ResourceDefinition::from_kind::<discovery::EndpointSlice>(),
        ResourceDefinition::from_kind::<resource::DeviceClass>(),
        ResourceDefinition::from_kind::<resource::DeviceTaintRule>(),
        ResourceDefinition::from_kind::<resource::ResourceClaim>(),
        ResourceDefinition::from_kind::<resource::ResourceClaimTemplate>(),
        ResourceDefinition::from_kind::<resource::ResourceSlice>(),
        ResourceDefinition::additional_version::<resource::DeviceClass>("v1beta2", UNTIL_39),
        ResourceDefinition::additional_version::<resource::DeviceTaintRule>("v1beta2", ""),
        ResourceDefinition::additional_version::<resource::ResourceClaim>("v1beta2", UNTIL_39),
        ResourceDefinition::additional_version::<resource::ResourceClaimTemplate>(
            "v1beta2", UNTIL_39,
        ),
        ResourceDefinition::additional_version::<resource::ResourceSlice>("v1beta2", UNTIL_39),
        ResourceDefinition::additional_version::<resource::DeviceClass>("v1beta1", UNTIL_38),
        ResourceDefinition::from_kind::<resource::v1beta1::ResourceClaim>(),
        ResourceDefinition::from_kind::<resource::v1beta1::ResourceClaimTemplate>(),
        ResourceDefinition::from_kind::<resource::v1beta1::ResourceSlice>(),
        ResourceDefinition::additional_version::<resource::DeviceTaintRule>("v1alpha3", UNTIL_39),
        ResourceDefinition::from_kind::<resource::ResourcePoolStatusRequest>(),
        ResourceDefinition::from_kind::<flowcontrol::FlowSchema>(),
        ResourceDefinition::from_kind::<flowcontrol::PriorityLevelConfiguration>(),
        ResourceDefinition::from_kind::<internal::StorageVersion>(),
        ResourceDefinition::from_kind::<storagemigration::StorageVersionMigration>(),
        ResourceDefinition::additional_version::<storagemigration::StorageVersionMigration>(
            "v1beta1",
            "deprecated in v1.37+, unavailable in v1.40+; use storagemigration.k8s.io/v1 StorageVersionMigration",
        ),
        ResourceDefinition::from_kind::<lifecycle::EvictionRequest>(),
        ResourceDefinition::from_kind::<lifecycle::Eviction>(),
    ]
}
