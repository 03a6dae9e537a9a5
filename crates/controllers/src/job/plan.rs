//! Decides which pods a Job shall have. Pure, so its tests need no cluster.

use std::cmp::Reverse;

use api::{batch::Job, core::Pod};
use object::{Time, count};
use runtime::Step;
use schema::Kind;

use super::{
    backoff::Backoff,
    pod::{failures_before, index, new_pod, replaces_only_failed},
    sight::{Scene, Sight, deadline, is_indexed, is_suspended},
};

/// More at a time would only make failures more.
const BURST: usize = 500;

#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Create(Pod),
    /// It will be counted when it has gone.
    Delete(Pod),
    /// It is let go first: it does not count.
    Remove(Pod),
}

/// What to do, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step<Act>>,
    /// In so many seconds.
    pub(super) wake: Option<i64>,
}

pub(super) fn plan(sight: &Sight<'_>) -> Plan {
    let Scene { job, now, .. } = sight.scene;
    if sight.verdict.is_some() {
        let rule = "the job is over";
        let steps = sight.active.iter().map(|pod| step(job, Act::Delete((*pod).clone()), rule));
        return Plan { steps: steps.collect(), wake: None };
    }
    let mut plan = if job.is_terminating() { Plan::default() } else { manage(sight) };
    plan.wake = [plan.wake, deadline(job, now)].into_iter().flatten().filter(|n| *n > 0).min();
    plan
}

fn manage(sight: &Sight<'_>) -> Plan {
    let job = sight.scene.job;
    let active = count(sight.active.len());
    let remove = |least: i32, rule: &str| -> Vec<Step<Act>> {
        let gone = surplus(sight, usize::try_from(least).unwrap_or_default()).into_iter();
        gone.take(BURST).map(|pod| step(job, Act::Remove(pod.clone()), rule)).collect()
    };
    if is_suspended(job) {
        return Plan { steps: remove(active, "the job is suspended"), wake: None };
    }
    let wanted = wanted(sight);
    let steps = remove(active.saturating_sub(wanted).max(0), "too many pods");
    if !steps.is_empty() {
        return Plan { steps, wake: None };
    }
    let going = if replaces_only_failed(job) { sight.terminating } else { 0 };
    let missing =
        usize::try_from(wanted.saturating_sub(going).saturating_sub(active)).unwrap_or_default();
    create(sight, missing.min(BURST))
}

/// How many pods there should be now.
fn wanted(sight: &Sight<'_>) -> i32 {
    let spec = sight.scene.job.spec();
    let parallelism = spec.parallelism().unwrap_or(1);
    match spec.completions() {
        Some(completions) => {
            completions.saturating_sub(sight.succeeded).clamp(0, parallelism.max(0))
        }
        None if sight.succeeded > 0 => count(sight.active.len()), // let them end
        None => parallelism,
    }
}

fn create(sight: &Sight<'_>, missing: usize) -> Plan {
    const RULE: &str = "too few pods";
    let Scene { job, now, .. } = sight.scene;
    let per_index = job.spec().backoff_limit_per_index().is_some();
    if missing == 0 {
        return Plan::default();
    }
    if !per_index && sight.backoff.left(now) > 0 {
        return Plan { steps: Vec::new(), wake: Some(sight.backoff.left(now)) };
    }
    if !is_indexed(job) {
        let steps = (0..missing).map(|_| step(job, Act::Create(new_pod(job, None, None)), RULE));
        return Plan { steps: steps.collect(), wake: None };
    }
    let wait = |at: &i32| {
        let last = sight.kept.get(at);
        last.map_or(0, |pod| {
            Backoff::of_index(failures_before(pod).0.saturating_add(1), pod).left(now)
        })
    };
    let pending = pending(sight, missing);
    let wake = pending.iter().map(wait).filter(|left| *left > 0).min();
    let ready = pending.into_iter().filter(|at| wait(at) == 0);
    let pod = |at| new_pod(job, Some(at), sight.kept.get(&at).copied());
    let steps: Vec<_> = ready.map(|at| step(job, Act::Create(pod(at)), RULE)).collect();
    Plan { steps, wake }
}

/// The first indexes that need a pod.
fn pending(sight: &Sight<'_>, missing: usize) -> Vec<i32> {
    let Scene { job, pods, .. } = sight.scene;
    let mut taken = sight.done.clone();
    sight.lost.iter().for_each(|lost| taken.merge(lost));
    let going = pods
        .iter()
        .filter(|pod| replaces_only_failed(job) && pod.is_terminating() && !pod.is_finished());
    let busy = sight.active.iter().copied().chain(going).filter_map(|pod| index(pod, job));
    busy.for_each(|at| taken.insert(at));
    taken.missing(missing, job.spec().completions().unwrap_or_default())
}

/// Active pods to remove, at least so many: doubles of an index, and those without one
/// that counts.
fn surplus<'a>(sight: &Sight<'a>, least: usize) -> Vec<&'a Pod> {
    let job = sight.scene.job;
    let mut left = sight.active.clone();
    left.sort_by_cached_key(|pod| worth(pod));
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

/// The least is removed first: not placed, not running, not ready, ready for a short
/// time, young.
fn worth(pod: &Pod) -> (bool, bool, bool, Reverse<i64>, Reverse<String>) {
    let ready = pod.status().condition("Ready").filter(|_| pod.is_ready());
    let since = ready.and_then(|ready| Time::seconds(ready.last_transition_time()));
    (
        pod.is_scheduled(),
        pod.status().phase() == "Running",
        pod.is_ready(),
        Reverse(since.unwrap_or(i64::MAX)),
        Reverse(pod.metadata().creation_timestamp().to_owned()),
    )
}

fn step(job: &Job, act: Act, rule: &str) -> Step<Act> {
    Step { act, because: job.causes(rule) }
}
