//! apps/v1: DaemonSet.

use std::num::IntErrorKind;

use macros::api;
use object::{
    IntOrString, LabelSelector, Lens, List, ObjectMeta, Time, quote::quote, selector::Selector,
};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, WarningList};

use super::workload::{
    Workload, check_collisions, format_strategy, int_or_percent_value, report_selector_mismatch,
    validate_always_restarting, validate_int_or_percent, validate_percent_max,
    validate_selector_immutable,
};

use crate::{columns, core::PodTemplateSpec};

/// Number of changes of the template; no longer used.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Runs one copy of a pod on every node, or on every selected node.
#[api]
pub struct DaemonSet {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the daemon set.
    #[api(required)]
    spec: DaemonSetSpec,
    /// Observed state, written by the controller.
    status: DaemonSetStatus,
}

#[api]
pub struct DaemonSetSpec {
    /// Label selector of the pods that belong to the object. It must match the labels of the template, and cannot be
    /// changed.
    #[api(no_omitempty, required)]
    selector: Option<LabelSelector>,
    /// Template of the pods, one for each node. Its nodeSelector and affinity choose the nodes.
    template: Must<PodTemplateSpec>,
    /// How existing pods are replaced by new ones when the template changes.
    update_strategy: DaemonSetUpdateStrategy,
    /// Seconds that a pod must be ready, without a crash, before it counts as available.
    min_ready_seconds: i32,
    /// Number of old revisions that are kept for a rollback.
    #[api(tag = 6, default = 10, unpublished_default)]
    revision_history_limit: Option<i32>,
}

#[api]
pub struct DaemonSetUpdateStrategy {
    /// RollingUpdate (default) replaces pods by itself; OnDelete when they are deleted by hand.
    #[api(
        default = "RollingUpdate",
        unpublished_default,
        go_type = "v1.DaemonSetUpdateStrategyType"
    )]
    #[api(enum_values("OnDelete", "RollingUpdate"))]
    type_: String,
    /// Settings of RollingUpdate.
    rolling_update: Option<RollingUpdateDaemonSet>,
}

#[api]
pub struct RollingUpdateDaemonSet {
    /// Largest number or percentage of nodes without an available pod during the update, 1 by default.
    max_unavailable: Option<IntOrString>,
    /// Largest number or percentage of nodes that may run an old and a new pod during the update, 0 by default.
    max_surge: Option<IntOrString>,
}

#[api]
pub struct DaemonSetStatus {
    /// Number of nodes that run the pod and should.
    current_number_scheduled: Must<i32>,
    /// Number of nodes that run the pod and should not.
    number_misscheduled: Must<i32>,
    /// Number of nodes that should run the pod.
    desired_number_scheduled: Must<i32>,
    /// Number of nodes whose pod is ready.
    number_ready: Must<i32>,
    /// Generation of the object that this status was computed from.
    observed_generation: i64,
    /// Number of nodes that run a pod of the current template.
    updated_number_scheduled: i32,
    /// Number of nodes whose pod is available.
    number_available: i32,
    /// Number of nodes that should run an available pod and do not.
    number_unavailable: i32,
    /// Number of hash collisions, used to find a free name for the next revision.
    collision_count: Option<i32>,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<DaemonSetCondition>,
}

#[api]
pub struct DaemonSetCondition {
    /// Type of the condition.
    #[api(no_omitempty, go_type = "v1.DaemonSetConditionType")]
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

impl Kind for DaemonSet {
    const NAMES: ResourceNames = ResourceNames::new("apps", "v1", "DaemonSet", "daemonsets")
        .short(&["ds"])
        .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apps/v1beta2", "extensions/v1beta1"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("DaemonSet").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::new("Desired", "integer", |set, _| {
            set.status().desired_number_scheduled().into()
        }),
        TableColumn::new("Current", "integer", |set, _| {
            set.status().current_number_scheduled().into()
        }),
        TableColumn::new("Ready", "integer", |set, _| set.status().number_ready().into()),
        TableColumn::new("Up-to-date", "integer", |it, _| {
            it.status().updated_number_scheduled().into()
        }),
        TableColumn::new("Available", "integer", |set, _| set.status().number_available().into()),
        TableColumn::text("Node Selector", |set, _| {
            columns::labels(set.spec().template().spec().node_selector())
        }),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |it, _| {
            columns::containers(it.spec().template().spec())
        }),
        TableColumn::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
        TableColumn::wide_text("Selector", |it, _| columns::selector(it.spec().selector())),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let template = self.spec().template();
        if old.is_none_or(|old| old.spec().template() != template) {
            template.warn(&FieldPath::SPEC.field("template"), warnings);
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

    fn misread(&self) -> Option<String> {
        let text = self.metadata().annotations().get(TEMPLATE_GENERATION)?;
        let why = match text.parse::<i64>().err()?.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Some(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    }

    fn default_fields(&mut self) {
        if self.metadata().annotations().get(TEMPLATE_GENERATION).is_none() {
            self.metadata_mut().annotations_mut().insert(TEMPLATE_GENERATION, "0");
        }
        let spec = self.spec_mut();
        spec.template_mut().default_fields();
        let strategy = spec.update_strategy_mut();
        let rolls = strategy.type_() == "RollingUpdate";
        if rolls || strategy.rolling_update().is_some() {
            let rolling = strategy.rolling_update_mut();
            if rolling.max_unavailable().is_none() {
                rolling.set_max_unavailable(i32::from(rolls));
            }
            if rolling.max_surge().is_none() {
                rolling.set_max_surge(0);
            }
        }
    }

    fn prepare_create(&mut self) {
        self.set_status(DaemonSetStatus::new());
        let given = self.template_generation().max(1).to_string();
        self.metadata_mut().annotations_mut().insert(TEMPLATE_GENERATION, given);
    }

    fn prepare_update(&mut self, old: &Self) {
        let changed = self.spec().template() != old.spec().template();
        let generation = old.template_generation().wrapping_add(i64::from(changed)).to_string();
        self.metadata_mut().annotations_mut().insert(TEMPLATE_GENERATION, generation);
    }

    fn prepare_status(&mut self, old: &Self) {
        // it counts the template, which is not written here
        let known = old.metadata().annotations().get(TEMPLATE_GENERATION).unwrap_or("0");
        self.metadata_mut().annotations_mut().insert(TEMPLATE_GENERATION, known);
    }
}

impl DaemonSet {
    fn template_generation(&self) -> i64 {
        let known = self.metadata().annotations().get(TEMPLATE_GENERATION);
        known.and_then(|known| known.parse().ok()).unwrap_or_default()
    }
}

impl DaemonSetSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let template = at.field("template");
        let names = ("daemonset", "DaemonSet");
        if self.selector().is_some() {
            Workload { selector: self.selector(), template: self.template(), names }
                .check_selector(at, errs);
        }
        let selector = Selector::from_label_selector(self.tree().get("selector"));
        let labels = self.template().metadata().labels();
        if selector.is_ok_and(|selector| !selector.matches(labels)) {
            report_selector_mismatch(labels, &template, errs);
        }
        self.template().check(&template, errs);
        validate_always_restarting(self.template(), names.1, &template, errs);
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        self.update_strategy().check(&at.field("updateStrategy"), errs);
        errs.non_negative(&at.field("revisionHistoryLimit"), self.revision_history_limit().into());
    }
}

impl DaemonSetUpdateStrategy {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.type_(), self.rolling_update()) {
            ("OnDelete", _) | ("RollingUpdate", None) => {}
            ("RollingUpdate", Some(update)) => update.check(&at.field("rollingUpdate"), errs),
            _ => errs.not_supported_formatted(at, self.shown(), &["RollingUpdate", "OnDelete"]),
        }
    }

    fn shown(&self) -> String {
        let rolling = self.rolling_update().map(|it| (it.max_unavailable(), it.max_surge()));
        format_strategy(self.type_(), rolling)
    }
}

impl RollingUpdateDaemonSet {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let unavailable = self.max_unavailable().unwrap_or(IntOrString::Int(0));
        let surge = self.max_surge().unwrap_or(IntOrString::Int(0));
        for (name, share) in [("maxUnavailable", &unavailable), ("maxSurge", &surge)] {
            validate_int_or_percent(share, &at.field(name), errs);
            validate_percent_max(share, &at.field(name), errs);
        }
        match (int_or_percent_value(&unavailable) != 0, int_or_percent_value(&surge) != 0) {
            (true, true) => {
                let why = "may not be set when maxUnavailable is non-zero";
                errs.invalid(&at.field("maxSurge"), surge, why);
            }
            (false, false) => {
                errs.required(&at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
            }
            _ => {}
        }
    }
}

impl DaemonSetStatus {
    fn check(&self, errs: &mut ErrorList) {
        errs.non_negative(
            &FieldPath::STATUS.field("observedGeneration"),
            self.observed_generation(),
        );
        for (name, n) in [
            ("currentNumberScheduled", self.current_number_scheduled()),
            ("numberMisscheduled", self.number_misscheduled()),
            ("desiredNumberScheduled", self.desired_number_scheduled()),
            ("numberReady", self.number_ready()),
            ("updatedNumberScheduled", self.updated_number_scheduled()),
            ("numberAvailable", self.number_available()),
            ("numberUnavailable", self.number_unavailable()),
        ] {
            errs.non_negative(&FieldPath::STATUS.field(name), n.into());
        }
    }
}
