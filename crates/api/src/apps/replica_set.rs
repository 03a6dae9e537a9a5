//! apps/v1: ReplicaSet.

use crate::{advice::Advice, columns, core::PodTemplateSpec};
use macros::api;
use object::{LabelSelector, List, ObjectMeta, Time};
use schema::{Column, Errors, Kind, Names, Path, Subresource, Warnings};

use super::workload::{Workload, check_counts, check_kept};

/// Keeps a number of like pods.
#[api]
pub struct ReplicaSet {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What the set should be.
    #[api(required)]
    spec: ReplicaSetSpec,
    /// How far it is.
    status: ReplicaSetStatus,
}

#[api]
pub struct ReplicaSetSpec {
    /// How many pods there should be.
    #[api(default = 1, implied)]
    replicas: Option<i32>,
    /// How long a pod must be ready before it counts as available.
    #[api(tag = 4)]
    min_ready_seconds: i32,
    /// Which pods belong to it.
    #[api(tag = 2, always, required)]
    selector: Option<LabelSelector>,
    /// What the pods are made from.
    template: PodTemplateSpec,
}

#[api]
pub struct ReplicaSetStatus {
    /// How many pods there are.
    replicas: Must<i32>,
    /// How many of them have all labels of the template.
    fully_labeled_replicas: i32,
    /// How many of them are ready.
    #[api(tag = 4)]
    ready_replicas: i32,
    /// How many of them have been ready for long enough.
    available_replicas: i32,
    /// How many pods are on their way out.
    #[api(tag = 7)]
    terminating_replicas: Option<i32>,
    /// The generation of the object that the status is about.
    #[api(tag = 3)]
    observed_generation: i64,
    /// What holds of the object at present.
    #[api(tag = 6, keys("type"), merge, merge_key = "type")]
    conditions: List<ReplicaSetCondition>,
}

#[api]
pub struct ReplicaSetCondition {
    /// Which condition this is.
    #[api(always, go = "v1.ReplicaSetConditionType")]
    type_: String,
    /// Whether it holds: True, False or Unknown.
    #[api(always, go = "v1.ConditionStatus")]
    status: String,
    /// When the status last changed.
    last_transition_time: Time,
    /// Why, as one word for programs.
    reason: String,
    /// Why, as a sentence for people.
    message: String,
}

impl Kind for ReplicaSet {
    const NAMES: Names =
        Names::new("apps", "v1", "ReplicaSet", "replicasets").short(&["rs"]).categories(&["all"]);
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::SCALE, Subresource::status("ReplicaSet")];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Desired", "integer", |set, _| set.spec().replicas().into()),
        Column::new("Current", "integer", |set, _| set.status().replicas().into()),
        Column::new("Ready", "integer", |set, _| set.status().ready_replicas().into()),
        Column::AGE,
        Column::wide_text("Containers", |it, _| columns::containers(it.spec().template().spec())),
        Column::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
        Column::wide_text("Selector", |it, _| columns::selector(it.spec().selector())),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut Warnings) {
        if warnings.names_pods(self.metadata(), old.map(Self::metadata)) {
            self.spec().template().warn(&Path::SPEC.field("template"), warnings);
        }
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(&Path::SPEC, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.spec().check(&Path::SPEC, errs);
        check_kept(self.spec().selector(), old.spec().selector(), errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        self.status().check(errs);
    }

    fn default_fields(&mut self) {
        self.spec_mut().template_mut().default_fields();
    }
}

impl ReplicaSetSpec {
    fn check(&self, at: &Path, errs: &mut Errors) {
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
    fn check(&self, errs: &mut Errors) {
        errs.non_negative(&Path::STATUS.field("observedGeneration"), self.observed_generation());
        let terminating = self.terminating_replicas().unwrap_or_default();
        errs.non_negative(&Path::STATUS.field("terminatingReplicas"), terminating.into());
        let parts = [
            ("fullyLabeledReplicas", self.fully_labeled_replicas()),
            ("readyReplicas", self.ready_replicas()),
            ("availableReplicas", self.available_replicas()),
        ];
        check_counts(self.replicas(), &parts, "readyReplicas", errs);
    }
}
