//! apps/v1: StatefulSet.

use std::collections::BTreeSet;

use crate::{
    autoscaling::v1::SCALE,
    columns,
    core::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume},
    generation::changed,
    rules::{ValidateField, format_go_fields, format_selector, or_null},
    shown::format_go_list,
};
use macros::api;
use object::{IntOrString, LabelSelector, Lens, List, ObjectMeta, Time, selector::Selector};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn, ValidateName, WarningList,
    name_validation,
};

use super::workload::{
    Workload, check_collisions, check_labels, int_or_percent_value, validate_always_restarting,
    validate_int_or_percent, validate_percent_max, validate_selector_immutable,
    validate_status_replicas,
};

/// Runs pods that each keep their name and their volumes.
#[api]
pub struct StatefulSet {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the stateful set.
    #[api(required)]
    spec: StatefulSetSpec,
    /// Observed state, written by the controller.
    status: StatefulSetStatus,
}

#[api]
pub struct StatefulSetSpec {
    /// Desired number of pods.
    #[api(default = 1, unpublished_default)]
    replicas: Option<i32>,
    /// Label selector of the pods that belong to the object. It must match the labels of the template, and cannot be
    /// changed.
    #[api(no_omitempty, required)]
    selector: Option<LabelSelector>,
    /// Template of the pods.
    template: Must<PodTemplateSpec>,
    /// PersistentVolumeClaims that are created for each pod, and kept when the pod is replaced.
    volume_claim_templates: List<PersistentVolumeClaim>,
    /// Headless Service that gives the pods their DNS names, as POD.SERVICE.NAMESPACE.svc.
    #[api(no_omitempty)]
    service_name: String,
    /// OrderedReady (default) creates and deletes pods one at a time; Parallel all at once.
    #[api(default = "OrderedReady", unpublished_default, go_type = "v1.PodManagementPolicyType")]
    #[api(enum_values("OrderedReady", "Parallel"))]
    pod_management_policy: String,
    /// How existing pods are replaced by new ones when the template changes.
    update_strategy: StatefulSetUpdateStrategy,
    /// Number of old revisions that are kept for a rollback.
    #[api(default = 10, unpublished_default)]
    revision_history_limit: Option<i32>,
    /// Seconds that a pod must be ready, without a crash, before it counts as available.
    min_ready_seconds: i32,
    /// What becomes of the claims when the set, or a pod of it, goes.
    persistent_volume_claim_retention_policy:
        Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    /// How the pods are numbered.
    ordinals: Option<StatefulSetOrdinals>,
}

#[api]
pub struct StatefulSetUpdateStrategy {
    /// RollingUpdate replaces pods from the last to the first, OnDelete deleted ones only.
    #[api(
        go_type = "v1.StatefulSetUpdateStrategyType",
        enum_values("OnDelete", "Recreate", "RollingUpdate")
    )]
    type_: String,
    /// Settings of RollingUpdate.
    rolling_update: Option<RollingUpdateStatefulSetStrategy>,
}

#[api]
pub struct RollingUpdateStatefulSetStrategy {
    /// Only pods with this ordinal or a higher one are updated.
    partition: Option<i32>,
    /// Largest number or percentage of pods that may be unavailable during the update.
    max_unavailable: Option<IntOrString>,
}

#[api]
pub struct StatefulSetPersistentVolumeClaimRetentionPolicy {
    /// What happens to the claims when the stateful set is deleted: Retain (default) or Delete.
    #[api(
        default = "Retain",
        unpublished_default,
        go_type = "v1.PersistentVolumeClaimRetentionPolicyType"
    )]
    when_deleted: String,
    /// What happens to the claims of pods that are scaled away: Retain (default) or Delete.
    #[api(
        default = "Retain",
        unpublished_default,
        go_type = "v1.PersistentVolumeClaimRetentionPolicyType"
    )]
    when_scaled: String,
}

#[api]
pub struct StatefulSetOrdinals {
    /// Ordinal of the first pod, 0 by default.
    #[api(no_omitempty)]
    start: i32,
}

#[api]
pub struct StatefulSetStatus {
    /// Generation of the object that this status was computed from.
    observed_generation: i64,
    /// Number of pods that exist.
    replicas: Must<i32>,
    /// Number of pods that are ready.
    ready_replicas: i32,
    /// Number of pods of the current revision.
    current_replicas: i32,
    /// Number of pods of the update revision.
    updated_replicas: i32,
    /// Revision of the pods before the update.
    current_revision: String,
    /// Revision of the pods after the update.
    update_revision: String,
    /// Number of hash collisions, used to find a free name for the next revision.
    #[api(tag = 9)]
    collision_count: Option<i32>,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<StatefulSetCondition>,
    /// Number of pods that have been ready for minReadySeconds.
    #[api(no_omitempty)]
    available_replicas: i32,
}

#[api]
pub struct StatefulSetCondition {
    /// Type of the condition.
    #[api(no_omitempty, go_type = "v1.StatefulSetConditionType")]
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

impl Kind for StatefulSet {
    const NAMES: ResourceNames = ResourceNames::new("apps", "v1", "StatefulSet", "statefulsets")
        .short(&["sts"])
        .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["apps/v1beta1", "apps/v1beta2"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[SCALE, Subresource::status("StatefulSet").writes_metadata()];
    const NAME: ValidateName = name_validation::dns_label;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Ready", |set, _| {
            format!("{}/{}", set.status().ready_replicas(), set.spec().replicas()).into()
        }),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |it, _| {
            columns::containers(it.spec().template().spec())
        }),
        TableColumn::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
    ];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        let (spec, at) = (self.spec(), FieldPath::SPEC);
        if changed(self.metadata(), old.map(Self::metadata)) {
            spec.template().warn(&at.field("template"), warnings);
        }
        at.field("volumeClaimTemplates").for_each_item(
            spec.volume_claim_templates().iter(),
            |claim, at| {
                // Errors of an update have another field path.
                let at = if old.is_some() { at.field("Spec") } else { *at };
                claim.spec().warn(&at, warnings);
            },
        );
        if spec.revision_history_limit() < 0 {
            let why = "a negative value retains all historical revisions; a value >= 0 is \
                       recommended";
            warnings.push_at(&at.field("revisionHistoryLimit"), why);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
        if !self.spec().service_name().is_empty() {
            errs.label(&FieldPath::SPEC.field("serviceName"), self.spec().service_name());
        }
        for (i, claim) in self.spec().volume_claim_templates().iter().enumerate() {
            claim
                .spec()
                .check(&FieldPath::SPEC.field("volumeClaimTemplates").index(i).field("spec"), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
        validate_selector_immutable(self.spec().selector(), old.spec().selector(), errs);
        let claims = |set: &'_ Self| set.spec().volume_claim_templates().clone();
        errs.immutable_formatted(
            &FieldPath::SPEC.field("volumeClaimTemplates"),
            (claims(self), claims(old)),
            |new| format_go_list(&new),
        );
        for name in ["serviceName", "podManagementPolicy"] {
            let (new, old) = (self.spec().tree().get(name), old.spec().tree().get(name));
            errs.immutable(&FieldPath::SPEC.field(name), new, old);
        }
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        self.status().check(errs);
        check_collisions(self.status().collision_count(), old.status().collision_count(), errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        spec.template_mut().default_fields();
        let strategy = spec.update_strategy_mut();
        if strategy.type_().is_empty() {
            strategy.set_type("RollingUpdate");
            if strategy.rolling_update().is_none() {
                strategy.set_rolling_update(RollingUpdateStatefulSetStrategy::new());
            }
        }
        if strategy.type_() == "RollingUpdate" && strategy.rolling_update().is_some() {
            let rolling = strategy.rolling_update_mut();
            if rolling.partition().is_none() {
                rolling.set_partition(0);
            }
            if rolling.max_unavailable().is_none() {
                rolling.set_max_unavailable(1);
            }
        }
        let retention = spec.persistent_volume_claim_retention_policy_mut();
        if retention.tree().get("whenDeleted").is_null() {
            retention.set_when_deleted("Retain");
        }
        if retention.tree().get("whenScaled").is_null() {
            retention.set_when_scaled("Retain");
        }
        if !spec.volume_claim_templates().is_empty() {
            for claim in spec.volume_claim_templates_mut().iter_mut() {
                claim.tell_kind();
            }
        }
    }
}

impl StatefulSetSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let policy = self.pod_management_policy();
        if !matches!(policy, "OrderedReady" | "Parallel") {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errs.invalid(&at.field("podManagementPolicy"), policy, why);
        }
        self.update_strategy().check(&at.field("updateStrategy"), errs);
        if let Some(retention) = self.persistent_volume_claim_retention_policy() {
            let at = at.field("persistentVolumeClaimRetentionPolicy");
            let known = ["Retain", "Delete"];
            errs.one_of(&at.field("whenDeleted"), retention.when_deleted(), &known);
            errs.one_of(&at.field("whenScaled"), retention.when_scaled(), &known);
        }
        errs.non_negative(&at.field("replicas"), self.replicas().into());
        errs.non_negative(&at.field("minReadySeconds"), self.min_ready_seconds().into());
        if let Some(ordinals) = self.ordinals() {
            errs.non_negative(&at.field("ordinals.start"), ordinals.start().into());
        }
        self.check_template(at, errs);
    }

    /// A pod gets its name, its domain and some of its volumes from the set.
    fn check_template(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut template = self.template().clone();
        template.spec_mut().set_subdomain("");
        template.spec_mut().set_hostname("");
        let claims = self.volume_claim_templates();
        let names: BTreeSet<_> = claims.iter().map(|claim| claim.metadata().name()).collect();
        let volumes = names.iter().copied().map(|name| {
            let mut volume = Volume::new().with_name(name);
            let source = PersistentVolumeClaimVolumeSource::new().with_claim_name(name);
            volume.volume_source_mut().set_persistent_volume_claim(source);
            volume
        });
        let own = |volume: &&Volume| !names.contains(volume.name());
        let rest = self.template().spec().volumes().iter().filter(own).cloned();
        template.spec_mut().set_volumes(volumes.chain(rest).collect::<List<_>>());
        let names = ("statefulset", "StatefulSet");
        Workload { selector: self.selector(), template: &template, names }.check_selector(at, errs);
        if let Ok(selector) = Selector::from_label_selector(self.tree().get("selector")) {
            let at = at.field("template");
            check_labels(&selector, template.metadata().labels(), &at, errs);
            template.check(&at, errs);
        } else {
            let shown = self.selector().map(format_selector).unwrap_or_default();
            errs.invalid_formatted(&at.field("selector"), shown, "");
        }
        validate_always_restarting(&template, names.1, &at.field("template"), errs);
    }
}

impl StatefulSetUpdateStrategy {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        match (self.type_(), self.rolling_update()) {
            ("", _) => errs.required(at, ""),
            ("OnDelete", Some(update)) => {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                errs.invalid_formatted(&at.field("rollingUpdate"), update.shown(), why);
            }
            ("RollingUpdate", Some(update)) => update.check(&at.field("rollingUpdate"), errs),
            ("OnDelete" | "RollingUpdate", None) => {}
            _ => {
                let rolling = self.rolling_update().map(RollingUpdateStatefulSetStrategy::shown);
                let shown = format!(
                    "{{\"Type\":{:?},\"RollingUpdate\":{}}}",
                    self.type_(),
                    rolling.unwrap_or_else(|| "null".into())
                );
                errs.invalid_formatted(at, shown, "must be 'RollingUpdate' or 'OnDelete'");
            }
        }
    }
}

impl RollingUpdateStatefulSetStrategy {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let partition = self.partition().unwrap_or_default();
        errs.non_negative(&at.field("partition"), partition.into());
        if let Some(share) = self.max_unavailable() {
            let at = at.field("maxUnavailable");
            validate_int_or_percent(&share, &at, errs);
            if int_or_percent_value(&share) == 0 {
                errs.invalid(&at, share.clone(), "cannot be 0");
            }
            validate_percent_max(&share, &at, errs);
        }
    }

    /// As Go prints it.
    fn shown(&self) -> String {
        format_go_fields(&[
            ("Partition", self.partition().unwrap_or_default().into()),
            ("MaxUnavailable", or_null(self.max_unavailable())),
        ])
    }
}

impl StatefulSetStatus {
    fn check(&self, errs: &mut ErrorList) {
        errs.non_negative(
            &FieldPath::STATUS.field("observedGeneration"),
            self.observed_generation(),
        );
        let parts = [
            ("readyReplicas", self.ready_replicas()),
            ("currentReplicas", self.current_replicas()),
            ("updatedReplicas", self.updated_replicas()),
            ("availableReplicas", self.available_replicas()),
        ];
        validate_status_replicas(self.replicas(), &parts, "status.readyReplicas", errs);
    }
}
