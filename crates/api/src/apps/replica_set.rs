//! apps/v1: ReplicaSet.

use crate::{advice::CommonWarnings, autoscaling::v1::SCALE, columns, core::PodTemplateSpec};
use macros::api;
use object::{LabelSelector, List, ObjectMeta, Time};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList};

use super::workload::{Workload, validate_selector_immutable, validate_status_replicas};

/// Keeps a number of identical pods running. Usually managed by a Deployment.
#[api]
pub struct ReplicaSet {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the replica set.
    #[api(required)]
    spec: ReplicaSetSpec,
    /// Observed state, written by the controller.
    status: ReplicaSetStatus,
}

#[api]
pub struct ReplicaSetSpec {
    /// Desired number of pods.
    #[api(default = 1, unpublished_default)]
    replicas: Option<i32>,
    /// Seconds that a pod must be ready, without a crash, before it counts as available.
    #[api(tag = 4)]
    min_ready_seconds: i32,
    /// Label selector of the pods that belong to the object. It must match the labels of the template, and cannot be
    /// changed.
    #[api(tag = 2, no_omitempty, required)]
    selector: Option<LabelSelector>,
    /// Template of the pods.
    template: PodTemplateSpec,
}

#[api]
pub struct ReplicaSetStatus {
    /// Number of pods that exist.
    replicas: Must<i32>,
    /// Number of pods that have all labels of the template.
    fully_labeled_replicas: i32,
    /// Number of pods that are ready.
    #[api(tag = 4)]
    ready_replicas: i32,
    /// Number of pods that have been ready for minReadySeconds.
    available_replicas: i32,
    /// Number of pods that are terminating.
    #[api(tag = 7)]
    terminating_replicas: Option<i32>,
    /// Generation of the object that this status was computed from.
    #[api(tag = 3)]
    observed_generation: i64,
    /// Current conditions of the object.
    #[api(tag = 6, keys("type"), merge, merge_key = "type")]
    conditions: List<ReplicaSetCondition>,
}

#[api]
pub struct ReplicaSetCondition {
    /// Type of the condition.
    #[api(no_omitempty, go_type = "v1.ReplicaSetConditionType")]
    type_: String,
    /// Status of the condition: True, False or Unknown.
    #[api(no_omitempty, go_type = "v1.ConditionStatus")]
    status: String,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

impl Kind for ReplicaSet {
    const NAMES: ResourceNames = ResourceNames::new("apps", "v1", "ReplicaSet", "replicasets")
        .short(&["rs"])
        .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apps/v1beta2", "extensions/v1beta1"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[SCALE, Subresource::status("ReplicaSet").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Desired", "integer", |set, _| set.spec().replicas().into()),
        TableColumn::new("Current", "integer", |set, _| set.status().replicas().into()),
        TableColumn::new("Ready", "integer", |set, _| set.status().ready_replicas().into()),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |it, _| {
            columns::containers(it.spec().template().spec())
        }),
        TableColumn::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
        TableColumn::wide_text("Selector", |it, _| columns::selector(it.spec().selector())),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        if warnings.pod_owner_name(self.metadata(), old.map(Self::metadata)) {
            self.spec().template().warn(&FieldPath::SPEC.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
        validate_selector_immutable(self.spec().selector(), old.spec().selector(), errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        self.status().check(errs);
    }

    fn default_fields(&mut self) {
        self.spec_mut().template_mut().default_fields();
    }
}

impl ReplicaSetSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.non_negative(&at.field("replicas"), self.replicas().into());
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        Workload {
            selector: self.selector(),
            template: self.template(),
            names: ("deployment", "ReplicaSet"), // upstream says so of both
        }
        .check(at, errs);
    }
}

impl ReplicaSetStatus {
    fn check(&self, errs: &mut ErrorList) {
        errs.non_negative(
            &FieldPath::STATUS.field("observedGeneration"),
            self.observed_generation(),
        );
        let terminating = self.terminating_replicas().unwrap_or_default();
        errs.non_negative(&FieldPath::STATUS.field("terminatingReplicas"), terminating.into());
        let parts = [
            ("fullyLabeledReplicas", self.fully_labeled_replicas()),
            ("readyReplicas", self.ready_replicas()),
            ("availableReplicas", self.available_replicas()),
        ];
        validate_status_replicas(self.replicas(), &parts, "readyReplicas", errs);
    }
}
