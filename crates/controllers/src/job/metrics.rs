//! Metrics of the Job controller, under upstream's names.

use std::time::Duration;

use api::{
    batch::{Job, JobStatus},
    core::Pod,
};
use runtime::{
    Context,
    metrics::{Family, Metrics, exponential},
};

use super::{
    indexes::Indexes,
    observe::{JobObservation, JobOutcome, is_indexed},
    plan::{Action, Plan},
    pod::{is_tracked, replaces_only_failed},
    pod_tracking::is_managed_elsewhere,
};

static SYNC_SECONDS: [f64; 15] = exponential(0.004, 2.0);

const SYNC_DURATION: Family = Family::histogram(
    "job_controller_job_sync_duration_seconds",
    "[STABLE] The time it took to sync a job",
    &["action", "completion_mode", "result"],
    &SYNC_SECONDS,
);
const SYNCS: Family = Family::counter(
    "job_controller_job_syncs_total",
    "[STABLE] The number of job syncs",
    &["action", "completion_mode", "result"],
);
const JOBS_FINISHED: Family = Family::counter(
    "job_controller_jobs_finished_total",
    "[STABLE] The number of finished jobs",
    &["completion_mode", "reason", "result"],
);
const EXTERNAL: Family = Family::counter(
    "job_controller_jobs_by_external_controller_total",
    "[ALPHA] The number of Jobs managed by an external controller",
    &["controller_name"],
);
const PODS_FINISHED: Family = Family::counter(
    "job_controller_job_pods_finished_total",
    "[STABLE] The number of finished Pods that are fully tracked",
    &["completion_mode", "result"],
);
const POLICY_ACTIONS: Family = Family::counter(
    "job_controller_pod_failures_handled_by_failure_policy_total",
    "[BETA] The number of failed Pods handled by failure policy with\n\t\t\trespect to the failure policy \
     action applied based on the matched\n\t\t\trule. Possible values of the action label correspond to \
     the\n\t\t\tpossible values for the failure policy rule action, which are:\n\t\t\t\"FailJob\", \
     \"Ignore\" and \"Count\".",
    &["action"],
);
const TRACKED_PODS: Family = Family::counter(
    "job_controller_terminated_pods_tracking_finalizer_total",
    "[BETA] The number of terminated pods (phase=Failed|Succeeded)\nthat have the finalizer \
     batch.kubernetes.io/job-tracking\nThe event label can be \"add\" or \"delete\".",
    &["event"],
);
const INDEXES_FINISHED: Family = Family::counter(
    "job_controller_job_finished_indexes_total",
    "[ALPHA] The number of finished indexes. Possible values for the\n\t\t\tstatus label are: \
     \"succeeded\", \"failed\". Possible values for the\n\t\t\tbackoffLimit label are: \"perIndex\" and \
     \"global\"",
    &["backoffLimit", "status"],
);
const PODS_CREATED: Family = Family::counter(
    "job_controller_job_pods_creation_total",
    "[ALPHA] The number of Pods created by the Job controller labelled with a reason for the Pod \
     creation.\nThis metric also distinguishes between Pods created using different \
     PodReplacementPolicy settings.\nPossible values of the \"reason\" label are:\n\"new\", \
     \"recreate_terminating_or_failed\", \"recreate_failed\".\nPossible values of the \"status\" label \
     are:\n\"succeeded\", \"failed\".",
    &["reason", "status"],
);

/// Counts what the Job controller does.
#[derive(Debug)]
pub(super) struct JobMetrics(Metrics);

impl JobMetrics {
    /// Also counts what caches show: finished pods with the tracking finalizer, and Jobs of other
    /// controllers.
    pub(super) fn start(cx: &Context) -> Self {
        let metrics = cx.metrics().clone();
        cx.cache::<Pod>().on_change(move |old, new| {
            let is =
                |pod: Option<&Pod>| pod.is_some_and(|pod| pod.is_finished() && is_tracked(pod));
            let event = match (is(old), is(new)) {
                (false, true) => "add",
                (true, false) => "delete",
                _ => return,
            };
            metrics.counter(&TRACKED_PODS, &[event]).add(1);
        });
        let metrics = cx.metrics().clone();
        cx.cache::<Job>().on_change(move |old, new| {
            if let (None, Some(job)) = (old, new)
                && is_managed_elsewhere(job)
            {
                let manager = job.spec().managed_by().unwrap_or_default();
                metrics.counter(&EXTERNAL, &[manager]).add(1);
            }
        });
        Self(cx.metrics().clone())
    }

    /// Records a sync.
    pub(super) fn synced(&self, job: &Job, action: SyncAction, took: Duration, ok: bool) {
        let result = if ok { "success" } else { "error" };
        let labels = [action.label(), completion_mode(job), result];
        self.0.histogram(&SYNC_DURATION, &labels).observe_duration(took);
        self.0.counter(&SYNCS, &labels).add(1);
    }

    pub(super) fn finished(&self, job: &Job, end: &JobOutcome) {
        let result = if end.success { "succeeded" } else { "failed" };
        self.0.counter(&JOBS_FINISHED, &[completion_mode(job), &end.reason, result]).add(1);
    }

    /// Records created pods, and those that could not be created.
    pub(super) fn created_pods(&self, sight: &JobObservation<'_>, created: i32, failed: i32) {
        let reason = if sight.failed > 0 && replaces_only_failed(sight.scene.job) {
            "recreate_failed"
        } else if sight.failed > 0 || sight.terminating > 0 {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (count, status) in [(created, "succeeded"), (failed, "failed")] {
            if count > 0 {
                self.0.counter(&PODS_CREATED, &[reason, status]).add(count.unsigned_abs().into());
            }
        }
    }

    /// Records the pods and indexes that a written status counts and the one before did not.
    pub(super) fn counted(&self, job: &Job, before: &JobStatus, after: &JobStatus) {
        let add = |family: &Family, labels: &[&str], more: i32| {
            let more = u64::try_from(more).unwrap_or_default(); // fewer, if completions were reduced
            self.0.counter(family, labels).add(more);
        };
        let mut succeeded = after.succeeded().saturating_sub(before.succeeded());
        if is_indexed(job) {
            let end = job.spec().completions().unwrap_or_default();
            let total = |text: &str| Indexes::parse(text, end).total();
            let per_index = job.spec().backoff_limit_per_index().is_some();
            let limit = if per_index { "perIndex" } else { "global" };
            succeeded = total(after.completed_indexes()) - total(before.completed_indexes());
            add(&INDEXES_FINISHED, &[limit, "succeeded"], succeeded);
            let failed = |status: &JobStatus| total(status.failed_indexes().unwrap_or_default());
            let failed = failed(after) - failed(before);
            if failed > 0 {
                add(&INDEXES_FINISHED, &[limit, "failed"], failed);
            }
        }
        let failed = after.failed().saturating_sub(before.failed());
        add(&PODS_FINISHED, &[completion_mode(job), "succeeded"], succeeded);
        add(&PODS_FINISHED, &[completion_mode(job), "failed"], failed);
    }

    /// Records the actions of the podFailurePolicy that were applied to failed pods.
    pub(super) fn handled_by_policy(&self, actions: &[String]) {
        for action in actions {
            self.0.counter(&POLICY_ACTIONS, &[action]).add(1);
        }
    }
}

/// What a sync did with the pods of a Job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SyncAction {
    /// Pods were not managed: the Job is over or being deleted, or its pods are not known.
    Reconciling,
    Tracking,
    PodsCreated,
    PodsDeleted,
}

impl SyncAction {
    pub(super) fn of(sight: &JobObservation<'_>, plan: &Plan) -> Self {
        let job = sight.scene.job;
        if sight.outcome.is_some() || job.metadata().is_terminating() {
            return Self::Reconciling;
        }
        match plan.steps.first().map(|step| &step.action) {
            None => Self::Tracking,
            Some(Action::Create(_)) => Self::PodsCreated,
            Some(Action::Delete(_) | Action::ReleaseAndDelete(_)) => Self::PodsDeleted,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Reconciling => "reconciling",
            Self::Tracking => "tracking",
            Self::PodsCreated => "pods_created",
            Self::PodsDeleted => "pods_deleted",
        }
    }
}

fn completion_mode(job: &Job) -> &'static str {
    if is_indexed(job) { "Indexed" } else { "NonIndexed" }
}
