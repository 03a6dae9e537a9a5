//! core/v1: Pod.

mod annotations;
mod columns;
mod connections;
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
    state::ResourceList,
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

/// A group of containers that run together on one node and share network and volumes.
#[api]
pub struct Pod {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the pod.
    spec: PodSpec,
    /// Most recently observed status of the pod, reported by its node.
    status: PodStatus,
}

#[api]
pub struct PodSpec {
    /// Volumes that the containers of the pod can mount.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    volumes: List<Volume>,
    /// Containers that run one after the other, each to its end, before the others start. One with restartPolicy
    /// Always keeps running beside them (a sidecar).
    #[api(tag = 20, keys("name"), merge, merge_key = "name")]
    init_containers: List<Container>,
    /// Containers of the pod, at least one. They cannot be added or removed later.
    #[api(tag = 2, keys("name"), merge, merge_key = "name")]
    containers: Must<List<Container>>,
    /// Containers added to a running pod to inspect it, as kubectl debug does. They are never restarted.
    #[api(tag = 34, keys("name"), merge, merge_key = "name")]
    ephemeral_containers: List<EphemeralContainer>,
    /// When containers that have ended are restarted: Always (default), OnFailure or Never.
    #[api(tag = 3, default = "Always", unpublished_default, go_type = "v1.RestartPolicy")]
    #[api(enum_values("Always", "Never", "OnFailure"))]
    restart_policy: String,
    /// Seconds between the termination signal and the kill, 30 by default. 0 kills at once.
    #[api(default = 30, unpublished_default)]
    termination_grace_period_seconds: Option<i64>,
    /// Seconds after its start at which the pod is terminated and marked as failed.
    active_deadline_seconds: Option<i64>,
    /// Where DNS names are resolved: ClusterFirst (default), ClusterFirstWithHostNet, Default (as the node) or None
    /// (only dnsConfig).
    #[api(default = "ClusterFirst", unpublished_default, go_type = "v1.DNSPolicy")]
    #[api(enum_values("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))]
    dns_policy: String,
    /// Labels that a node must have to run the pod.
    #[api(atomic)]
    node_selector: Map<String>,
    /// Name of the ServiceAccount that the pod runs as.
    service_account_name: String,
    /// Deprecated alias of serviceAccountName.
    service_account: String,
    /// Whether a token of the service account is mounted into the containers.
    #[api(tag = 21)]
    automount_service_account_token: Option<bool>,
    /// Node that the pod runs on. Set by the scheduler; if set at creation, the scheduler is bypassed.
    #[api(tag = 10)]
    node_name: String,
    /// Whether the pod uses the network namespace of the node: its interfaces, addresses and ports.
    host_network: bool,
    /// Whether the pod uses the process namespace of the node.
    #[api(name = "hostPID")]
    host_pid: bool,
    /// Whether the pod uses the IPC namespace of the node.
    #[api(name = "hostIPC")]
    host_ipc: bool,
    /// Whether all containers of the pod share one process namespace.
    #[api(tag = 27)]
    share_process_namespace: Option<bool>,
    /// Security settings of the pod, and defaults for its containers.
    #[api(tag = 14)]
    security_context: Option<PodSecurityContext>,
    /// Secrets of the same namespace with credentials for pulling the images.
    #[api(keys("name"), merge, merge_key = "name")]
    image_pull_secrets: List<LocalObjectReference>,
    /// Host name of the pod. Defaults to the name of the pod.
    hostname: String,
    /// If set, the full name of the pod is HOSTNAME.SUBDOMAIN.NAMESPACE.svc.CLUSTER-DOMAIN, served by the headless
    /// Service of this name.
    subdomain: String,
    /// Scheduling rules: which nodes, and which other pods, the pod should be near or away from.
    affinity: Option<Affinity>,
    /// Name of the scheduler that places the pod, default-scheduler by default.
    #[api(default = "default-scheduler", unpublished_default)]
    scheduler_name: String,
    /// Taints of nodes that the pod tolerates.
    #[api(tag = 22)]
    tolerations: List<Toleration>,
    /// Additional entries of /etc/hosts.
    #[api(keys("ip"), merge, merge_key = "ip")]
    host_aliases: List<HostAlias>,
    /// PriorityClass that sets the priority of the pod.
    priority_class_name: String,
    /// Priority of the pod; higher is more important. Set from the PriorityClass.
    priority: Option<i32>,
    /// DNS servers, search domains and options, added to those of dnsPolicy.
    dns_config: Option<PodDNSConfig>,
    /// Additional conditions that must be True for the pod to be ready.
    #[api(tag = 28)]
    readiness_gates: List<PodReadinessGate>,
    /// RuntimeClass that runs the pod. Empty for the default of the node.
    runtime_class_name: Option<String>,
    /// Whether environment variables describe the services of the namespace, true by default.
    enable_service_links: Option<bool>,
    /// Whether the pod may preempt pods of lower priority: PreemptLowerPriority (default) or Never.
    #[api(go_type = "v1.PreemptionPolicy", enum_values("Never", "PreemptLowerPriority"))]
    preemption_policy: Option<String>,
    /// Resources that running the pod takes on top of its containers. Set from the RuntimeClass.
    #[api(go_type = "v1.ResourceList")]
    overhead: Map<Quantity>,
    /// How pods of a group are spread across zones, nodes or other domains.
    #[api(keys("topologyKey", "whenUnsatisfiable"), merge, merge_key = "topologyKey")]
    topology_spread_constraints: List<TopologySpreadConstraint>,
    /// Whether the host name of the pod is its fully qualified domain name.
    #[api(tag = 35, name = "setHostnameAsFQDN")]
    set_hostname_as_fqdn: Option<bool>,
    /// Operating system of the containers. Some fields are only valid for one of them.
    os: Option<PodOS>,
    /// Whether the pod uses the user namespace of the node, true by default. False gives it one of its own.
    host_users: Option<bool>,
    /// Gates that keep the pod from being scheduled until all of them are removed.
    #[api(keys("name"), merge, merge_key = "name")]
    scheduling_gates: List<PodSchedulingGate>,
    /// ResourceClaims for devices that containers of the pod can use.
    #[api(keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodResourceClaim>,
    /// Total resources of all containers of the pod: requests and limits.
    resources: Option<ResourceRequirements>,
    /// Host name inside the pod, regardless of hostname, subdomain and name.
    hostname_override: Option<String>,
    /// Group of pods that are scheduled together.
    #[api(tag = 43, feature_gate = "GenericWorkload")]
    scheduling_group: Option<PodSchedulingGroup>,
    /// Controllers that are consulted before the pod is evicted.
    #[api(keys("name"), merge, merge_key = "name", feature_gate = "EvictionRequestAPI")]
    eviction_responders: List<EvictionResponder>,
}

#[api]
pub struct PodReadinessGate {
    /// Type of the pod condition that must be True.
    #[api(go_type = "v1.PodConditionType")]
    condition_type: Must<String>,
}

#[api]
pub struct PodResourceClaim {
    /// Name by which containers of the pod refer to the claim.
    name: Must<String>,
    /// Name of an existing ResourceClaim of the namespace.
    #[api(tag = 3)]
    resource_claim_name: Option<String>,
    /// ResourceClaimTemplate from which a claim of this pod is created.
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct PodOS {
    /// linux or windows.
    #[api(go_type = "v1.OSName")]
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
    /// Largest difference allowed between the numbers of matching pods of any two domains.
    max_skew: Must<i32>,
    /// Node label; all nodes with the same value are one domain.
    topology_key: Must<String>,
    /// What to do if no node meets the constraint: DoNotSchedule (default) or ScheduleAnyway.
    #[api(
        go_type = "v1.UnsatisfiableConstraintAction",
        enum_values("DoNotSchedule", "ScheduleAnyway")
    )]
    when_unsatisfiable: Must<String>,
    /// Label selector of the pods that are counted.
    label_selector: Option<LabelSelector>,
    /// Minimum number of domains. With fewer, the smallest count is taken as 0.
    min_domains: Option<i32>,
    /// Whether nodes that the pod's affinity excludes are left out: Honor (default) or Ignore.
    #[api(go_type = "v1.NodeInclusionPolicy", enum_values("Honor", "Ignore"))]
    node_affinity_policy: Option<String>,
    /// Whether nodes with taints that the pod does not tolerate are left out: Honor or Ignore (default).
    #[api(go_type = "v1.NodeInclusionPolicy", enum_values("Honor", "Ignore"))]
    node_taints_policy: Option<String>,
    /// Label keys whose values of this pod are added to the selector.
    match_label_keys: List<String>,
}

#[api]
pub struct HostAlias {
    /// IP address of the entry.
    ip: Must<String>,
    /// Host names for the address.
    hostnames: List<String>,
}

#[api]
pub struct PodDNSConfig {
    /// IP addresses of DNS servers.
    nameservers: List<String>,
    /// Search domains for short names.
    searches: List<String>,
    /// Resolver options, such as ndots.
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
    #[api(required, no_omitempty)]
    priority: Option<i32>,
}

#[cfg(test)]
mod tests;
