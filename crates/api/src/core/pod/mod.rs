//! core/v1: Pod.

mod annotations;
mod columns;
mod container_status_rules;
mod defaults;
mod diff;
mod dormant;
mod kind;
mod parts;
mod platform;
mod rules;
mod spec_rules;
mod state;
mod status;
mod status_rules;
pub(crate) mod warnings;

use macros::api;
use object::{LabelSelector, List, Map, ObjectMeta, Quantity};

pub use self::{
    state::Resources,
    status::{
        ContainerExtendedResourceRequest, ContainerState, ContainerStateRunning,
        ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, ContainerUser, HostIP,
        ImageVolumeStatus, LinuxContainerUser, NodeAllocatableMappedResources,
        NodeAllocatableOverheadResources, NodeAllocatableResourceClaimStatus, PodCondition,
        PodExtendedResourceClaimStatus, PodIP, PodResourceClaimStatus, PodStatus, PodVolumeHealth,
        ResourceHealth, ResourceStatus, VolumeMountStatus, VolumeStatus,
    },
};
use super::{
    Affinity, Container, EphemeralContainer, LocalObjectReference, PodSecurityContext,
    ResourceRequirements, Toleration, Volume,
};

#[api]
pub struct Pod {
    /// Name, labels and the like.
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What the pod should be.
    #[api(tag = 2)]
    spec: PodSpec,
    /// What has become of it, as its node tells.
    #[api(tag = 3)]
    status: PodStatus,
}

#[api]
pub struct PodSpec {
    /// What containers of the pod can mount.
    #[api(tag = 1, keys("name"), merge, retain_keys, merge_key = "name")]
    volumes: List<Volume>,
    /// Containers that run to their end, one after the other, before the others start.
    #[api(tag = 20, keys("name"), merge, merge_key = "name")]
    init_containers: List<Container>,
    /// Containers of the pod; there is at least one.
    #[api(tag = 2, required, keys("name"), merge, merge_key = "name", always)]
    containers: List<Container>,
    /// Containers that were added to the running pod, to look into it.
    #[api(tag = 34, keys("name"), merge, merge_key = "name")]
    ephemeral_containers: List<EphemeralContainer>,
    /// When ended containers are started again: Always, OnFailure or Never.
    #[api(tag = 3, default = "Always", implied, go = "v1.RestartPolicy")]
    restart_policy: String,
    /// How long the pod may take to stop before it is killed.
    #[api(tag = 4, default = 30, implied)]
    termination_grace_period_seconds: Option<i64>,
    /// After how long the pod is ended, whatever it does.
    #[api(tag = 5)]
    active_deadline_seconds: Option<i64>,
    /// Where names are looked up: ClusterFirst, ClusterFirstWithHostNet, Default or None.
    #[api(tag = 6, default = "ClusterFirst", implied, go = "v1.DNSPolicy")]
    dns_policy: String,
    /// Labels that the node must have.
    #[api(tag = 7, atomic)]
    node_selector: Map<String>,
    /// The account that the pod acts as.
    #[api(tag = 8)]
    service_account_name: String,
    /// The old name of serviceAccountName.
    #[api(tag = 9)]
    service_account: String,
    /// Whether a token of the account is put into the containers.
    #[api(tag = 21)]
    automount_service_account_token: Option<bool>,
    /// The node that the pod runs on; set by the scheduler.
    #[api(tag = 10)]
    node_name: String,
    /// Whether the pod uses the network of its node.
    #[api(tag = 11)]
    host_network: bool,
    /// Whether the pod sees the processes of its node.
    #[api(tag = 12, name = "hostPID")]
    host_pid: bool,
    /// Whether the pod shares the memory segments of its node.
    #[api(tag = 13, name = "hostIPC")]
    host_ipc: bool,
    /// Whether the containers see each other's processes.
    #[api(tag = 27)]
    share_process_namespace: Option<bool>,
    /// Rights and identities of all containers.
    #[api(tag = 14)]
    security_context: Option<PodSecurityContext>,
    /// Secrets to fetch the images with.
    #[api(tag = 15, keys("name"), merge, merge_key = "name")]
    image_pull_secrets: List<LocalObjectReference>,
    /// The host name, if it is not to be that of the pod.
    #[api(tag = 16)]
    hostname: String,
    /// The part of the host name between the pod's and the namespace's.
    #[api(tag = 17)]
    subdomain: String,
    /// Which nodes, and which other pods, it wants to be near or far from.
    #[api(tag = 18)]
    affinity: Option<Affinity>,
    /// Who finds a node for the pod.
    #[api(tag = 19, default = "default-scheduler", implied)]
    scheduler_name: String,
    /// Taints of nodes that do not keep the pod away.
    #[api(tag = 22)]
    tolerations: List<Toleration>,
    /// Further lines of the hosts file.
    #[api(tag = 23, keys("ip"), merge, merge_key = "ip")]
    host_aliases: List<HostAlias>,
    /// The class that gives the pod its priority.
    #[api(tag = 24)]
    priority_class_name: String,
    /// The higher, the more important; taken from the class.
    #[api(tag = 25)]
    priority: Option<i32>,
    /// What is added to, or used instead of, the DNS settings of the policy.
    #[api(tag = 26)]
    dns_config: Option<PodDNSConfig>,
    /// Conditions besides those of containers without which the pod is not ready.
    #[api(tag = 28)]
    readiness_gates: List<PodReadinessGate>,
    /// The RuntimeClass that says how the node runs the pod.
    #[api(tag = 29)]
    runtime_class_name: Option<String>,
    /// Whether services of the namespace are told in environment variables.
    #[api(tag = 30)]
    enable_service_links: Option<bool>,
    /// Whether the pod may drive away others of less priority.
    #[api(tag = 31, go = "v1.PreemptionPolicy")]
    preemption_policy: Option<String>,
    /// What running the pod costs besides its containers.
    #[api(tag = 32, go = "v1.ResourceList")]
    overhead: Map<Quantity>,
    /// How pods like this one are spread over zones and nodes.
    #[api(tag = 33, keys("topologyKey", "whenUnsatisfiable"), merge, merge_key = "topologyKey")]
    topology_spread_constraints: List<TopologySpreadConstraint>,
    /// Whether the host name is the full one.
    #[api(tag = 35, name = "setHostnameAsFQDN")]
    set_hostname_as_fqdn: Option<bool>,
    /// The operating system of the containers.
    #[api(tag = 36)]
    os: Option<PodOS>,
    /// Whether the containers use the users of the node.
    #[api(tag = 37)]
    host_users: Option<bool>,
    /// While there is one, no node is looked for.
    #[api(tag = 38, keys("name"), merge, merge_key = "name")]
    scheduling_gates: List<PodSchedulingGate>,
    /// Claims on devices that containers of the pod can use.
    #[api(tag = 39, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodResourceClaim>,
    /// What all containers together ask for and may use.
    #[api(tag = 40)]
    resources: Option<ResourceRequirements>,
    /// The host name inside the pod, whatever else is said.
    #[api(tag = 41)]
    hostname_override: Option<String>,
    #[api(tag = 43)]
    scheduling_group: Option<PodSchedulingGroup>,
    #[api(tag = 44, keys("name"), merge, merge_key = "name")]
    eviction_responders: List<EvictionResponder>,
}

#[api]
pub struct PodReadinessGate {
    #[api(tag = 1, required, always, go = "v1.PodConditionType")]
    condition_type: String,
}

#[api]
pub struct PodResourceClaim {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 3)]
    resource_claim_name: Option<String>,
    #[api(tag = 4)]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct PodOS {
    #[api(tag = 1, required, always, go = "v1.OSName")]
    name: String,
}

#[api]
pub struct PodSchedulingGate {
    #[api(tag = 1, required, always)]
    name: String,
}

#[api]
pub struct PodSchedulingGroup {
    #[api(tag = 1)]
    pod_group_name: Option<String>,
}

#[api]
pub struct TopologySpreadConstraint {
    #[api(tag = 1, required, always)]
    max_skew: i32,
    #[api(tag = 2, required, always)]
    topology_key: String,
    #[api(tag = 3, required, always, go = "v1.UnsatisfiableConstraintAction")]
    when_unsatisfiable: String,
    #[api(tag = 4)]
    label_selector: Option<LabelSelector>,
    #[api(tag = 5)]
    min_domains: Option<i32>,
    #[api(tag = 6, go = "v1.NodeInclusionPolicy")]
    node_affinity_policy: Option<String>,
    #[api(tag = 7, go = "v1.NodeInclusionPolicy")]
    node_taints_policy: Option<String>,
    #[api(tag = 8)]
    match_label_keys: List<String>,
}

#[api]
pub struct HostAlias {
    #[api(tag = 1, required, always)]
    ip: String,
    #[api(tag = 2)]
    hostnames: List<String>,
}

#[api]
pub struct PodDNSConfig {
    #[api(tag = 1)]
    nameservers: List<String>,
    #[api(tag = 2)]
    searches: List<String>,
    #[api(tag = 3)]
    options: List<PodDNSConfigOption>,
}

#[api]
pub struct PodDNSConfigOption {
    #[api(tag = 1)]
    name: String,
    #[api(tag = 2)]
    value: Option<String>,
}

#[api(atomic)]
pub struct EvictionResponder {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    priority: Option<i32>,
}

#[cfg(test)]
mod tests;
