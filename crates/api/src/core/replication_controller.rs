//! core/v1: ReplicationController.

use crate::{
    advice::Advice,
    apps::workload::{check_counts, check_endless, check_labels},
    columns,
};
use macros::api;
use object::{List, Map, ObjectMeta, Time, selector::Selector};
use schema::{
    Column, Errors, Index, Kind, NameRule, Names, Path, Storage, Subresource, Warnings, names,
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
    #[api(go = "v1.ReplicationControllerConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go = "v1.ConditionStatus")]
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
    const NAMES: Names = Names::new("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .categories(&["all"]);
    const STORAGE: Storage = Storage::new("controllers", "v1");
    const GENERATION: bool = true;
    const NAME: NameRule = names::long_name;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::SCALE, Subresource::status("ReplicationController")];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Desired", "integer", |this, _| this.spec().replicas().into()),
        Column::new("Current", "integer", |this, _| this.status().replicas().into()),
        Column::new("Ready", "integer", |this, _| this.status().ready_replicas().into()),
        Column::AGE,
        Column::wide_text("Containers", |this, _| {
            this.spec().template().map_or("".into(), |t| columns::containers(t.spec()))
        }),
        Column::wide_text("Images", |this, _| {
            this.spec().template().map_or("".into(), |t| columns::images(t.spec()))
        }),
        Column::wide_text("Selector", |this, _| columns::labels(this.spec().selector())),
    ];
    const INDEXES: &'static [Index<Self>] =
        &[Index::field("status.replicas", |this| this.status().replicas().to_string())];

    fn warn(&self, old: Option<&Self>, warnings: &mut Warnings) {
        let is_other = warnings.names_pods(self.metadata(), old.map(Self::metadata));
        // An update is told of what was there before.
        if let Some(template) = old.unwrap_or(self).spec().template().filter(|_| is_other) {
            template.warn(&Path::SPEC.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(&Path::SPEC, errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        let (status, at) = (self.status(), Path::STATUS);
        errs.non_negative(&at.field("observedGeneration"), status.observed_generation());
        let parts = [
            ("fullyLabeledReplicas", status.fully_labeled_replicas()),
            ("readyReplicas", status.ready_replicas()),
            ("availableReplicas", status.available_replicas()),
        ];
        check_counts(status.replicas(), &parts, "readyReplicas", errs);
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
    fn check(&self, at: &Path, errs: &mut Errors) {
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        if self.selector().is_empty() {
            errs.required(&at.field("selector"), "");
        }
        errs.non_negative(&at.field("replicas"), self.replicas().into());
        let at = at.field("template");
        let Some(template) = self.template() else { return errs.required(&at, "") };
        let selector = Selector::labels(self.selector().iter());
        check_labels(&selector, template.metadata().labels(), &at, errs);
        template.check(&at, errs);
        check_endless(template, "ReplicationController", &at, errs);
    }
}
