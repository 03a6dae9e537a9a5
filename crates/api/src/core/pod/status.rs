//! What is known of a running pod.

use macros::api;
use object::{List, Map, Quantity, Time};

use crate::core::{ResourceRequirements, VolumeHealthCondition, probe::SIGNALS};

#[api]
pub struct PodStatus {
    /// The generation that this status is about.
    #[api(tag = 17)]
    observed_generation: i64,
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[api(tag = 1, go = "v1.PodPhase")]
    #[api(values("Failed", "Pending", "Running", "Succeeded", "Unknown"))]
    phase: String,
    /// What is known of the pod, point by point.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<PodCondition>,
    /// Why the pod is as it is, for people.
    message: String,
    /// The same in one word.
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
    #[api(go = "v1.PodQOSClass", values("BestEffort", "Burstable", "Guaranteed"))]
    qos_class: String,
    /// What has become of each ephemeral container.
    #[api(tag = 13)]
    ephemeral_container_statuses: List<ContainerStatus>,
    /// No longer of use: see the conditions.
    #[api(go = "v1.PodResizeStatus")]
    resize: String,
    /// The claims that were made for the pod.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claim_statuses: List<PodResourceClaimStatus>,
    /// The claim that was made for extended resources.
    #[api(tag = 18)]
    extended_resource_claim_status: Option<PodExtendedResourceClaimStatus>,
    /// What the node has set aside for the pod.
    #[api(go = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    /// What the pod has at present.
    resources: Option<ResourceRequirements>,
    /// What claims take of the node's resources.
    #[api(keys("resourceClaimName"), merge, merge_key = "resourceClaimName")]
    #[api(gate = "DRANodeAllocatableResources")]
    node_allocatable_resource_claim_statuses: List<NodeAllocatableResourceClaimStatus>,
    /// How well the volumes are.
    #[api(keys("name"), gate = "CSIVolumeHealth")]
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
    /// The container.
    name: Must<String>,
    /// What it does now.
    state: ContainerState,
    /// How it ended the last time.
    last_state: ContainerState,
    /// Whether it is ready.
    ready: Must<bool>,
    /// How often it was restarted.
    restart_count: Must<i32>,
    /// The image that it runs.
    image: Must<String>,
    /// What the runtime calls the image.
    #[api(name = "imageID")]
    image_id: Must<String>,
    /// What the runtime calls the container, and which runtime.
    #[api(name = "containerID")]
    container_id: String,
    /// Whether it has started up.
    started: Option<bool>,
    /// What the node has set aside for it.
    #[api(go = "v1.ResourceList")]
    allocated_resources: Map<Quantity>,
    /// What it has at present.
    resources: Option<ResourceRequirements>,
    /// How its volumes are mounted.
    #[api(keys("mountPath"), merge, merge_key = "mountPath")]
    volume_mounts: List<VolumeMountStatus>,
    /// Who it runs as.
    user: Option<ContainerUser>,
    /// How well its devices are.
    #[api(keys("name"), merge, merge_key = "name")]
    allocated_resources_status: List<ResourceStatus>,
    /// The signal that ends it.
    #[api(go = "v1.Signal", values = &SIGNALS)]
    stop_signal: Option<String>,
}

#[api]
pub struct ContainerState {
    /// It has not started yet.
    waiting: Option<ContainerStateWaiting>,
    /// It runs.
    running: Option<ContainerStateRunning>,
    /// It has ended.
    terminated: Option<ContainerStateTerminated>,
}

#[api]
pub struct ContainerStateWaiting {
    /// Why, as one word for programs.
    reason: String,
    /// Why, as a sentence for people.
    message: String,
}

#[api]
pub struct ContainerStateRunning {
    /// Since when.
    started_at: Time,
}

#[api]
pub struct ContainerStateTerminated {
    /// The exit code.
    exit_code: Must<i32>,
    /// The signal that ended it.
    signal: i32,
    /// Why, as one word for programs.
    reason: String,
    /// Why, or its last words.
    message: String,
    /// When it started.
    started_at: Time,
    /// When it ended.
    finished_at: Time,
    /// What the runtime called it.
    #[api(name = "containerID")]
    container_id: String,
}

#[api]
pub struct ResourceStatus {
    /// The resource.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// The devices of the resource.
    #[api(keys("resourceID"))]
    resources: List<ResourceHealth>,
}

#[api]
pub struct ResourceHealth {
    /// The device.
    #[api(name = "resourceID", go = "v1.ResourceID")]
    resource_id: Must<String>,
    /// Healthy, Unhealthy or Unknown.
    #[api(go = "v1.ResourceHealthStatus")]
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
    /// Whether it is mounted for reading only.
    read_only: bool,
    /// Whether all below it is, too.
    #[api(go = "v1.RecursiveReadOnlyMode")]
    recursive_read_only: Option<String>,
    /// What is known of the volume.
    #[api(gate = "ImageVolumeWithDigest")]
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
    /// Which condition this is.
    #[api(go = "v1.PodConditionType")]
    type_: Must<String>,
    /// The generation of the object that this was found out about.
    #[api(tag = 7)]
    observed_generation: i64,
    /// Whether it holds: True, False or Unknown.
    #[api(tag = 2, go = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition was last looked at.
    last_probe_time: Time,
    /// When the status last changed.
    last_transition_time: Time,
    /// Why, as one word for programs.
    reason: String,
    /// Why, as a sentence for people.
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
    /// What its devices take besides.
    #[api(keys("name"), merge, merge_key = "name")]
    overhead: List<NodeAllocatableOverheadResources>,
}

#[api]
pub struct NodeAllocatableMappedResources {
    /// The resource.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// How much of it.
    #[api(required)]
    quantity: Option<Quantity>,
}

#[api]
pub struct NodeAllocatableOverheadResources {
    /// The resource.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// How much of it, for the pod.
    per_pod: Option<Quantity>,
    /// How much of it, for each container.
    per_container: Option<Quantity>,
}
