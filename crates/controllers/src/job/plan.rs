//! Computes which pods of a Job to create and delete. Pure, so its tests need no cluster.

use std::cmp::Reverse;

use api::{batch::Job, core::Pod};
use object::{Time, saturating_i32};
use runtime::Step;
use schema::Kind;

use super::{
    backoff::Backoff,
    observe::{JobInput, JobObservation, deadline, is_indexed, is_suspended},
    pod::{failures_before, index, new_pod, replaces_only_failed},
};

/// Maximum number of pods that one reconcile creates or deletes.
const BURST: usize = 500;

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Create(Pod),
    /// Delete a pod; it is counted when it has terminated.
    Delete(Pod),
    /// Remove the tracking finalizer, then delete: the pod is not counted.
    ReleaseAndDelete(Pod),
}

/// The steps, and the time of the next reconcile.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step<Action>>,
    /// In seconds.
    pub(super) requeue_after: Option<i64>,
}

/// Computes the steps for a Job.
pub(super) fn plan(sight: &JobObservation<'_>) -> Plan {
    let JobInput { job, now, .. } = sight.scene;
    if sight.outcome.is_some() {
        let rule = "the job is over";
        let steps = sight.active.iter().map(|pod| step(job, Action::Delete((*pod).clone()), rule));
        return Plan { steps: steps.collect(), requeue_after: None };
    }
    let mut plan = if job.is_terminating() { Plan::default() } else { manage(sight) };
    plan.requeue_after =
        [plan.requeue_after, deadline(job, now)].into_iter().flatten().filter(|n| *n > 0).min();
    plan
}

fn manage(sight: &JobObservation<'_>) -> Plan {
    let job = sight.scene.job;
    let active = saturating_i32(sight.active.len());
    let remove = |least: i32, rule: &str| -> Vec<Step<Action>> {
        let gone = surplus(sight, usize::try_from(least).unwrap_or_default()).into_iter();
        gone.take(BURST).map(|pod| step(job, Action::ReleaseAndDelete(pod.clone()), rule)).collect()
    };
    if is_suspended(job) {
        return Plan { steps: remove(active, "the job is suspended"), requeue_after: None };
    }
    let wanted = wanted_active(sight);
    let steps = remove(active.saturating_sub(wanted).max(0), "too many pods");
    if !steps.is_empty() {
        return Plan { steps, requeue_after: None };
    }
    let going = if replaces_only_failed(job) { sight.terminating } else { 0 };
    let missing =
        usize::try_from(wanted.saturating_sub(going).saturating_sub(active)).unwrap_or_default();
    create(sight, missing.min(BURST))
}

/// The number of active pods that there should be now.
fn wanted_active(sight: &JobObservation<'_>) -> i32 {
    let spec = sight.scene.job.spec();
    let parallelism = spec.parallelism().unwrap_or(1);
    match spec.completions() {
        Some(completions) => {
            completions.saturating_sub(sight.succeeded).clamp(0, parallelism.max(0))
        }
        None if sight.succeeded > 0 => saturating_i32(sight.active.len()), // let them finish
        None => parallelism,
    }
}

fn create(sight: &JobObservation<'_>, missing: usize) -> Plan {
    const RULE: &str = "too few pods";
    let JobInput { job, now, .. } = sight.scene;
    let per_index = job.spec().backoff_limit_per_index().is_some();
    if missing == 0 {
        return Plan::default();
    }
    if !per_index && sight.backoff.remaining(now) > 0 {
        return Plan { steps: Vec::new(), requeue_after: Some(sight.backoff.remaining(now)) };
    }
    if !is_indexed(job) {
        let steps = (0..missing).map(|_| step(job, Action::Create(new_pod(job, None, None)), RULE));
        return Plan { steps: steps.collect(), requeue_after: None };
    }
    let wait = |at: &i32| {
        let last = sight.last_failed_by_index.get(at);
        last.map_or(0, |pod| {
            Backoff::of_index(failures_before(pod).0.saturating_add(1), pod).remaining(now)
        })
    };
    let pending = pending(sight, missing);
    let wake = pending.iter().map(wait).filter(|left| *left > 0).min();
    let ready = pending.into_iter().filter(|at| wait(at) == 0);
    let pod = |at| new_pod(job, Some(at), sight.last_failed_by_index.get(&at).copied());
    let steps: Vec<_> = ready.map(|at| step(job, Action::Create(pod(at)), RULE)).collect();
    Plan { steps, requeue_after: wake }
}

/// The first indexes that need a pod.
fn pending(sight: &JobObservation<'_>, missing: usize) -> Vec<i32> {
    let JobInput { job, pods, .. } = sight.scene;
    let mut taken = sight.succeeded_indexes.clone();
    sight.failed_indexes.iter().for_each(|lost| taken.merge(lost));
    let going = pods
        .iter()
        .filter(|pod| replaces_only_failed(job) && pod.is_terminating() && !pod.is_finished());
    let busy = sight.active.iter().copied().chain(going).filter_map(|pod| index(pod, job));
    busy.for_each(|at| taken.insert(at));
    taken.missing(missing, job.spec().completions().unwrap_or_default())
}

/// The active pods to delete, at least `least`: pods whose index is invalid or a duplicate, then
/// others.
fn surplus<'a>(sight: &JobObservation<'a>, least: usize) -> Vec<&'a Pod> {
    let job = sight.scene.job;
    let mut left = sight.active.clone();
    left.sort_by_cached_key(|pod| deletion_rank(pod));
    if !is_indexed(job) {
        left.truncate(least);
        return left;
    }
    let mut gone = Vec::new();
    let mut kept: Vec<&Pod> = Vec::new();
    for pod in left.into_iter().rev() {
        let at = index(pod, job);
        let double = kept.iter().any(|other| index(other, job) == at);
        if at.is_none() || double { gone.push(pod) } else { kept.push(pod) }
    }
    let more = least.saturating_sub(gone.len());
    gone.extend(kept.into_iter().rev().take(more));
    gone
}

/// Sort key for deletion; the pod with the smallest key is deleted first. In order: unscheduled,
/// not running, not ready, ready for a shorter time, newer.
fn deletion_rank(pod: &Pod) -> (bool, bool, bool, Reverse<i64>, Reverse<String>) {
    let ready = pod.status().condition("Ready").filter(|_| pod.is_ready());
    let since = ready.and_then(|ready| Time::parse_seconds(ready.last_transition_time()));
    (
        pod.is_scheduled(),
        pod.status().phase() == "Running",
        pod.is_ready(),
        Reverse(since.unwrap_or(i64::MAX)),
        Reverse(pod.metadata().creation_timestamp().to_owned()),
    )
}

fn step(job: &Job, act: Action, rule: &str) -> Step<Action> {
    Step { action: act, cause: job.write_cause(rule) }
}
