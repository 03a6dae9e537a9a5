//! apps/v1: Deployment.

use crate::advice::CommonWarnings;
use macros::api;
use object::{IntOrString, LabelSelector, List, ObjectMeta, Time};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList};

use super::workload::{
    Workload, check_collisions, format_strategy, int_or_percent_value, validate_int_or_percent,
    validate_percent_max, validate_selector_immutable, validate_status_replicas,
};

use crate::{autoscaling::v1::SCALE, columns, generation};

use crate::core::PodTemplateSpec;

/// Runs a number of identical pods, and updates them step by step.
#[api]
pub struct Deployment {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the deployment.
    #[api(required)]
    spec: DeploymentSpec,
    /// Observed state, written by the controller.
    status: DeploymentStatus,
}

#[api]
pub struct DeploymentSpec {
    /// Desired number of pods, 1 by default.
    #[api(default = 1, unpublished_default)]
    replicas: Option<i32>,
    /// Label selector of the pods that belong to the object. It must match the labels of the template, and cannot be
    /// changed.
    #[api(no_omitempty, required)]
    selector: Option<LabelSelector>,
    /// Template of the pods.
    template: Must<PodTemplateSpec>,
    /// How existing pods are replaced by new ones when the template changes.
    #[api(retain_keys)]
    strategy: DeploymentStrategy,
    /// Seconds that a pod must be ready, without a crash, before it counts as available.
    min_ready_seconds: i32,
    /// Number of old ReplicaSets that are kept for a rollback, 10 by default.
    #[api(default = 10, unpublished_default)]
    revision_history_limit: Option<i32>,
    /// Whether changes of the template are not rolled out for now.
    paused: bool,
    /// Seconds without progress after which the rollout is reported as failed, 600 by default.
    #[api(tag = 9, default = 600, unpublished_default)]
    progress_deadline_seconds: Option<i32>,
}

#[api]
pub struct DeploymentStrategy {
    /// RollingUpdate (default) replaces pods step by step; Recreate ends all old pods first.
    #[api(default = "RollingUpdate", unpublished_default, go_type = "v1.DeploymentStrategyType")]
    #[api(enum_values("Recreate", "RollingUpdate"))]
    type_: String,
    /// Settings of RollingUpdate.
    rolling_update: Option<RollingUpdateDeployment>,
}

#[api]
pub struct RollingUpdateDeployment {
    /// Largest number or percentage of pods below the desired number during the update, 25% by default.
    max_unavailable: Option<IntOrString>,
    /// Largest number or percentage of pods above the desired number during the update, 25% by default.
    max_surge: Option<IntOrString>,
}

#[api]
pub struct DeploymentStatus {
    /// Generation of the object that this status was computed from.
    observed_generation: i64,
    /// Number of pods of the deployment that are not terminating.
    replicas: i32,
    /// Number of pods of the current template.
    updated_replicas: i32,
    /// Number of pods that are ready.
    #[api(tag = 7)]
    ready_replicas: i32,
    /// Number of pods that have been ready for minReadySeconds.
    #[api(tag = 4)]
    available_replicas: i32,
    /// Number of pods that are missing until the desired number is available.
    unavailable_replicas: i32,
    /// Number of pods that are terminating.
    #[api(tag = 9)]
    terminating_replicas: Option<i32>,
    /// Current conditions of the object.
    #[api(tag = 6, keys("type"), merge, merge_key = "type")]
    conditions: List<DeploymentCondition>,
    /// Number of hash collisions, used to find a free name for the next ReplicaSet.
    #[api(tag = 8)]
    collision_count: Option<i32>,
}

#[api]
pub struct DeploymentCondition {
    /// Type of the condition.
    #[api(no_omitempty, go_type = "v1.DeploymentConditionType")]
    type_: String,
    /// Status of the condition: True, False or Unknown.
    #[api(no_omitempty, go_type = "v1.ConditionStatus")]
    status: String,
    /// When the condition was last updated.
    #[api(tag = 6)]
    last_update_time: Time,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    #[api(tag = 4)]
    reason: String,
    /// Human-readable details.
    message: String,
}

impl Kind for Deployment {
    const NAMES: ResourceNames = ResourceNames::new("apps", "v1", "Deployment", "deployments")
        .short(&["deploy"])
        .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"];
    const STATUS_KEEPS: &'static [&'static str] = &["labels"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[
        SCALE,
        Subresource::status("Deployment").resetting(&[&["spec"], &["metadata", "labels"]]),
    ];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Ready", |this, _| {
            format!("{}/{}", this.status().ready_replicas(), this.spec().replicas()).into()
        }),
        TableColumn::text("Up-to-date", |this, _| this.status().updated_replicas().into()),
        TableColumn::text("Available", |this, _| this.status().available_replicas().into()),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |it, _| {
            columns::containers(it.spec().template().spec())
        }),
        TableColumn::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
        TableColumn::wide_text("Selector", |this, _| {
            match columns::selector(this.spec().selector()) {
                none if none.as_str() == Some(columns::NONE) => "".into(),
                text => text,
            }
        }),
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

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        self.status().check(errs);
        check_collisions(self.status().collision_count(), old.status().collision_count(), errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        spec.template_mut().default_fields();
        let strategy = spec.strategy_mut();
        if strategy.type_() == "RollingUpdate" {
            let rolling = strategy.rolling_update_mut();
            if rolling.max_unavailable().is_none() {
                rolling.set_max_unavailable("25%");
            }
            if rolling.max_surge().is_none() {
                rolling.set_max_surge("25%");
            }
        }
    }

    fn prepare_update(&mut self, old: &Self) {
        // Annotations of a deployment are copied to its replica sets.
        let changed = self.spec() != old.spec()
            || self.metadata().annotations() != old.metadata().annotations();
        generation::bump_if(self.metadata_mut(), old.metadata(), changed);
    }

    fn prepare_status(&mut self, old: &Self) {
        self.metadata_mut().set_labels(old.metadata().labels().clone());
    }
}

impl DeploymentSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        errs.non_negative(&at.field("replicas"), self.replicas().into());
        Workload {
            selector: self.selector(),
            template: self.template(),
            names: ("deployment", "ReplicaSet"),
        }
        .check(at, errs);
        self.strategy().check(&at.field("strategy"), errs);
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        errs.non_negative(&at.field("revisionHistoryLimit"), self.revision_history_limit().into());
        let (deadline, at) =
            (self.progress_deadline_seconds(), at.field("progressDeadlineSeconds"));
        errs.non_negative(&at, deadline.into());
        if deadline <= self.min_ready_seconds() {
            errs.invalid(&at, deadline, "must be greater than minReadySeconds");
        }
    }
}

impl DeploymentStrategy {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let rolling = at.field("rollingUpdate");
        match (self.type_(), self.rolling_update()) {
            ("Recreate", Some(_)) => {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                errs.forbidden(&rolling, why);
            }
            ("RollingUpdate", Some(update)) => update.check(&rolling, errs),
            ("Recreate" | "RollingUpdate", None) => {}
            _ => errs.not_supported_formatted(at, self.shown(), &["Recreate", "RollingUpdate"]),
        }
    }

    fn shown(&self) -> String {
        let rolling = self.rolling_update().map(|it| (it.max_unavailable(), it.max_surge()));
        format_strategy(self.type_(), rolling)
    }
}

impl RollingUpdateDeployment {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let unavailable = self.max_unavailable().unwrap_or(IntOrString::Int(0));
        let surge = self.max_surge().unwrap_or(IntOrString::Int(0));
        validate_int_or_percent(&unavailable, &at.field("maxUnavailable"), errs);
        validate_int_or_percent(&surge, &at.field("maxSurge"), errs);
        if int_or_percent_value(&unavailable) == 0 && int_or_percent_value(&surge) == 0 {
            let why = "may not be 0 when `maxSurge` is 0";
            errs.invalid(&at.field("maxUnavailable"), unavailable.clone(), why);
        }
        validate_percent_max(&unavailable, &at.field("maxUnavailable"), errs);
    }
}

impl DeploymentStatus {
    fn check(&self, errs: &mut ErrorList) {
        let at = FieldPath::STATUS;
        errs.non_negative(&at.field("observedGeneration"), self.observed_generation());
        errs.non_negative(&at.field("unavailableReplicas"), self.unavailable_replicas().into());
        let terminating = self.terminating_replicas().unwrap_or_default();
        errs.non_negative(&at.field("terminatingReplicas"), terminating.into());
        let parts = [
            ("updatedReplicas", self.updated_replicas()),
            ("readyReplicas", self.ready_replicas()),
            ("availableReplicas", self.available_replicas()),
        ];
        validate_status_replicas(self.replicas(), &parts, "readyReplicas", errs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json, update_errors};

    fn web() -> Deployment {
        created_from_json(
            r#"{"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
        )
    }

    #[test]
    fn rolls_by_a_quarter() {
        let deployment = web();
        let rolling = deployment.spec().strategy().rolling_update().expect("filled in");
        assert_eq!(rolling.max_surge(), Some("25%".into()));
        assert_eq!(deployment.spec().replicas(), 1);
        assert_eq!(deployment.spec().progress_deadline_seconds(), 600);
        assert!(create_errors(&deployment).is_empty(), "{:?}", create_errors(&deployment));
    }

    #[test]
    fn selects_what_it_makes_for_ever() {
        let old = web();
        let mut new = old.clone();
        new.spec_mut().template_mut().metadata_mut().set_labels([("app", "b")]);
        let found = create_errors(&new);
        assert_eq!(
            found,
            ["spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not \
              match template `labels`"]
        );
        new.spec_mut().selector_mut().set_match_labels([("app", "b")]);
        assert_eq!(
            update_errors(&new, &old),
            ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"]
        );
    }
}
