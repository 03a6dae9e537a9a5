//! scheduling/v1alpha3: CompositePodGroup.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn,
};

use super::{
    CompositeDisruptionMode, CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy, SingleCompositeDisruptionMode, WorkloadReference,
};
use crate::{columns::NONE, rules::ValidateField};

/// Groups of pods that are scheduled together.
#[api]
pub struct CompositePodGroup {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// How. It never changes.
    spec: Must<CompositePodGroupSpec>,
    /// How far it has come.
    status: CompositePodGroupStatus,
}

#[api]
pub struct CompositePodGroupSpec {
    /// The group that this one is part of.
    #[api(validations(Immutable, Format("long-name")))]
    parent_composite_pod_group_name: Option<String>,
    /// The template that it was made from.
    #[api(required, no_omitempty, validations(Required, Immutable))]
    workload_ref: Option<WorkloadReference>,
    /// How the pods are scheduled.
    #[api(validations(Immutable))]
    scheduling_policy: Must<CompositePodGroupSchedulingPolicy>,
    /// Where the pods must be, together.
    #[api(validations(Immutable))]
    scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
    /// How much is lost when one pod is disrupted.
    #[api(validations(Immutable))]
    disruption_mode: Option<CompositeDisruptionMode>,
    /// The class of their priority.
    #[api(validations(Format("long-name"), Immutable))]
    priority_class_name: String,
    /// Their priority, as a number.
    #[api(validations(Immutable, Max(1_000_000_000)))]
    priority: Option<i32>,
    /// Whether others make room: Never, PreemptLowerPriority.
    #[api(go_type = "$.PreemptionPolicy", feature_gate = "PodGroupPreemptionPolicy")]
    #[api(validations(Immutable, OneOfValues("Never", "PreemptLowerPriority")))]
    preemption_policy: Option<String>,
}

#[api]
pub struct CompositePodGroupStatus {
    /// What holds of the group.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
}

impl Kind for CompositePodGroup {
    const NAMES: ResourceNames = ResourceNames::new(
        "scheduling.k8s.io",
        "v1alpha3",
        "CompositePodGroup",
        "compositepodgroups",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("CompositePodGroup");
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("CompositePodGroup")];

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::WORKLOAD_SCHEDULING);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Policy", |group, _| {
            if group.spec().scheduling_policy().gang().is_some() { "Gang" } else { "Basic" }.into()
        }),
        TableColumn::text("Workload", |group, _| {
            group.spec().workload_ref().map_or(NONE, WorkloadReference::workload_name).into()
        }),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().disruption_mode().is_none() {
            self.spec_mut().disruption_mode_mut().set_single(SingleCompositeDisruptionMode::new());
        }
    }

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        errs.conditions(&FieldPath::STATUS.field("conditions"), self.status().conditions());
    }
}
