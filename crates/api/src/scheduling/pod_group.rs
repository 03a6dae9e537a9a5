//! scheduling/v1beta1 and v1alpha3: PodGroup.

use macros::api;
use object::{Condition, List, ObjectMeta};
use schema::{
    CLIENT_METADATA_FIELDS, ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn,
};

use super::{
    DisruptionMode, PodGroupResourceClaim, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy,
    SingleDisruptionMode,
};
use crate::{columns::NONE, rules::ValidateField};

/// Pods that are scheduled together.
#[api]
pub struct PodGroup {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// How. It never changes.
    spec: Must<PodGroupSpec>,
    /// How far it has come.
    status: PodGroupStatus,
}

#[api]
pub struct PodGroupSpec {
    /// The group that this one is part of.
    #[api(feature_gate = "CompositePodGroup", validations(Immutable, Format("long-name")))]
    parent_composite_pod_group_name: Option<String>,
    /// The template that it was made from.
    #[api(validations(Immutable))]
    workload_ref: Option<WorkloadReference>,
    /// How the pods are scheduled.
    scheduling_policy: Must<PodGroupSchedulingPolicy>,
    /// Where the pods must be, together.
    #[api(feature_gate = "TopologyAwareWorkloadScheduling", validations(Immutable))]
    scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    /// The devices that the pods share.
    #[api(
        keys("name"),
        merge,
        retain_keys,
        merge_key = "name",
        feature_gate = "DRAWorkloadResourceClaims"
    )]
    #[api(validations(MaxItems(4), Immutable, UniqueBy("name")))]
    resource_claims: List<PodGroupResourceClaim>,
    /// How much is lost when one pod is disrupted.
    #[api(validations(Immutable))]
    disruption_mode: Option<DisruptionMode>,
    /// The class of their priority.
    #[api(validations(Immutable, Format("long-name")))]
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
pub struct WorkloadReference {
    /// The workload.
    #[api(validations(Required, Format("long-name")))]
    workload_name: Must<String>,
    /// The template in it.
    #[api(validations(Required, Format("short-name")))]
    template_name: Must<String>,
}

#[api]
pub struct PodGroupStatus {
    /// What holds of the group.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<Condition>,
    /// The claims that were made.
    #[api(
        keys("name"),
        merge,
        retain_keys,
        merge_key = "name",
        feature_gate = "DRAWorkloadResourceClaims"
    )]
    #[api(validations(MaxItems(4), UniqueBy("name")))]
    resource_claim_statuses: List<PodGroupResourceClaimStatus>,
}

#[api]
pub struct PodGroupResourceClaimStatus {
    /// What the claim is called in the group.
    name: Must<String>,
    /// The claim that was made.
    #[api(validations(Format("long-name")))]
    resource_claim_name: Option<String>,
}

impl Kind for PodGroup {
    const NAMES: ResourceNames =
        ResourceNames::new("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const STATUS_KEEPS: &'static [&'static str] = CLIENT_METADATA_FIELDS;
    const GATE: Option<&str> = Some("GenericWorkload");
    const DEFAULT_ON: bool = false;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("PodGroup")];

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::WORKLOAD_SCHEDULING);
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Policy", |group, _| {
            if group.spec().scheduling_policy().gang().is_some() { "Gang" } else { "Basic" }.into()
        }),
        TableColumn::text("Workload", |group, _| {
            group.spec().workload_ref().map_or(NONE, WorkloadReference::workload_name).into()
        }),
        TableColumn::text("Status", |group, _| group.status().state().into()),
        TableColumn::AGE,
    ];

    fn default_fields(&mut self) {
        if self.spec().disruption_mode().is_none() {
            self.spec_mut().disruption_mode_mut().set_single(SingleDisruptionMode::new());
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        let spec = self.spec();
        if spec.parent_composite_pod_group_name().is_some() && spec.workload_ref().is_none() {
            let why = "must be set when parentCompositePodGroupName is set";
            errs.required(&FieldPath::SPEC.field("workloadRef"), why);
        }
    }

    fn validate_update(&self, _old: &Self, _errs: &mut ErrorList) {}

    fn validate_status(&self, _: &Self, errs: &mut ErrorList) {
        let at = FieldPath::STATUS;
        errs.conditions(&at.field("conditions"), self.status().conditions());
        let claims = self.spec().resource_claims();
        for (i, status) in self.status().resource_claim_statuses().iter().enumerate() {
            if claims.find(|claim| claim.name() == status.name()).is_none() {
                let at = at.field("resourceClaimStatuses");
                let why = "must match the name of an entry in `spec.resourceClaims`";
                errs.invalid(&at.index(i).field("name"), status.name(), why);
            }
        }
    }
}

impl PodGroupStatus {
    fn state(&self) -> &str {
        let of = |ty: &str| self.conditions().find(|condition| condition.type_() == ty);
        if let Some(target) = of("DisruptionTarget") {
            return target.reason();
        }
        match of("PodGroupInitiallyScheduled").map(Condition::status) {
            Some("True") => "Scheduled",
            Some(_) => "Unschedulable",
            None => "Pending",
        }
    }
}
