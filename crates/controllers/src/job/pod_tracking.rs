//! Counts each finished pod exactly once, even if a reconcile fails halfway.
//!
//! ```text
//!  a pod finishes          its finalizer keeps it
//!  status update           its uid is recorded in uncountedTerminatedPods
//!  finalizer removed       the pod can be deleted from now on
//!  status update           it moves from uncountedTerminatedPods to the counts
//! ```

use std::collections::HashSet;

use api::{
    batch::{Job, JobCondition, JobStatus, UncountedTerminatedPods},
    core::Pod,
};
use object::{List, Text, Time, saturating_i32};
use schema::Kind;

use super::{
    observe::{JobInput, JobObservation, JobOutcome, is_indexed, is_suspended},
    pod::{has_failed, index, is_tracked},
    policy::{FailureAction, failure, policy_action},
};

/// Maximum number of uncounted pods in the status, which limits its size.
const MOST_UNCOUNTED: usize = 500;

/// What the plan's steps achieved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActionCounts {
    pub(super) created: i32,
    pub(super) deleted: i32,
    /// How many of the deleted pods were ready.
    pub(super) ready: i32,
    /// Some pods could not be deleted.
    pub(super) failed: bool,
}

/// The new status, and what follows once it is written.
#[derive(Debug)]
pub(super) struct TrackingUpdate<'a> {
    pub(super) status: JobStatus,
    /// Pods to remove the finalizer from.
    pub(super) release: Vec<&'a Pod>,
    /// The outcome to report once all pods are counted.
    pub(super) end: Option<JobOutcome>,
    /// Reason and message of an event.
    pub(super) event: Option<(&'static str, &'static str)>,
    /// The actions of the podFailurePolicy that the finished pods matched.
    pub(super) policy_actions: Vec<String>,
}

/// What is done with the finished pods.
#[derive(Debug, Default)]
struct FinishedPods<'a> {
    /// Pods whose finalizer may be removed.
    release: Vec<&'a Pod>,
    /// Whether the limit of uncounted pods is reached.
    full: bool,
    policy_actions: Vec<String>,
}

/// Computes the status that records the finished pods.
pub(super) fn track<'a>(sight: &JobObservation<'a>, done: ActionCounts) -> TrackingUpdate<'a> {
    let JobInput { job, now, .. } = sight.scene;
    let mut status = job.status().clone();
    if status.start_time().is_none() && !is_suspended(job) {
        status.set_start_time(Time::format(now));
    }
    let active = saturating_i32(sight.active.len()) + done.created - done.deleted;
    let mut end = sight.outcome.clone().filter(|_| !done.failed);
    let mut told = None;
    if sight.outcome.is_none() {
        if is_complete(sight, active) {
            let why = "Reached expected number of succeeded pods";
            end = Some(JobOutcome::new(true, "CompletionsReached", why));
        } else if !job.is_terminating() {
            told = suspend(&mut status, is_suspended(job), now);
        }
    }
    let ready = saturating_i32(sight.active.iter().filter(|pod| pod.is_ready()).count());
    status.set_active(active);
    status.set_ready(ready - done.ready);
    status.set_terminating(sight.terminating + done.deleted);

    let with_finalizer: HashSet<&str> = sight
        .scene
        .pods
        .iter()
        .filter(|pod| is_tracked(pod))
        .map(|pod| pod.metadata().uid())
        .collect();
    count_released(&mut status, &with_finalizer);
    let ended = count_ended(sight, &mut status, end.as_ref());
    if let Some(verdict) = end.as_ref().filter(|verdict| !verdict.known) {
        let name = if verdict.success { "SuccessCriteriaMet" } else { "FailureTarget" };
        put(&mut status, (name, "True", &verdict.reason, &verdict.message), now);
    }
    let FinishedPods { release, full, policy_actions } = ended;
    TrackingUpdate { status, release, end: end.filter(|_| !full), event: told, policy_actions }
}

/// Moves uncounted pods that no longer have the finalizer into the counts.
pub(super) fn count_released(status: &mut JobStatus, held: &HashSet<&str>) {
    let old = status.uncounted_terminated_pods().cloned();
    let old = old.unwrap_or_else(|| UncountedTerminatedPods::from(object::Value::object()));
    let split = |uids: &List<String>| {
        let kept: List<String> = uids.iter().filter(|uid| held.contains(uid)).collect();
        let gone = saturating_i32(uids.len() - kept.len());
        (kept, gone)
    };
    let ((succeeded, more), (failed, lost)) = (split(old.succeeded()), split(old.failed()));
    if more > 0 || lost > 0 || status.uncounted_terminated_pods().is_none() {
        status.set_succeeded(status.succeeded().saturating_add(more));
        status.set_failed(status.failed().saturating_add(lost));
        status.set_uncounted_terminated_pods(old.with_succeeded(succeeded).with_failed(failed));
    }
}

/// Sets the condition Complete or Failed, unless pods are still uncounted or terminating. Returns
/// whether it did.
pub(super) fn finish(status: &mut JobStatus, end: &JobOutcome, now: i64) -> bool {
    let open = status.uncounted_terminated_pods();
    let open = open.is_some_and(|it| !it.succeeded().is_empty() || !it.failed().is_empty());
    if open || status.terminating().unwrap_or_default() > 0 {
        return false;
    }
    let name = if end.success { "Complete" } else { "Failed" };
    put(status, (name, "True", &end.reason, &end.message), now);
    if end.success {
        status.set_completion_time(Time::format(now));
    }
    true
}

fn is_complete(sight: &JobObservation<'_>, active: i32) -> bool {
    let enough = match sight.scene.job.spec().completions() {
        Some(completions) => sight.succeeded >= completions,
        None => sight.succeeded > 0,
    };
    enough && active == 0
}

/// Records finished pods as uncounted.
fn count_ended<'a>(
    sight: &JobObservation<'a>,
    status: &mut JobStatus,
    end: Option<&JobOutcome>,
) -> FinishedPods<'a> {
    let JobInput { job, pods, .. } = sight.scene;
    let mut tracked: Vec<&Pod> = pods.iter().filter(|pod| is_tracked(pod)).collect();
    tracked.sort_by_key(|pod| index(pod, job));
    let lists = status.uncounted_terminated_pods().cloned().unwrap_or_default();
    let list = |uids: &List<String>| uids.iter().map(Text::from).collect::<Vec<_>>();
    let (mut succeeded, mut failed) = (list(lists.succeeded()), list(lists.failed()));
    let (mut completed, mut new) = (sight.completed.clone(), 0);
    let mut ended = FinishedPods::default();
    for pod in tracked {
        let (uid, at) = (pod.metadata().uid(), index(pod, job));
        let fails = has_failed(pod, job);
        if !can_remove_finalizer(sight, pod, fails, end) {
            continue;
        }
        ended.release.push(pod);
        if pod.status().phase() == "Succeeded" && !failed.iter().any(|known| known == uid) {
            match at.filter(|_| is_indexed(job)) {
                Some(at) if !completed.has(at) => {
                    completed.insert(at);
                    new += 1;
                }
                _ if is_indexed(job) || succeeded.iter().any(|known| known == uid) => {}
                _ => succeeded.push(uid.into()),
            }
        } else if fails || end.is_some_and(|end| !end.success) {
            let valid = !is_indexed(job) || at.is_some();
            let known = failed.iter().any(|known| known == uid);
            if valid && !known {
                ended.policy_actions.extend(policy_action(job, pod).map(str::to_owned));
                if failure(job, pod) != FailureAction::Ignored {
                    failed.push(uid.into());
                }
            }
        }
        if new + succeeded.len() + failed.len() >= MOST_UNCOUNTED {
            ended.full = true;
            break;
        }
    }
    if is_indexed(job) {
        status.set_succeeded(completed.total());
        status.set_completed_indexes(completed.to_string());
        match &sight.failed_indexes {
            Some(lost) => status.set_failed_indexes(lost.to_string()),
            None => status.clear_failed_indexes(),
        }
    }
    let lists = UncountedTerminatedPods::from(object::Value::object())
        .with_succeeded(succeeded.into_iter().collect::<List<String>>())
        .with_failed(failed.into_iter().collect::<List<String>>());
    status.set_uncounted_terminated_pods(lists);
    ended
}

/// Whether the pod's finalizer is no longer needed.
fn can_remove_finalizer(
    sight: &JobObservation<'_>,
    pod: &Pod,
    fails: bool,
    end: Option<&JobOutcome>,
) -> bool {
    let job = sight.scene.job;
    if job.is_terminating() || end.is_some() || pod.status().phase() == "Succeeded" {
        return true;
    }
    let kept = index(pod, job).and_then(|at| sight.last_failed_by_index.get(&at));
    fails && kept.is_none_or(|kept| kept.metadata().uid() != pod.metadata().uid())
}

/// Updates the condition Suspended.
fn suspend(
    status: &mut JobStatus,
    suspended: bool,
    now: i64,
) -> Option<(&'static str, &'static str)> {
    let known = status.conditions().find(|one| one.type_() == "Suspended");
    let is = known.is_some_and(|one| one.status() == "True");
    match (suspended, is) {
        (true, false) => {
            put(status, ("Suspended", "True", "JobSuspended", "Job suspended"), now);
            status.clear_start_time();
            Some(("Suspended", "Job suspended"))
        }
        (false, true) => {
            put(status, ("Suspended", "False", "JobResumed", "Job resumed"), now);
            status.set_start_time(Time::format(now));
            Some(("Resumed", "Job resumed"))
        }
        _ => None,
    }
}

fn put(status: &mut JobStatus, (name, verdict, reason, why): (&str, &str, &str, &str), now: i64) {
    let condition = JobCondition::new()
        .with_type(name)
        .with_status(verdict)
        .with_last_probe_time(Time::format(now))
        .with_last_transition_time(Time::format(now))
        .with_reason(reason)
        .with_message(why);
    status.conditions_mut().upsert(condition, |one| one.type_() == name);
}

/// Whether another controller manages the Job (`spec.managedBy`).
pub(super) fn is_managed_elsewhere(job: &Job) -> bool {
    job.spec().managed_by().is_some_and(|by| by != "kubernetes.io/job-controller")
}
