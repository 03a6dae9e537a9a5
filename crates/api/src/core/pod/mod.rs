//! core/v1: Pod.

mod annotations;
mod columns;
mod container_status_rules;
mod defaults;
mod diff;
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

/// Containers that run together on one node.
#[api]
pub struct Pod {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What the pod should be.
    spec: PodSpec,
    /// What has become of it, as its node tells.
    status: PodStatus,
}

#[api]
pub struct PodSpec {
    /// What containers of the pod can mount.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    volumes: List<Volume>,
    /// Containers that run to their end, one after the other, before the others start.
    #[api(tag = 20, keys("name"), merge, merge_key = "name")]
    init_containers: List<Container>,
    /// Containers of the pod; there is at least one.
    #[api(tag = 2, keys("name"), merge, merge_key = "name")]
    containers: Must<List<Container>>,
    /// Containers that were added to the running pod, to look into it.
    #[api(tag = 34, keys("name"), merge, merge_key = "name")]
    ephemeral_containers: List<EphemeralContainer>,
    /// When ended containers are started again: Always, OnFailure or Never.
    #[api(tag = 3, default = "Always", implied, go = "v1.RestartPolicy")]
    #[api(values("Always", "Never", "OnFailure"))]
    restart_policy: String,
    /// How long the pod may take to stop before it is killed.
    #[api(default = 30, implied)]
    termination_grace_period_seconds: Option<i64>,
    /// After how long the pod is ended, whatever it does.
    active_deadline_seconds: Option<i64>,
    /// Where names are looked up: ClusterFirst, ClusterFirstWithHostNet, Default or None.
    #[api(default = "ClusterFirst", implied, go = "v1.DNSPolicy")]
    #[api(values("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))]
    dns_policy: String,
    /// Labels that the node must have.
    #[api(atomic)]
    node_selector: Map<String>,
    /// The account that the pod acts as.
    service_account_name: String,
    /// The old name of serviceAccountName.
    service_account: String,
    /// Whether a token of the account is put into the containers.
    #[api(tag = 21)]
    automount_service_account_token: Option<bool>,
    /// The node that the pod runs on; set by the scheduler.
    #[api(tag = 10)]
    node_name: String,
    /// Whether the pod uses the network of its node.
    host_network: bool,
    /// Whether the pod sees the processes of its node.
    #[api(name = "hostPID")]
    host_pid: bool,
    /// Whether the pod shares the memory segments of its node.
    #[api(name = "hostIPC")]
    host_ipc: bool,
    /// Whether the containers see each other's processes.
    #[api(tag = 27)]
    share_process_namespace: Option<bool>,
    /// Rights and identities of all containers.
    #[api(tag = 14)]
    security_context: Option<PodSecurityContext>,
    /// Secrets to fetch the images with.
    #[api(keys("name"), merge, merge_key = "name")]
    image_pull_secrets: List<LocalObjectReference>,
    /// The host name, if it is not to be that of the pod.
    hostname: String,
    /// The part of the host name between the pod's and the namespace's.
    subdomain: String,
    /// Which nodes, and which other pods, it wants to be near or far from.
    affinity: Option<Affinity>,
    /// Who finds a node for the pod.
    #[api(default = "default-scheduler", implied)]
    scheduler_name: String,
    /// Taints of nodes that do not keep the pod away.
    #[api(tag = 22)]
    tolerations: List<Toleration>,
    /// Further lines of the hosts file.
    #[api(keys("ip"), merge, merge_key = "ip")]
    host_aliases: List<HostAlias>,
    /// The class that gives the pod its priority.
    priority_class_name: String,
    /// The higher, the more important; taken from the class.
    priority: Option<i32>,
    /// What is added to, or used instead of, the DNS settings of the policy.
    dns_config: Option<PodDNSConfig>,
    /// Conditions besides those of containers without which the pod is not ready.
    #[api(tag = 28)]
    readiness_gates: List<PodReadinessGate>,
    /// The RuntimeClass that says how the node runs the pod.
    runtime_class_name: Option<String>,
    /// Whether services of the namespace are told in environment variables.
    enable_service_links: Option<bool>,
    /// Whether the pod may drive away others of less priority.
    #[api(go = "v1.PreemptionPolicy", values("Never", "PreemptLowerPriority"))]
    preemption_policy: Option<String>,
    /// What running the pod costs besides its containers.
    #[api(go = "v1.ResourceList")]
    overhead: Map<Quantity>,
    /// How pods like this one are spread over zones and nodes.
    #[api(keys("topologyKey", "whenUnsatisfiable"), merge, merge_key = "topologyKey")]
    topology_spread_constraints: List<TopologySpreadConstraint>,
    /// Whether the host name is the full one.
    #[api(tag = 35, name = "setHostnameAsFQDN")]
    set_hostname_as_fqdn: Option<bool>,
    /// The operating system of the containers.
    os: Option<PodOS>,
    /// Whether the containers use the users of the node.
    host_users: Option<bool>,
    /// While there is one, no node is looked for.
    #[api(keys("name"), merge, merge_key = "name")]
    scheduling_gates: List<PodSchedulingGate>,
    /// Claims on devices that containers of the pod can use.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodResourceClaim>,
    /// What all containers together ask for and may use.
    resources: Option<ResourceRequirements>,
    /// The host name inside the pod, whatever else is said.
    hostname_override: Option<String>,
    /// The group that the pod is scheduled with.
    #[api(tag = 43, gate = "GenericWorkload")]
    scheduling_group: Option<PodSchedulingGroup>,
    /// Who is asked before the pod is evicted.
    #[api(keys("name"), merge, merge_key = "name", gate = "EvictionRequestAPI")]
    eviction_responders: List<EvictionResponder>,
}

#[api]
pub struct PodReadinessGate {
    /// The condition that must be True.
    #[api(go = "v1.PodConditionType")]
    condition_type: Must<String>,
}

#[api]
pub struct PodResourceClaim {
    /// What containers call the claim.
    name: Must<String>,
    /// The claim, where it is there already.
    #[api(tag = 3)]
    resource_claim_name: Option<String>,
    /// The template that a claim of the pod's own is made from.
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct PodOS {
    /// linux or windows.
    #[api(go = "v1.OSName")]
    name: Must<String>,
}

#[api]
pub struct PodSchedulingGate {
    /// The name of the gate.
    name: Must<String>,
}

#[api]
pub struct PodSchedulingGroup {
    /// The PodGroup in the same namespace.
    #[api(union)]
    pod_group_name: Option<String>,
}

#[api]
pub struct TopologySpreadConstraint {
    /// How uneven the spread may be.
    max_skew: Must<i32>,
    /// The label of nodes that makes the places.
    topology_key: Must<String>,
    /// What to do when it cannot be: DoNotSchedule or ScheduleAnyway.
    #[api(go = "v1.UnsatisfiableConstraintAction", values("DoNotSchedule", "ScheduleAnyway"))]
    when_unsatisfiable: Must<String>,
    /// Which pods are spread.
    label_selector: Option<LabelSelector>,
    /// How many places there should be at least.
    min_domains: Option<i32>,
    /// Whether only nodes that the pod may go to count: Honor or Ignore.
    #[api(go = "v1.NodeInclusionPolicy", values("Honor", "Ignore"))]
    node_affinity_policy: Option<String>,
    /// Whether nodes with taints that the pod does not bear count: Honor or Ignore.
    #[api(go = "v1.NodeInclusionPolicy", values("Honor", "Ignore"))]
    node_taints_policy: Option<String>,
    /// Labels that count pods only with the same value as this pod's.
    match_label_keys: List<String>,
}

#[api]
pub struct HostAlias {
    /// The address.
    ip: Must<String>,
    /// The names of the address.
    hostnames: List<String>,
}

#[api]
pub struct PodDNSConfig {
    /// The servers to ask.
    nameservers: List<String>,
    /// The domains to look in.
    searches: List<String>,
    /// The options of the resolver.
    options: List<PodDNSConfigOption>,
}

#[api]
pub struct PodDNSConfigOption {
    /// The name of the option.
    name: String,
    /// Its value.
    value: Option<String>,
}

#[api(atomic)]
pub struct EvictionResponder {
    /// The name of the responder.
    name: Must<String>,
    /// Those with a higher one are asked first.
    #[api(required, always)]
    priority: Option<i32>,
}

#[cfg(test)]
mod tests;
