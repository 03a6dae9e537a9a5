//! scheduling/v1beta1: PodGroup.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Storage, Subresource};

use super::{
    DisruptionMode, PodGroupResourceClaim, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy,
};

#[api]
pub struct PodGroup {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: PodGroupSpec,
    #[api(tag = 3)]
    status: PodGroupStatus,
}

#[api]
pub struct PodGroupSpec {
    #[api(tag = 1)]
    parent_composite_pod_group_name: Option<String>,
    #[api(tag = 2)]
    workload_ref: Option<WorkloadReference>,
    #[api(tag = 3, required, always)]
    scheduling_policy: PodGroupSchedulingPolicy,
    #[api(tag = 4)]
    scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    #[api(tag = 5, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodGroupResourceClaim>,
    #[api(tag = 6)]
    disruption_mode: Option<DisruptionMode>,
    #[api(tag = 7)]
    priority_class_name: String,
    #[api(tag = 8)]
    priority: Option<i32>,
    #[api(tag = 9, go = "v1beta1.PreemptionPolicy")]
    preemption_policy: Option<String>,
}

#[api]
pub struct WorkloadReference {
    #[api(tag = 1, required, always)]
    workload_name: String,
    #[api(tag = 2, required, always)]
    template_name: String,
}

#[api]
pub struct PodGroupStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    #[api(tag = 2, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claim_statuses: List<PodGroupResourceClaimStatus>,
}

#[api]
pub struct PodGroupResourceClaimStatus {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    resource_claim_name: Option<String>,
}

impl Kind for PodGroup {
    const NAMES: Names = Names {
        group: "scheduling.k8s.io",
        version: "v1beta1",
        kind: "PodGroup",
        plural: "podgroups",
        singular: "podgroup",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("podgroups", "v1beta1");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "PodGroup", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
