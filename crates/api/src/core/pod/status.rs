//! What is known of a running pod.

use macros::api;
use object::{List, Map, Quantity, Time};

use crate::core::{ResourceRequirements, VolumeHealthCondition, probe::SIGNALS};

#[api]
pub struct PodStatus {
    /// Generation of the object that this status was computed from.
    #[api(tag = 17)]
    observed_generation: i64,
    /// Summary of where the pod is in its life: Pending, Running, Succeeded, Failed or Unknown.
    #[api(tag = 1, go_type = "v1.PodPhase")]
    #[api(enum_values("Failed", "Pending", "Running", "Succeeded", "Unknown"))]
    phase: String,
    /// Current conditions of the pod: PodScheduled, Initialized, ContainersReady, Ready and others.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<PodCondition>,
    /// Human-readable details of why the pod is in this phase.
    message: String,
    /// Machine-readable reason of the phase, such as Evicted.
    reason: String,
    /// Node on which room is being made for the pod by preemption.
    #[api(tag = 11)]
    nominated_node_name: String,
    /// Primary IP address of the node.
    #[api(tag = 5, name = "hostIP")]
    host_ip: String,
    /// IP addresses of the node, at most one per family.
    #[api(tag = 16, name = "hostIPs", merge, merge_key = "ip")]
    host_ips: List<HostIP>,
    /// Primary IP address of the pod.
    #[api(tag = 6, name = "podIP")]
    pod_ip: String,
    /// IP addresses of the pod, at most one per family.
    #[api(tag = 12, name = "podIPs", keys("ip"), merge, merge_key = "ip")]
    pod_ips: List<PodIP>,
    /// When the kubelet accepted the pod, before its images are pulled.
    #[api(tag = 7)]
    start_time: Option<Time>,
    /// Status of each init container.
    #[api(tag = 10)]
    init_container_statuses: List<ContainerStatus>,
    /// Status of each container.
    #[api(tag = 8)]
    container_statuses: List<ContainerStatus>,
    /// Quality of service class, by requests and limits: Guaranteed, Burstable or BestEffort.
    #[api(go_type = "v1.PodQOSClass", enum_values("BestEffort", "Burstable", "Guaranteed"))]
    qos_class: String,
    /// Status of each ephemeral container.
    #[api(tag = 13)]
    ephemeral_container_statuses: List<ContainerStatus>,
    /// Deprecated: see the conditions PodResizePending and PodResizeInProgress.
    #[api(go_type = "v1.PodResizeStatus")]
    resize: String,
    /// ResourceClaims that were created for the pod.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claim_statuses: List<PodResourceClaimStatus>,
    /// The claim that was made for extended resources.
    #[api(tag = 18)]
    extended_resource_claim_status: Option<PodExtendedResourceClaimStatus>,
    /// Resources that the node has reserved for the pod.
    #[api(go_type = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    /// Requests and limits of the pod that are in force.
    resources: Option<ResourceRequirements>,
    /// What claims take of the node's resources.
    #[api(keys("resourceClaimName"), merge, merge_key = "resourceClaimName")]
    #[api(feature_gate = "DRANodeAllocatableResources")]
    node_allocatable_resource_claim_statuses: List<NodeAllocatableResourceClaimStatus>,
    /// Health of the volumes, as their drivers report it.
    #[api(keys("name"), feature_gate = "CSIVolumeHealth")]
    volume_health: List<PodVolumeHealth>,
}

#[api]
pub struct PodVolumeHealth {
    /// The name of the volume.
    name: Must<String>,
    /// What is wrong with the volume.
    #[api(keys("status", "reason"), merge, merge_key = "status")]
    health_conditions: List<VolumeHealthCondition>,
    /// When that last changed.
    last_transition_time: Time,
}

#[api]
pub struct ContainerStatus {
    /// Name of the container.
    name: Must<String>,
    /// Current state: waiting, running or terminated.
    state: ContainerState,
    /// State in which the previous run of the container ended.
    last_state: ContainerState,
    /// Whether the container passes its readiness probe.
    ready: Must<bool>,
    /// Number of times the container was restarted.
    restart_count: Must<i32>,
    /// Image that the container runs.
    image: Must<String>,
    /// ID of the image, with its digest.
    #[api(name = "imageID")]
    image_id: Must<String>,
    /// ID of the container, as RUNTIME://ID.
    #[api(name = "containerID")]
    container_id: String,
    /// Whether the container has started: its postStart hook has run and its startup probe has succeeded.
    started: Option<bool>,
    /// Resources that the node has reserved for the container.
    #[api(go_type = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    /// Requests and limits of the container that are in force.
    resources: Option<ResourceRequirements>,
    /// Status of each volume mount.
    #[api(keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMountStatus>,
    /// User and groups that the container was started with.
    user: Option<ContainerUser>,
    /// Health of the devices of the container.
    #[api(keys("name"), merge, merge_key = "name")]
    allocated_resources_status: List<ResourceStatus>,
    /// Signal that is sent to stop the container.
    #[api(go_type = "v1.Signal", enum_values = &SIGNALS)]
    stop_signal: Option<String>,
}

#[api]
pub struct ContainerState {
    /// Set if the container has not started yet.
    waiting: Option<ContainerStateWaiting>,
    /// Set if the container is running.
    running: Option<ContainerStateRunning>,
    /// Set if the container has ended.
    terminated: Option<ContainerStateTerminated>,
}

#[api]
pub struct ContainerStateWaiting {
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

#[api]
pub struct ContainerStateRunning {
    /// When the container was started.
    started_at: Time,
}

#[api]
pub struct ContainerStateTerminated {
    /// Exit code of the container's main process.
    exit_code: Must<i32>,
    /// Signal that ended the container, if any.
    signal: i32,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Termination message of the container, or details of its failure.
    message: String,
    /// When this run of the container started.
    started_at: Time,
    /// When this run of the container ended.
    finished_at: Time,
    /// ID of the container, as RUNTIME://ID.
    #[api(name = "containerID")]
    container_id: String,
}

#[api]
pub struct ResourceStatus {
    /// The resource.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// The devices of the resource.
    #[api(keys("resourceID"))]
    resources: List<ResourceHealth>,
}

#[api]
pub struct ResourceHealth {
    /// The device.
    #[api(name = "resourceID", go_type = "v1.ResourceID")]
    resource_id: Must<String>,
    /// Healthy, Unhealthy or Unknown.
    #[api(go_type = "v1.ResourceHealthStatus")]
    health: String,
    /// What is known of it.
    #[api(tag = 6)]
    message: Option<String>,
}

#[api]
pub struct ContainerUser {
    /// The user on Linux.
    linux: Option<LinuxContainerUser>,
}

#[api]
pub struct LinuxContainerUser {
    /// The user's number.
    uid: Must<i64>,
    /// The group's number.
    gid: Must<i64>,
    /// The numbers of the other groups.
    supplemental_groups: List<i64>,
}

#[api]
pub struct VolumeMountStatus {
    /// The volume.
    name: Must<String>,
    /// Where it is mounted.
    mount_path: Must<String>,
    /// Whether the volume is mounted read-only.
    read_only: bool,
    /// Whether all below it is, too.
    #[api(go_type = "v1.RecursiveReadOnlyMode")]
    recursive_read_only: Option<String>,
    /// What is known of the volume.
    #[api(feature_gate = "ImageVolumeWithDigest")]
    volume_status: Option<VolumeStatus>,
}

#[api]
pub struct VolumeStatus {
    /// The image, where it is one.
    image: Option<ImageVolumeStatus>,
}

#[api]
pub struct ImageVolumeStatus {
    /// What the runtime calls the image.
    #[api(required)]
    image_ref: String,
}

#[api]
pub struct PodCondition {
    /// Type of the condition.
    #[api(go_type = "v1.PodConditionType")]
    type_: Must<String>,
    /// Generation of the object that the condition was computed from.
    #[api(tag = 7)]
    observed_generation: i64,
    /// Status of the condition: True, False or Unknown.
    #[api(tag = 2, go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition was last checked.
    last_probe_time: Time,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

#[api]
pub struct PodResourceClaimStatus {
    /// What the pod calls the claim.
    name: Must<String>,
    /// The name of the claim.
    resource_claim_name: Option<String>,
}

#[api]
pub struct PodExtendedResourceClaimStatus {
    /// Which request stands for which resource of which container.
    request_mappings: Must<List<ContainerExtendedResourceRequest>>,
    /// The name of the claim.
    resource_claim_name: Must<String>,
}

#[api]
pub struct ContainerExtendedResourceRequest {
    /// The container.
    container_name: Must<String>,
    /// The extended resource.
    resource_name: Must<String>,
    /// The request in the claim.
    request_name: Must<String>,
}

#[api]
pub struct PodIP {
    /// An address of the pod.
    ip: Must<String>,
}

#[api]
pub struct HostIP {
    /// An address of the node.
    ip: Must<String>,
}

#[api]
pub struct NodeAllocatableResourceClaimStatus {
    /// The claim.
    resource_claim_name: Must<String>,
    /// The containers that use it.
    #[api(set)]
    containers: List<String>,
    /// What its devices take.
    #[api(tag = 4, keys("name"), merge, merge_key = "name")]
    mapping: List<NodeAllocatableMappedResources>,
    /// Additional resources that its devices consume.
    #[api(keys("name"), merge, merge_key = "name")]
    overhead: List<NodeAllocatableOverheadResources>,
}

#[api]
pub struct NodeAllocatableMappedResources {
    /// The resource.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// How much of it.
    #[api(required)]
    quantity: Option<Quantity>,
}

#[api]
pub struct NodeAllocatableOverheadResources {
    /// The resource.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// How much of it, for the pod.
    per_pod: Option<Quantity>,
    /// How much of it, for each container.
    per_container: Option<Quantity>,
}
