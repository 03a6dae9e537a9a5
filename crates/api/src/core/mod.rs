//! core/v1.

pub(crate) mod affinity;
mod binding;
mod component_status;
mod config_map;
pub(crate) mod container;
pub(crate) mod endpoints;
pub(crate) mod env;
mod event;
mod limit_range;
mod namespace;
mod node;
mod options;
mod persistent_volume;
pub(crate) mod persistent_volume_claim;
mod pod;
mod pod_template;
pub(crate) mod probe;
mod reference;
mod replication_controller;
mod resource_quota;
pub(crate) mod resources;
mod secret;
pub(crate) mod security_context;
mod service;
mod service_account;
pub(crate) mod toleration;
pub mod usage;
pub(crate) mod volume;

pub use self::{
    affinity::{
        Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
        PodAffinity, PodAffinityTerm, PodAntiAffinity, PreferredSchedulingTerm,
        WeightedPodAffinityTerm,
    },
    binding::Binding,
    component_status::{ComponentCondition, ComponentStatus},
    config_map::ConfigMap,
    container::{
        Container, ContainerPort, ContainerResizePolicy, ContainerRestartRule,
        ContainerRestartRuleOnExitCodes, EphemeralContainer,
    },
    endpoints::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, is_endpoint_ip},
    env::{
        ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, EnvVar, EnvVarSource,
        FileKeySelector, LocalObjectReference, ObjectFieldSelector, ResourceFieldSelector,
        SecretEnvSource, SecretKeySelector,
    },
    event::{Event, EventSeries, EventSource},
    limit_range::{LimitRange, LimitRangeItem, LimitRangeSpec},
    namespace::{Namespace, NamespaceCondition, NamespaceSpec, NamespaceStatus},
    node::{
        AttachedVolume, ConfigMapNodeConfigSource, ContainerImage, DaemonEndpoint, Node,
        NodeAddress, NodeCondition, NodeConfigSource, NodeConfigStatus, NodeDaemonEndpoints,
        NodeFeatures, NodePodPreemptionPolicy, NodeRuntimeHandler, NodeRuntimeHandlerFeatures,
        NodeSpec, NodeStatus, NodeSwapStatus, NodeSystemInfo,
    },
    options::{
        AvoidPods, NodeProxyOptions, PodAttachOptions, PodExecOptions, PodLogOptions,
        PodPortForwardOptions, PodProxyOptions, PodSignature, Preconditions, PreferAvoidPodsEntry,
        RangeAllocation, SerializedReference, ServiceProxyOptions,
        TopologySelectorLabelRequirement, TopologySelectorTerm,
    },
    persistent_volume::{
        AzureFilePersistentVolumeSource, CSIPersistentVolumeSource, CephFSPersistentVolumeSource,
        CinderPersistentVolumeSource, FlexPersistentVolumeSource, GlusterfsPersistentVolumeSource,
        ISCSIPersistentVolumeSource, LocalVolumeSource, PersistentVolume, PersistentVolumeSource,
        PersistentVolumeSpec, PersistentVolumeStatus, RBDPersistentVolumeSource,
        ScaleIOPersistentVolumeSource, StorageOSPersistentVolumeSource, VolumeNodeAffinity,
    },
    persistent_volume_claim::{
        ModifyVolumeStatus, PersistentVolumeClaim, PersistentVolumeClaimCondition,
        PersistentVolumeClaimStatus, VolumeHealthCondition, VolumeHealthStatus,
    },
    pod::{
        ContainerExtendedResourceRequest, ContainerState, ContainerStateRunning,
        ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, ContainerUser,
        EvictionResponder, HostAlias, HostIP, ImageVolumeStatus, LinuxContainerUser,
        NodeAllocatableMappedResources, NodeAllocatableOverheadResources,
        NodeAllocatableResourceClaimStatus, Pod, PodCondition, PodDNSConfig, PodDNSConfigOption,
        PodExtendedResourceClaimStatus, PodIP, PodOS, PodReadinessGate, PodResourceClaim,
        PodResourceClaimStatus, PodSchedulingGate, PodSchedulingGroup, PodSpec, PodStatus,
        PodVolumeHealth, ResourceHealth, ResourceList, ResourceStatus, TopologySpreadConstraint,
        VolumeMountStatus, VolumeStatus,
    },
    pod_template::{PodTemplate, PodTemplateSpec},
    probe::{
        ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Lifecycle, LifecycleHandler, Probe,
        ProbeHandler, SleepAction, TCPSocketAction,
    },
    reference::{
        ObjectReference, SecretReference, TypedLocalObjectReference, TypedObjectReference,
    },
    replication_controller::{
        ReplicationController, ReplicationControllerCondition, ReplicationControllerSpec,
        ReplicationControllerStatus,
    },
    resource_quota::{
        ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopeSelector,
        ScopedResourceSelectorRequirement,
    },
    resources::{ResourceClaim, ResourceRequirements},
    secret::Secret,
    security_context::{
        AppArmorProfile, Capabilities, PodSecurityContext, SELinuxOptions, SeccompProfile,
        SecurityContext, Sysctl, WindowsSecurityContextOptions,
    },
    service::{
        ClientIPConfig, LoadBalancerIngress, LoadBalancerStatus, PortStatus, Service, ServicePort,
        ServiceSpec, ServiceStatus, SessionAffinityConfig,
    },
    service_account::ServiceAccount,
    toleration::{Taint, Toleration, untolerated},
    volume::{
        AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFileVolumeSource,
        CSIVolumeSource, CephFSVolumeSource, CinderVolumeSource, ClusterTrustBundleProjection,
        ConfigMapProjection, ConfigMapVolumeSource, DownwardAPIProjection, DownwardAPIVolumeFile,
        DownwardAPIVolumeSource, EmptyDirVolumeSource, EphemeralVolumeSource, FCVolumeSource,
        FlexVolumeSource, FlockerVolumeSource, GCEPersistentDiskVolumeSource, GitRepoVolumeSource,
        GlusterfsVolumeSource, HostPathVolumeSource, ISCSIVolumeSource, ImageVolumeSource,
        KeyToPath, NFSVolumeSource, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate,
        PersistentVolumeClaimVolumeSource, PhotonPersistentDiskVolumeSource,
        PodCertificateProjection, PortworxVolumeSource, ProjectedVolumeSource, QuobyteVolumeSource,
        RBDVolumeSource, ScaleIOVolumeSource, SecretProjection, SecretVolumeSource,
        ServiceAccountTokenProjection, StorageOSVolumeSource, Volume, VolumeDevice, VolumeMount,
        VolumeProjection, VolumeResourceRequirements, VolumeSource, VsphereVirtualDiskVolumeSource,
    },
};
