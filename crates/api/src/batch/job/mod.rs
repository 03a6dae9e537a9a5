//! batch/v1: Job.

mod rules;
mod status_rules;

use crate::{
    advice::CommonWarnings,
    columns,
    core::PodTemplateSpec,
    scheduling::{
        WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim,
        WorkloadPodGroupSchedulingConstraints, WorkloadPodGroupSchedulingPolicy,
    },
};
use macros::api;
use object::{LabelSelector, List, ObjectMeta, Text, Time};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, SelectableField, Subresource, TableColumn,
    WarningList, human_duration,
};

/// Runs pods until a number of them have completed successfully.
#[api]
pub struct Job {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the job.
    spec: JobSpec,
    /// Observed state, written by the controller.
    status: JobStatus,
}

#[api]
pub struct JobSpec {
    /// Largest number of pods that run at the same time, 1 by default.
    parallelism: Option<i32>,
    /// Number of pods that must succeed. If not set, one success completes the job.
    completions: Option<i32>,
    /// Seconds after its start at which the job is ended as failed.
    active_deadline_seconds: Option<i64>,
    /// Rules that decide what the failure of a pod means for the job.
    #[api(tag = 11)]
    pod_failure_policy: Option<PodFailurePolicy>,
    /// Rules by which an indexed job succeeds before all of its indexes have.
    #[api(tag = 16)]
    success_policy: Option<SuccessPolicy>,
    /// Number of retries before the job is marked as failed, 6 by default.
    #[api(tag = 7)]
    backoff_limit: Option<i32>,
    /// Number of retries of each index before that index is marked as failed.
    #[api(tag = 12)]
    backoff_limit_per_index: Option<i32>,
    /// Number of failed indexes above which the job is marked as failed.
    max_failed_indexes: Option<i32>,
    /// Label selector of the pods. Normally set by the server.
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    /// Whether the selector and the labels of the pods were chosen by the user.
    manual_selector: Option<bool>,
    /// Template of the pods.
    template: Must<PodTemplateSpec>,
    /// Seconds after its end at which the job is deleted. If not set, it is kept.
    #[api(tag = 8)]
    ttl_seconds_after_finished: Option<i32>,
    /// NonIndexed (default), or Indexed to give each completion an index.
    #[api(go_type = "v1.CompletionMode", enum_values("Indexed", "NonIndexed"))]
    completion_mode: Option<String>,
    /// Whether the job is suspended: its pods are deleted, and none are created.
    suspend: Option<bool>,
    /// When a replacement is created: TerminatingOrFailed (default) or only when the pod has Failed.
    #[api(
        tag = 14,
        go_type = "v1.PodReplacementPolicy",
        enum_values("Failed", "TerminatingOrFailed")
    )]
    pod_replacement_policy: Option<String>,
    /// Name of the controller that manages the job, if it is not the built-in one.
    managed_by: Option<String>,
    /// How the pods are scheduled together.
    #[api(tag = 17)]
    scheduling: Option<JobSchedulingConfiguration>,
}

#[api]
pub struct PodFailurePolicy {
    /// Rules in order; the first that matches applies.
    rules: Must<List<PodFailurePolicyRule>>,
}

#[api]
pub struct PodFailurePolicyRule {
    /// Action to take: FailJob, FailIndex, Ignore or Count.
    #[api(
        go_type = "v1.PodFailurePolicyAction",
        enum_values("Count", "FailIndex", "FailJob", "Ignore")
    )]
    action: Must<String>,
    /// Exit codes that the rule matches.
    on_exit_codes: Option<PodFailurePolicyOnExitCodesRequirement>,
    /// Pod conditions that the rule matches.
    on_pod_conditions: List<PodFailurePolicyOnPodConditionsPattern>,
}

#[api]
pub struct PodFailurePolicyOnExitCodesRequirement {
    /// The container that is looked at; all when absent.
    container_name: Option<String>,
    /// Whether the code must be one of the values: In or NotIn.
    #[api(go_type = "v1.PodFailurePolicyOnExitCodesOperator", enum_values("In", "NotIn"))]
    operator: Must<String>,
    /// The exit codes.
    #[api(set)]
    values: Must<List<i32>>,
}

#[api]
pub struct PodFailurePolicyOnPodConditionsPattern {
    /// The condition.
    #[api(go_type = "v1.PodConditionType")]
    type_: Must<String>,
    /// What it must be.
    #[api(no_omitempty, go_type = "v1.ConditionStatus")]
    status: String,
}

#[api]
pub struct SuccessPolicy {
    /// Rules; the job succeeds as soon as one is met.
    rules: Must<List<SuccessPolicyRule>>,
}

#[api]
pub struct SuccessPolicyRule {
    /// The indexes that must have succeeded, like 1,3-5.
    succeeded_indexes: Option<String>,
    /// How many indexes must have succeeded.
    succeeded_count: Option<i32>,
}

#[api]
pub struct JobSchedulingConfiguration {
    /// Whether the pods start together or each alone.
    #[api(go_type = "v1alpha3.WorkloadPodGroupSchedulingPolicy")]
    scheduling_policy: Option<WorkloadPodGroupSchedulingPolicy>,
    /// Where the pods must run together.
    #[api(go_type = "v1alpha3.WorkloadPodGroupSchedulingConstraints")]
    scheduling_constraints: Option<WorkloadPodGroupSchedulingConstraints>,
    /// Whether the pods are disrupted together or each alone.
    #[api(go_type = "v1alpha3.WorkloadPodGroupDisruptionMode")]
    disruption_mode: Option<WorkloadPodGroupDisruptionMode>,
    /// The claims that the pods share.
    #[api(
        keys("name"),
        merge,
        merge_key = "name",
        go_type = "[]v1alpha3.WorkloadPodGroupResourceClaim"
    )]
    resource_claims: List<WorkloadPodGroupResourceClaim>,
}

#[api]
pub struct JobStatus {
    /// Current conditions of the object.
    #[api(merge, merge_key = "type")]
    conditions: List<JobCondition>,
    /// When the job controller started the job.
    start_time: Option<Time>,
    /// When the job completed successfully.
    completion_time: Option<Time>,
    /// Number of pods that are pending or running, and not terminating.
    active: i32,
    /// Number of pods that completed successfully.
    succeeded: i32,
    /// Number of pods that failed.
    failed: i32,
    /// Number of pods that are terminating.
    #[api(tag = 11)]
    terminating: Option<i32>,
    /// Indexes that have succeeded, such as 1,3-5.
    #[api(tag = 7)]
    completed_indexes: String,
    /// Indexes that have failed, such as 1,3-5.
    #[api(tag = 10)]
    failed_indexes: Option<String>,
    /// Pods that have ended and are not yet part of the counts.
    #[api(tag = 8)]
    uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    /// Number of pods that are ready.
    ready: Option<i32>,
}

#[api]
pub struct UncountedTerminatedPods {
    /// Those that ended well, by uid.
    #[api(set, go_type = "[]types.UID")]
    succeeded: List<String>,
    /// Those that failed, by uid.
    #[api(set, go_type = "[]types.UID")]
    failed: List<String>,
}

#[api]
pub struct JobCondition {
    /// Type of the condition.
    #[api(go_type = "v1.JobConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition was last checked.
    last_probe_time: Time,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
}

impl Kind for Job {
    const ORPHANS: Option<&'static str> = Some(
        "child pods are preserved by default when jobs are deleted; set \
         propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
         this warning",
    );
    const NAMES: ResourceNames =
        ResourceNames::new("batch", "v1", "Job", "jobs").categories(&["all"]);
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("Job").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Status", |job, _| job.state().into()),
        TableColumn::text("Completions", |job, _| job.progress().into()),
        TableColumn::text("Duration", |job, now| job.duration(now).into()),
        TableColumn::AGE,
        TableColumn::wide_text("Containers", |it, _| {
            columns::containers(it.spec().template().spec())
        }),
        TableColumn::wide_text("Images", |it, _| columns::images(it.spec().template().spec())),
        TableColumn::wide_text("Selector", |it, _| columns::selector(it.spec().selector())),
    ];
    const NO_INDEX: &'static str = "field label \"{}\" not supported for Job";
    const INDEXES: &'static [SelectableField<Self>] =
        &[SelectableField::filter_only("status.successful", |job| {
            job.status().succeeded().to_string()
        })];

    fn warn(&self, old: Option<&Self>, warnings: &mut WarningList) {
        if warnings.pod_owner_name(self.metadata(), old.map(Self::metadata)) {
            self.spec().warn(&FieldPath::SPEC, warnings);
        }
    }

    fn validate(&self, errs: &mut ErrorList) {
        // Its name becomes a label only after labels are looked at.
        let name = self.metadata().name();
        errs.0.retain(|error| {
            error.path != "metadata.labels" || error.bad_value.as_str() != Some(name)
        });
        rules::check_new(self, errs);
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        rules::check_changed(self, old, errs);
    }

    fn validate_status(&self, old: &Self, errs: &mut ErrorList) {
        status_rules::check(self, old, errs);
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        spec.template_mut().default_fields();
        spec.default_patterns();
        if spec.completions().is_none() && spec.parallelism().is_none() {
            spec.set_completions(1);
        }
        if spec.parallelism().is_none() {
            spec.set_parallelism(1);
        }
        if spec.backoff_limit().is_none() {
            let per_index = spec.backoff_limit_per_index().is_some();
            spec.set_backoff_limit(if per_index { i32::MAX } else { 6 });
        }
        if spec.completion_mode().is_none() {
            spec.set_completion_mode("NonIndexed");
        }
        if spec.suspend().is_none() {
            spec.set_suspend(false);
        }
        if spec.pod_replacement_policy().is_none() {
            let failed = spec.pod_failure_policy().is_some();
            spec.set_pod_replacement_policy(if failed { "Failed" } else { "TerminatingOrFailed" });
        }
        if spec.manual_selector().is_none() {
            spec.set_manual_selector(false);
        }
        let labels = spec.template().metadata().labels().clone();
        if self.metadata().labels().is_empty() {
            self.metadata_mut().set_labels(labels);
        }
    }

    fn prepare_update(&mut self, old: &Self) {
        if old.spec().scheduling().is_none() {
            self.spec_mut().clear_scheduling();
        }
    }

    fn prepare_create(&mut self) {
        self.set_status(JobStatus::new());
        self.spec_mut().clear_scheduling();
        self.own_pods();
    }
}

/// As much of `generateName` is in a name that was made from it.
const MAX_STEM: usize = 58;

impl Job {
    /// Marks the pods of this job, and no others, as its own.
    fn own_pods(&mut self) {
        if self.spec().manual_selector() == Some(true) {
            return;
        }
        let (name, uid) = (Text::from(self.metadata().name()), Text::from(self.metadata().uid()));
        // Labels that were taken from the template stay the template's, if the name was given.
        let (own, pods) = (self.metadata().labels(), self.spec().template().metadata().labels());
        let prefix = self.metadata().generate_name();
        let stem = prefix.get(..MAX_STEM).unwrap_or(prefix);
        let made = |rest: &str| !stem.is_empty() && rest.len() == 5;
        let given = !name.strip_prefix(stem).is_some_and(made);
        let shared = given && own == pods || own.is_empty() && pods.is_empty();
        let labels = self.spec_mut().template_mut().metadata_mut().labels_mut();
        for (label, value) in [
            ("controller-uid", &uid),
            ("batch.kubernetes.io/controller-uid", &uid),
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
        ] {
            if labels.get(label).is_none() {
                labels.insert(label, value.clone());
            }
        }
        if shared {
            let labels = labels.clone();
            self.metadata_mut().set_labels(labels);
        }
        let labels = self.spec_mut().selector_mut().match_labels_mut();
        if labels.get("batch.kubernetes.io/controller-uid").is_none() {
            labels.insert("batch.kubernetes.io/controller-uid", uid);
        }
    }

    pub fn has_condition(&self, name: &str) -> bool {
        let holds =
            |condition: &JobCondition| condition.type_() == name && condition.status() == "True";
        self.status().conditions().find(holds).is_some()
    }

    /// Whether it has succeeded or failed for good.
    pub fn is_finished(&self) -> bool {
        self.has_condition("Complete") || self.has_condition("Failed")
    }

    fn state(&self) -> &'static str {
        match () {
            () if self.has_condition("Complete") => "Complete",
            () if self.has_condition("Failed") => "Failed",
            () if self.is_terminating() => "Terminating",
            () if self.has_condition("Suspended") => "Suspended",
            () if self.has_condition("FailureTarget") => "FailureTarget",
            () if self.has_condition("SuccessCriteriaMet") => "SuccessCriteriaMet",
            () => "Running",
        }
    }

    fn progress(&self) -> String {
        let done = self.status().succeeded();
        match (self.spec().completions(), self.spec().parallelism()) {
            (Some(all), _) => format!("{done}/{all}"),
            (None, Some(n @ 2..)) => format!("{done}/1 of {n}"),
            _ => format!("{done}/1"),
        }
    }

    fn duration(&self, now: i64) -> String {
        let start = self.status().start_time().and_then(Time::parse_seconds);
        let end = self.status().completion_time().and_then(Time::parse_seconds);
        start.map(|start| human_duration(end.unwrap_or(now) - start)).unwrap_or_default()
    }
}

impl JobSpec {
    /// A pattern on a condition means that it holds.
    pub(super) fn default_patterns(&mut self) {
        if self.pod_failure_policy().is_none_or(|policy| policy.rules().is_empty()) {
            return;
        }
        for rule in self.pod_failure_policy_mut().rules_mut().iter_mut() {
            if rule.on_pod_conditions().is_empty() {
                continue;
            }
            for pattern in rule.on_pod_conditions_mut().iter_mut() {
                if pattern.status().is_empty() {
                    pattern.set_status("True");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;
    use schema::ResourceDefinition;

    use super::*;
    use crate::apps::StatefulSet;

    #[test]
    fn a_name_that_becomes_a_label_is_not_told_as_one() {
        let mut errs = ErrorList::default();
        for bad in ["n", "other"] {
            errs.invalid(&FieldPath::METADATA.field("labels"), bad, "");
        }
        Job::new().with_metadata(ObjectMeta::new().with_name("n")).validate(&mut errs);
        let labels = errs.0.iter().filter(|error| error.path == "metadata.labels");
        assert_eq!(
            labels.map(|error| error.bad_value.as_str()).collect::<Vec<_>>(),
            [Some("other")]
        );
    }

    /// Another server stores them before they are set, and sets them when it reads.
    #[test]
    fn what_was_stored_without_defaults_has_them_when_it_is_read() {
        let stored =
            r#"{"metadata":{"name":"j"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}"#;
        let mut job = from_json(stored.as_bytes()).unwrap();
        ResourceDefinition::from_kind::<Job>().normalize_stored(&mut job);
        assert_eq!(job["metadata"]["labels"]["a"].as_str(), Some("b"));
        let stored = r#"{"metadata":{"name":"s"},"spec":{"volumeClaimTemplates":[{"metadata":{"name":"v"}}]}}"#;
        let mut set = from_json(stored.as_bytes()).unwrap();
        ResourceDefinition::from_kind::<StatefulSet>().normalize_stored(&mut set);
        let claim = &set["spec"]["volumeClaimTemplates"].items()[0];
        assert_eq!(claim["kind"].as_str(), Some("PersistentVolumeClaim"));
    }
}
