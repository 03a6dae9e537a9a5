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
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: PodSpec,
    #[api(tag = 3)]
    status: PodStatus,
}

#[api]
pub struct PodSpec {
    #[api(tag = 1, keys("name"), merge, retain_keys, merge_key = "name")]
    volumes: List<Volume>,
    #[api(tag = 20, keys("name"), merge, merge_key = "name")]
    init_containers: List<Container>,
    #[api(tag = 2, required, keys("name"), merge, merge_key = "name", always)]
    containers: List<Container>,
    #[api(tag = 34, keys("name"), merge, merge_key = "name")]
    ephemeral_containers: List<EphemeralContainer>,
    #[api(tag = 3, default = "Always", implied, go = "v1.RestartPolicy")]
    restart_policy: String,
    #[api(tag = 4, default = 30, implied)]
    termination_grace_period_seconds: Option<i64>,
    #[api(tag = 5)]
    active_deadline_seconds: Option<i64>,
    #[api(tag = 6, default = "ClusterFirst", implied, go = "v1.DNSPolicy")]
    dns_policy: String,
    #[api(tag = 7, atomic)]
    node_selector: Map<String>,
    #[api(tag = 8)]
    service_account_name: String,
    #[api(tag = 9)]
    service_account: String,
    #[api(tag = 21)]
    automount_service_account_token: Option<bool>,
    #[api(tag = 10)]
    node_name: String,
    #[api(tag = 11)]
    host_network: bool,
    #[api(tag = 12, name = "hostPID")]
    host_pid: bool,
    #[api(tag = 13, name = "hostIPC")]
    host_ipc: bool,
    #[api(tag = 27)]
    share_process_namespace: Option<bool>,
    #[api(tag = 14)]
    security_context: Option<PodSecurityContext>,
    #[api(tag = 15, keys("name"), merge, merge_key = "name")]
    image_pull_secrets: List<LocalObjectReference>,
    #[api(tag = 16)]
    hostname: String,
    #[api(tag = 17)]
    subdomain: String,
    #[api(tag = 18)]
    affinity: Option<Affinity>,
    #[api(tag = 19, default = "default-scheduler", implied)]
    scheduler_name: String,
    #[api(tag = 22)]
    tolerations: List<Toleration>,
    #[api(tag = 23, keys("ip"), merge, merge_key = "ip")]
    host_aliases: List<HostAlias>,
    #[api(tag = 24)]
    priority_class_name: String,
    #[api(tag = 25)]
    priority: Option<i32>,
    #[api(tag = 26)]
    dns_config: Option<PodDNSConfig>,
    #[api(tag = 28)]
    readiness_gates: List<PodReadinessGate>,
    #[api(tag = 29)]
    runtime_class_name: Option<String>,
    #[api(tag = 30)]
    enable_service_links: Option<bool>,
    #[api(tag = 31, go = "v1.PreemptionPolicy")]
    preemption_policy: Option<String>,
    #[api(tag = 32, go = "v1.ResourceList")]
    overhead: Map<Quantity>,
    #[api(tag = 33, keys("topologyKey", "whenUnsatisfiable"), merge, merge_key = "topologyKey")]
    topology_spread_constraints: List<TopologySpreadConstraint>,
    #[api(tag = 35, name = "setHostnameAsFQDN")]
    set_hostname_as_fqdn: Option<bool>,
    #[api(tag = 36)]
    os: Option<PodOS>,
    #[api(tag = 37)]
    host_users: Option<bool>,
    #[api(tag = 38, keys("name"), merge, merge_key = "name")]
    scheduling_gates: List<PodSchedulingGate>,
    #[api(tag = 39, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodResourceClaim>,
    #[api(tag = 40)]
    resources: Option<ResourceRequirements>,
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
