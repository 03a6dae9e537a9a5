//! core/v1: ReplicationController.

use crate::{
    advice::CommonWarnings,
    apps::workload::{check_labels, validate_always_restarting, validate_status_replicas},
    autoscaling::v1::SCALE,
    columns,
};
use macros::api;
use object::{List, Map, ObjectMeta, Time, selector::Selector};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, StorageConfig, Subresource,
    TableColumn, ValidateName, WarningList, name_validation,
};

use super::PodTemplateSpec;

/// Keeps a number of identical pods running. Superseded by ReplicaSet and Deployment.
#[api]
pub struct ReplicationController {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: ReplicationControllerSpec,
    /// Observed state.
    status: ReplicationControllerStatus,
}

#[api]
pub struct ReplicationControllerSpec {
    /// Desired number of pods.
    #[api(default = 1)]
    replicas: Option<i32>,
    /// Seconds that a pod must be ready, without a crash, before it counts as available.
    #[api(tag = 4, default = 0)]
    min_ready_seconds: i32,
    /// Labels of the pods that belong to the controller.
    #[api(tag = 2, atomic)]
    selector: Map<String>,
    /// Template of the pods.
    template: Option<PodTemplateSpec>,
}

#[api]
pub struct ReplicationControllerStatus {
    /// Number of pods that exist.
    replicas: Must<i32>,
    /// Number of pods that have all labels of the template.
    fully_labeled_replicas: i32,
    /// Number of pods that are ready.
    #[api(tag = 4)]
    ready_replicas: i32,
    /// Number of pods that have been ready for minReadySeconds.
    available_replicas: i32,
    /// Generation of the object that this status was computed from.
    #[api(tag = 3)]
    observed_generation: i64,
    /// Current conditions of the object.
    #[api(tag = 6, keys("type"), merge, merge_key = "type")]
    conditions: List<ReplicationControllerCondition>,
}

#[api]
pub struct ReplicationControllerCondition {
    /// Type of the condition.
    #[api(go_type = "v1.ReplicationControllerConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

impl Kind for ReplicationController {
    const ORPHANS: Option<&'static str> = Some("");
    const NAMES: ResourceNames =
        ResourceNames::new("", "v1", "ReplicationController", "replicationcontrollers")
            .short(&["rc"])
            .categories(&["all"]);
    const STORAGE: StorageConfig = StorageConfig::new("controllers", "v1");
    const GENERATION: bool = true;
    const NAME: ValidateName = name_validation::long_name;
    const SUBRESOURCES: &'static [Subresource] =
        &[SCALE, Subresource::status("ReplicationController").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Desired", "integer", |this, _| this.spec().replicas().into()),
        TableColumn::new("Current", "integer", |this, _| this.status().replicas().into()),
        TableColumn::new("Ready", "integer", |this, _| this.status().ready_replicas().into()),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |this, _| {
            this.spec().template().map_or("".into(), |t| columns::containers(t.spec()))
        }),
        TableColumn::wide_text("Images", |this, _| {
            this.spec().template().map_or("".into(), |t| columns::images(t.spec()))
        }),
        TableColumn::wide_text("Selector", |this, _| columns::labels(this.spec().selector())),
    ];
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("status.replicas", |this| {
            this.status().replicas().to_string()
        })];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let is_other = warnings.pod_owner_name(self.metadata(), old.map(Self::metadata));
        // An update is told of what was there before.
        if let Some(template) = old.unwrap_or(self).spec().template().filter(|_| is_other) {
            template.warn(&FieldPath::SPEC.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        let (status, at) = (self.status(), FieldPath::STATUS);
        errs.non_negative(&at.field("observedGeneration"), status.observed_generation());
        let parts = [
            ("fullyLabeledReplicas", status.fully_labeled_replicas()),
            ("readyReplicas", status.ready_replicas()),
            ("availableReplicas", status.available_replicas()),
        ];
        validate_status_replicas(status.replicas(), &parts, "readyReplicas", errs);
    }

    fn default_fields(&mut self) {
        if self.spec().template().is_none() {
            return;
        }
        let template = self.spec_mut().template_mut();
        template.default_fields();
        let labels = template.metadata().labels().clone();
        if self.spec().selector().is_empty() {
            self.spec_mut().set_selector(labels.clone());
        }
        if self.metadata().labels().is_empty() {
            self.metadata_mut().set_labels(labels);
        }
    }
}

impl ReplicationControllerSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        if self.selector().is_empty() {
            errs.required(&at.field("selector"), "");
        }
        errs.non_negative(&at.field("replicas"), self.replicas().into());
        let at = at.field("template");
        let Some(template) = self.template() else { return errs.required(&at, "") };
        let selector = Selector::from_labels(self.selector().iter());
        check_labels(&selector, template.metadata().labels(), &at, errs);
        template.check(&at, errs);
        validate_always_restarting(template, "ReplicationController", &at, errs);
    }
}
