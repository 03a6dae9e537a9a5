//! Plans for pods without a working sandbox: creating one, restarting all containers, completion and termination.

use api::core::{Container as Spec, Pod};

use super::{
    ALL, Failure, Plan, SANDBOX_BACKOFF_KEY, SECOND, Step, Termination, WorkerState, check_backoff,
};
use crate::pod::{
    observe::{RuntimeContainer, RuntimePodState},
    restart,
};

/// Plans a restart of all containers, triggered by a container whose exit matched a `RestartAllContainers` rule: kills
/// the running ones without grace and removes all of them. The trigger is removed last, so that an interrupted kubelet
/// resumes the restart.
pub(super) fn restart_all(
    pod: &Pod,
    seen: &RuntimePodState,
    memory: &mut WorkerState,
    now: i64,
) -> Option<Plan> {
    let finished = restart::trigger(pod, seen)?.finished;
    if let Err(at) = check_backoff(memory, ALL, finished, now) {
        return Some(Plan { next_at: Some(at), ..Plan::default() });
    }
    let of_pod =
        |one: &&RuntimeContainer| pod.spec().all_containers().any(|spec| spec.name() == one.name);
    let kills = seen.running().filter(of_pod).map(|one| Step::KillContainer {
        id: one.id.clone(),
        name: one.name.clone(),
        grace: 0,
        why: format!("Stopping container {}", one.name),
    });
    let mut steps: Vec<Step> = kills.collect();
    let is_cause = |one: &&RuntimeContainer| {
        pod.spec()
            .all_containers()
            .any(|spec| spec.name() == one.name && restart::triggers_all(spec, one))
    };
    let all = seen.containers.iter().filter(of_pod);
    let (causes, others): (Vec<_>, Vec<_>) = all.partition(is_cause);
    let removed = others.into_iter().chain(causes);
    steps.extend(removed.map(|one| Step::RemoveContainer { id: one.id.clone() }));
    Some(Plan { steps, restarts_all: true, ..Plan::default() })
}

/// Plans a new sandbox: kills the containers of the last one first.
pub(super) fn plan_sandbox(
    pod: &Pod,
    seen: &RuntimePodState,
    memory: &mut WorkerState,
    now: i64,
) -> Plan {
    let mut plan = Plan::default();
    if !restart::can_restart(pod) && !seen.containers.is_empty() {
        memory.failure = Some(Failure {
            reason: "ContainerStatusUnknown".into(),
            message: "The pod's sandbox has ended and its containers must not run again".into(),
            ..Failure::default()
        });
        return plan_completion(pod, seen, None);
    }
    let due = memory.retry_at.get(SANDBOX_BACKOFF_KEY).copied().unwrap_or_default();
    if due > now {
        return Plan { next_at: Some(due), ..plan };
    }
    for container in seen.running() {
        plan.steps.push(Step::KillContainer {
            id: container.id.clone(),
            name: container.name.clone(),
            grace: pod.spec().termination_grace_period_seconds(),
            why: format!("Stopping container {}", container.name),
        });
    }
    if let Some(last) = seen.sandboxes.first() {
        plan.steps.push(Step::StopSandbox { id: last.id.clone() });
    }
    if !memory.volumes_ready {
        plan.steps.push(Step::PrepareVolumes);
    }
    let attempt = seen.sandboxes.first().map_or(0, |last| last.attempt.saturating_add(1));
    plan.steps.push(Step::CreateSandbox { attempt });
    plan
}

/// Plan for a node shutdown: containers are killed as gracefully as on deletion. Their records stay, so that a later
/// start counts restarts and shows last states.
pub(crate) fn halt(pod: &Pod, seen: &RuntimePodState) -> Plan {
    plan_completion(pod, seen, None)
}

/// Plan for a finished or failed pod: kills what still runs and stops the sandboxes. Exited containers stay for their
/// logs.
pub(super) fn plan_completion(pod: &Pod, seen: &RuntimePodState, grace: Option<i64>) -> Plan {
    let grace = grace.unwrap_or_else(|| pod.spec().termination_grace_period_seconds());
    let steps = kills(pod, seen, grace);
    if !steps.is_empty() {
        return Plan { steps, ..Plan::default() };
    }
    let ready = seen.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let steps = ready.map(|sandbox| Step::StopSandbox { id: sandbox.id.clone() }).collect();
    Plan { steps, ..Plan::default() }
}

/// Plan for a pod that is being deleted: kills its containers, then removes sandboxes, volumes and cgroup.
pub(super) fn plan_termination(
    pod: &Pod,
    ending: Termination,
    seen: &RuntimePodState,
    now: i64,
) -> Plan {
    let left = ending.grace.saturating_sub(now.saturating_sub(ending.since) / SECOND);
    let steps = kills(pod, seen, left.max(ending.grace.min(2)));
    if !steps.is_empty() {
        return Plan { steps, ..Plan::default() };
    }
    let mut plan = Plan { terminated: true, ..Plan::default() };
    for sandbox in &seen.sandboxes {
        plan.steps.push(Step::StopSandbox { id: sandbox.id.clone() });
    }
    for sandbox in &seen.sandboxes {
        plan.steps.push(Step::RemoveSandbox { id: sandbox.id.clone() });
    }
    plan.steps.push(Step::CleanUp);
    plan
}

/// Kills: all containers except sidecars at once, then one sidecar after the other, in reverse order.
fn kills(pod: &Pod, seen: &RuntimePodState, grace: i64) -> Vec<Step> {
    let sidecars: Vec<&str> = pod.spec().sidecars().map(Spec::name).collect();
    let kill = |container: &RuntimeContainer| Step::KillContainer {
        id: container.id.clone(),
        name: container.name.clone(),
        grace,
        why: format!("Stopping container {}", container.name),
    };
    let is_sidecar = |container: &&RuntimeContainer| sidecars.contains(&container.name.as_str());
    let others: Vec<_> = seen.running().filter(|one| !is_sidecar(one)).map(kill).collect();
    if !others.is_empty() {
        return others;
    }
    let last = sidecars.iter().rev().find_map(|name| seen.running().find(|one| one.name == *name));
    last.or_else(|| seen.running().next()).map(kill).into_iter().collect()
}
