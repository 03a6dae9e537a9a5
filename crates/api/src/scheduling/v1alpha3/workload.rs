//! scheduling/v1alpha3: Workload.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Kind, Names, Storage};

#[api]
pub struct Workload {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: WorkloadSpec,
}

#[api]
pub struct WorkloadSpec {
    #[api(tag = 1)]
    controller_ref: Option<TypedLocalObjectReference>,
    #[api(tag = 2, keys("name"), always)]
    pod_group_templates: List<PodGroupTemplate>,
    #[api(tag = 3, keys("name"))]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct TypedLocalObjectReference {
    #[api(tag = 1)]
    api_group: String,
    #[api(tag = 2, required, always)]
    kind: String,
    #[api(tag = 3, required, always)]
    name: String,
}

#[api]
pub struct PodGroupTemplate {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    scheduling_policy: PodGroupSchedulingPolicy,
    #[api(tag = 3)]
    scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    #[api(tag = 4, keys("name"), merge, retain_keys, merge_key = "name")]
    resource_claims: List<PodGroupResourceClaim>,
    #[api(tag = 5)]
    disruption_mode: Option<DisruptionMode>,
    #[api(tag = 6)]
    priority_class_name: String,
    #[api(tag = 7)]
    priority: Option<i32>,
    #[api(tag = 8, go = "v1alpha3.PreemptionPolicy")]
    preemption_policy: Option<String>,
}

#[api]
pub struct PodGroupSchedulingPolicy {
    #[api(tag = 1)]
    basic: Option<BasicSchedulingPolicy>,
    #[api(tag = 2)]
    gang: Option<GangSchedulingPolicy>,
}

#[api]
pub struct BasicSchedulingPolicy {}

#[api]
pub struct GangSchedulingPolicy {
    #[api(tag = 1, required, always)]
    min_count: i32,
}

#[api]
pub struct PodGroupResourceClaim {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    resource_claim_name: Option<String>,
    #[api(tag = 3)]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct DisruptionMode {
    #[api(tag = 1)]
    single: Option<SingleDisruptionMode>,
    #[api(tag = 2)]
    all: Option<AllDisruptionMode>,
}

#[api]
pub struct SingleDisruptionMode {}

#[api]
pub struct AllDisruptionMode {}

#[api]
pub struct PodGroupSchedulingConstraints {
    #[api(tag = 1)]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct TopologyConstraint {
    #[api(tag = 1, required, always)]
    key: String,
}

#[api]
pub struct CompositePodGroupTemplate {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2, required, always)]
    scheduling_policy: CompositePodGroupSchedulingPolicy,
    #[api(tag = 3)]
    scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
    #[api(tag = 4)]
    disruption_mode: Option<CompositeDisruptionMode>,
    #[api(tag = 5)]
    priority_class_name: String,
    #[api(tag = 6)]
    priority: Option<i32>,
    #[api(tag = 7, go = "v1alpha3.PreemptionPolicy")]
    preemption_policy: Option<String>,
    #[api(tag = 8, keys("name"))]
    pod_group_templates: List<PodGroupTemplate>,
    #[api(tag = 9, keys("name"))]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct CompositePodGroupSchedulingPolicy {
    #[api(tag = 1)]
    basic: Option<CompositeBasicSchedulingPolicy>,
    #[api(tag = 2)]
    gang: Option<CompositeGangSchedulingPolicy>,
}

#[api]
pub struct CompositeBasicSchedulingPolicy {}

#[api]
pub struct CompositeGangSchedulingPolicy {
    #[api(tag = 1, required, always)]
    min_group_count: i32,
}

#[api]
pub struct CompositeDisruptionMode {
    #[api(tag = 1)]
    single: Option<SingleCompositeDisruptionMode>,
    #[api(tag = 2)]
    all: Option<AllCompositeDisruptionMode>,
}

#[api]
pub struct SingleCompositeDisruptionMode {}

#[api]
pub struct AllCompositeDisruptionMode {}

#[api]
pub struct CompositePodGroupSchedulingConstraints {
    #[api(tag = 1)]
    topology: List<TopologyConstraint>,
}

impl Kind for Workload {
    const NAMES: Names = Names {
        group: "scheduling.k8s.io",
        version: "v1alpha3",
        kind: "Workload",
        plural: "workloads",
        singular: "workload",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("workloads", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const DEFAULT_ON: bool = false;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
}
