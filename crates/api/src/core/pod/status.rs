//! What is known of a running pod.

use macros::api;
use object::{List, Map, Quantity, Time};

use crate::core::{ResourceRequirements, VolumeHealthCondition};

#[api]
pub struct PodStatus {
    /// The generation that this status is about.
    #[api(tag = 17)]
    observed_generation: i64,
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[api(tag = 1, go = "v1.PodPhase")]
    phase: String,
    /// What is known of the pod, point by point.
    #[api(tag = 2, keys("type"), merge, merge_key = "type")]
    conditions: List<PodCondition>,
    /// Why the pod is as it is, for people.
    #[api(tag = 3)]
    message: String,
    /// The same in one word.
    #[api(tag = 4)]
    reason: String,
    /// A node on which room is being made for the pod.
    #[api(tag = 11)]
    nominated_node_name: String,
    /// The first address of its node.
    #[api(tag = 5, name = "hostIP")]
    host_ip: String,
    /// The addresses of its node.
    #[api(tag = 16, name = "hostIPs", merge, merge_key = "ip")]
    host_ips: List<HostIP>,
    /// The first address of the pod.
    #[api(tag = 6, name = "podIP")]
    pod_ip: String,
    /// The addresses of the pod, one of each family.
    #[api(tag = 12, name = "podIPs", keys("ip"), merge, merge_key = "ip")]
    pod_ips: List<PodIP>,
    /// When the node took it over.
    #[api(tag = 7)]
    start_time: Option<Time>,
    /// What has become of each init container.
    #[api(tag = 10)]
    init_container_statuses: List<ContainerStatus>,
    /// What has become of each container.
    #[api(tag = 8)]
    container_statuses: List<ContainerStatus>,
    /// Guaranteed, Burstable or BestEffort, by what it asks for.
    #[api(tag = 9, go = "v1.PodQOSClass")]
    qos_class: String,
    /// What has become of each ephemeral container.
    #[api(tag = 13)]
    ephemeral_container_statuses: List<ContainerStatus>,
    #[api(tag = 14, go = "v1.PodResizeStatus")]
    resize: String,
    #[api(tag = 15, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claim_statuses: List<PodResourceClaimStatus>,
    #[api(tag = 18)]
    extended_resource_claim_status: Option<PodExtendedResourceClaimStatus>,
    #[api(tag = 19, go = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    #[api(tag = 20)]
    resources: Option<ResourceRequirements>,
    #[api(tag = 21, keys("resourceClaimName"), merge, merge_key = "resourceClaimName")]
    node_allocatable_resource_claim_statuses: List<NodeAllocatableResourceClaimStatus>,
    #[api(tag = 22, keys("name"))]
    volume_health: List<PodVolumeHealth>,
}

#[api]
pub struct PodVolumeHealth {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, keys("status", "reason"), merge, merge_key = "status")]
    health_conditions: List<VolumeHealthCondition>,
    #[api(tag = 3)]
    last_transition_time: Time,
}

#[api]
pub struct ContainerStatus {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    state: ContainerState,
    #[api(tag = 3)]
    last_state: ContainerState,
    #[api(tag = 4, required, always)]
    ready: bool,
    #[api(tag = 5, required, always)]
    restart_count: i32,
    #[api(tag = 6, required, always)]
    image: String,
    #[api(tag = 7, name = "imageID", required, always)]
    image_id: String,
    #[api(tag = 8, name = "containerID")]
    container_id: String,
    #[api(tag = 9)]
    started: Option<bool>,
    #[api(tag = 10, go = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    #[api(tag = 11)]
    resources: Option<ResourceRequirements>,
    #[api(tag = 12, keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMountStatus>,
    #[api(tag = 13)]
    user: Option<ContainerUser>,
    #[api(tag = 14, keys("name"), merge, merge_key = "name")]
    allocated_resources_status: List<ResourceStatus>,
    #[api(tag = 15, go = "v1.Signal")]
    stop_signal: Option<String>,
}

#[api]
pub struct ContainerState {
    #[api(tag = 1)]
    waiting: Option<ContainerStateWaiting>,
    #[api(tag = 2)]
    running: Option<ContainerStateRunning>,
    #[api(tag = 3)]
    terminated: Option<ContainerStateTerminated>,
}

#[api]
pub struct ContainerStateWaiting {
    #[api(tag = 1)]
    reason: String,
    #[api(tag = 2)]
    message: String,
}

#[api]
pub struct ContainerStateRunning {
    #[api(tag = 1)]
    started_at: Time,
}

#[api]
pub struct ContainerStateTerminated {
    #[api(tag = 1, required, always)]
    exit_code: i32,
    #[api(tag = 2)]
    signal: i32,
    #[api(tag = 3)]
    reason: String,
    #[api(tag = 4)]
    message: String,
    #[api(tag = 5)]
    started_at: Time,
    #[api(tag = 6)]
    finished_at: Time,
    #[api(tag = 7, name = "containerID")]
    container_id: String,
}

#[api]
pub struct ResourceStatus {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2, keys("resourceID"))]
    resources: List<ResourceHealth>,
}

#[api]
pub struct ResourceHealth {
    #[api(tag = 1, name = "resourceID", required, always, go = "v1.ResourceID")]
    resource_id: String,
    #[api(tag = 2, go = "v1.ResourceHealthStatus")]
    health: String,
    #[api(tag = 6)]
    message: Option<String>,
}

#[api]
pub struct ContainerUser {
    #[api(tag = 1)]
    linux: Option<LinuxContainerUser>,
}

#[api]
pub struct LinuxContainerUser {
    #[api(tag = 1, required, always)]
    uid: i64,
    #[api(tag = 2, required, always)]
    gid: i64,
    #[api(tag = 3)]
    supplemental_groups: List<i64>,
}

#[api]
pub struct VolumeMountStatus {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    mount_path: String,
    #[api(tag = 3)]
    read_only: bool,
    #[api(tag = 4, go = "v1.RecursiveReadOnlyMode")]
    recursive_read_only: Option<String>,
    #[api(tag = 5)]
    volume_status: Option<VolumeStatus>,
}

#[api]
pub struct VolumeStatus {
    #[api(tag = 1)]
    image: Option<ImageVolumeStatus>,
}

#[api]
pub struct ImageVolumeStatus {
    #[api(tag = 1)]
    image_ref: String,
}

#[api]
pub struct PodCondition {
    #[api(tag = 1, required, always, go = "v1.PodConditionType")]
    type_: String,
    #[api(tag = 7)]
    observed_generation: i64,
    #[api(tag = 2, required, always, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    last_probe_time: Time,
    #[api(tag = 4)]
    last_transition_time: Time,
    #[api(tag = 5)]
    reason: String,
    #[api(tag = 6)]
    message: String,
}

#[api]
pub struct PodResourceClaimStatus {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    resource_claim_name: Option<String>,
}

#[api]
pub struct PodExtendedResourceClaimStatus {
    #[api(tag = 1, required, always)]
    request_mappings: List<ContainerExtendedResourceRequest>,
    #[api(tag = 2, required, always)]
    resource_claim_name: String,
}

#[api]
pub struct ContainerExtendedResourceRequest {
    #[api(tag = 1, required, always)]
    container_name: String,
    #[api(tag = 2, required, always)]
    resource_name: String,
    #[api(tag = 3, required, always)]
    request_name: String,
}

#[api]
pub struct PodIP {
    #[api(tag = 1, required, always)]
    ip: String,
}

#[api]
pub struct HostIP {
    #[api(tag = 1, required, always)]
    ip: String,
}

#[api]
pub struct NodeAllocatableResourceClaimStatus {
    #[api(tag = 1, required, always)]
    resource_claim_name: String,
    #[api(tag = 2, set)]
    containers: List<String>,
    #[api(tag = 4, keys("name"), merge, merge_key = "name")]
    mapping: List<NodeAllocatableMappedResources>,
    #[api(tag = 5, keys("name"), merge, merge_key = "name")]
    overhead: List<NodeAllocatableOverheadResources>,
}

#[api]
pub struct NodeAllocatableMappedResources {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    quantity: Option<Quantity>,
}

#[api]
pub struct NodeAllocatableOverheadResources {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    per_pod: Option<Quantity>,
    #[api(tag = 3)]
    per_container: Option<Quantity>,
}
