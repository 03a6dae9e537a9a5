//! scheduling/v1alpha3: CompositePodGroup.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{Kind, METADATA, Names, Storage, Subresource};

use super::{
    CompositeDisruptionMode, CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy, WorkloadReference,
};

#[api]
pub struct CompositePodGroup {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: CompositePodGroupSpec,
    #[api(tag = 3)]
    status: CompositePodGroupStatus,
}

#[api]
pub struct CompositePodGroupSpec {
    #[api(tag = 1)]
    parent_composite_pod_group_name: Option<String>,
    #[api(tag = 2)]
    workload_ref: Option<WorkloadReference>,
    #[api(tag = 3, required, always)]
    scheduling_policy: CompositePodGroupSchedulingPolicy,
    #[api(tag = 4)]
    scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
    #[api(tag = 5)]
    disruption_mode: Option<CompositeDisruptionMode>,
    #[api(tag = 6)]
    priority_class_name: String,
    #[api(tag = 7)]
    priority: Option<i32>,
    #[api(tag = 8, go = "v1alpha3.PreemptionPolicy")]
    preemption_policy: Option<String>,
}

#[api]
pub struct CompositePodGroupStatus {
    #[api(tag = 1, keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for CompositePodGroup {
    const NAMES: Names = Names {
        group: "scheduling.k8s.io",
        version: "v1alpha3",
        kind: "CompositePodGroup",
        plural: "compositepodgroups",
        singular: "compositepodgroup",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("compositepodgroups", "v1alpha3");
    const STATUS_KEEPS: &'static [&'static str] = METADATA;
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "CompositePodGroup", &["get", "patch", "update"])];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
