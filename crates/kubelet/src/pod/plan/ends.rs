//! Beginning anew and ending: plans for pods that have no sandbox, or are not to have one much longer.

use api::core::{Container as Spec, Pod};

use super::{ALL, Ending, Failure, Memory, Plan, SANDBOX, SECOND, Step, next_start};
use crate::pod::{
    observe::{Container, Observed},
    restart,
};

/// A container ended so that all must begin again: those that run are ended at once, and all are removed. The one that
/// caused it goes last, so that a kubelet that is interrupted goes on.
pub(super) fn restart_all(
    pod: &Pod,
    seen: &Observed,
    memory: &mut Memory,
    now: i64,
) -> Option<Plan> {
    let finished = restart::trigger(pod, seen)?.finished;
    if let Err(at) = next_start(memory, ALL, finished, now) {
        return Some(Plan { at: Some(at), ..Plan::default() });
    }
    let of_pod = |one: &&Container| pod.spec().all_containers().any(|spec| spec.name() == one.name);
    let kills = seen.running().filter(of_pod).map(|one| Step::Kill {
        id: one.id.clone(),
        name: one.name.clone(),
        grace: 0,
        why: format!("Stopping container {}", one.name),
    });
    let mut steps: Vec<Step> = kills.collect();
    let is_cause = |one: &&Container| {
        pod.spec()
            .all_containers()
            .any(|spec| spec.name() == one.name && restart::triggers_all(spec, one))
    };
    let all = seen.containers.iter().filter(of_pod);
    let (causes, others): (Vec<_>, Vec<_>) = all.partition(is_cause);
    let removed = others.into_iter().chain(causes);
    steps.extend(removed.map(|one| Step::Remove { id: one.id.clone() }));
    Some(Plan { steps, restarts_all: true, ..Plan::default() })
}

/// There is no sandbox that works: end what was in the last, then make one.
pub(super) fn begin(pod: &Pod, seen: &Observed, memory: &mut Memory, now: i64) -> Plan {
    let mut plan = Plan::default();
    if !restart::can_restart(pod) && !seen.containers.is_empty() {
        memory.failed = Some(Failure {
            reason: "ContainerStatusUnknown".into(),
            message: "The pod's sandbox has ended and its containers must not run again".into(),
            ..Failure::default()
        });
        return finish(pod, seen, None);
    }
    let due = memory.not_before.get(SANDBOX).copied().unwrap_or_default();
    if due > now {
        return Plan { at: Some(due), ..plan };
    }
    for container in seen.running() {
        plan.steps.push(Step::Kill {
            id: container.id.clone(),
            name: container.name.clone(),
            grace: pod.spec().termination_grace_period_seconds(),
            why: format!("Stopping container {}", container.name),
        });
    }
    if let Some(last) = seen.sandboxes.first() {
        plan.steps.push(Step::StopSandbox { id: last.id.clone() });
    }
    if !memory.prepared {
        plan.steps.push(Step::Prepare);
    }
    let attempt = seen.sandboxes.first().map_or(0, |last| last.attempt.saturating_add(1));
    plan.steps.push(Step::Sandbox { attempt });
    plan
}

/// The node goes down: what runs ends as gracefully as it would for a deletion, and its records
/// stay, so that a later start counts restarts and shows last states.
pub(crate) fn halt(pod: &Pod, seen: &Observed) -> Plan {
    finish(pod, seen, None)
}

/// The pod's work is done: what still runs ends, what is left stays for its logs.
pub(super) fn finish(pod: &Pod, seen: &Observed, grace: Option<i64>) -> Plan {
    let grace = grace.unwrap_or_else(|| pod.spec().termination_grace_period_seconds());
    let steps = kills(pod, seen, grace);
    if !steps.is_empty() {
        return Plan { steps, ..Plan::default() };
    }
    let ready = seen.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let steps = ready.map(|sandbox| Step::StopSandbox { id: sandbox.id.clone() }).collect();
    Plan { steps, ..Plan::default() }
}

pub(super) fn end(pod: &Pod, ending: Ending, seen: &Observed, now: i64) -> Plan {
    let left = ending.grace.saturating_sub(now.saturating_sub(ending.since) / SECOND);
    let steps = kills(pod, seen, left.max(ending.grace.min(2)));
    if !steps.is_empty() {
        return Plan { steps, ..Plan::default() };
    }
    let mut plan = Plan { ended: true, ..Plan::default() };
    for sandbox in &seen.sandboxes {
        plan.steps.push(Step::StopSandbox { id: sandbox.id.clone() });
    }
    for sandbox in &seen.sandboxes {
        plan.steps.push(Step::RemoveSandbox { id: sandbox.id.clone() });
    }
    plan.steps.push(Step::Clean);
    plan
}

/// All but sidecars together, then the sidecars from the last to the first.
fn kills(pod: &Pod, seen: &Observed, grace: i64) -> Vec<Step> {
    let sidecars: Vec<&str> = pod.spec().sidecars().map(Spec::name).collect();
    let kill = |container: &Container| Step::Kill {
        id: container.id.clone(),
        name: container.name.clone(),
        grace,
        why: format!("Stopping container {}", container.name),
    };
    let is_sidecar = |container: &&Container| sidecars.contains(&container.name.as_str());
    let others: Vec<_> = seen.running().filter(|one| !is_sidecar(one)).map(kill).collect();
    if !others.is_empty() {
        return others;
    }
    let last = sidecars.iter().rev().find_map(|name| seen.running().find(|one| one.name == *name));
    last.or_else(|| seen.running().next()).map(kill).into_iter().collect()
}
