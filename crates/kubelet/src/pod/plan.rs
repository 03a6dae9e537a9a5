//! What a pod needs next: a pure function of what is wanted, what the runtime shows and
//! what the worker remembers.
//!
//! ```text
//!  wanted, nothing there        Prepare, Sandbox
//!  sandbox ready                Start the next init container, or all others
//!  a container has exited       Start it again after its back-off, or leave it
//!  the pod is to end            Kill containers, then sidecars, StopSandbox, RemoveSandbox, Clean
//! ```

use std::collections::{BTreeMap, HashMap};

use api::core::{Container as Spec, Pod};

use super::{
    observe::{Container, Observed, State},
    restart::{self, Past, is_done, restarts},
};
use crate::cgroup::Limits;

/// Nanoseconds in a second: the runtime's times are in these.
pub(crate) const SECOND: i64 = 1_000_000_000;
const FIRST_BACKOFF: i64 = 10;
const LAST_BACKOFF: i64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Init,
    Sidecar,
    Regular,
    Ephemeral,
}

impl Role {
    /// What metrics call such a container.
    pub(crate) fn metric_name(self) -> &'static str {
        match self {
            Self::Init | Self::Sidecar => "init_container",
            Self::Regular => "container",
            Self::Ephemeral => "ephemeral_container",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Folders, volumes and the pod's group.
    Prepare,
    Sandbox {
        attempt: u32,
    },
    Start {
        name: String,
        role: Role,
        restarts: i32,
    },
    /// Neighbours in a plan happen together.
    Kill {
        id: String,
        name: String,
        grace: i64,
        why: String,
    },
    /// Gives running containers, by id and name, the limits that the pod now has.
    Resize {
        containers: Vec<(String, String)>,
    },
    Remove {
        id: String,
    },
    StopSandbox {
        id: String,
    },
    RemoveSandbox {
        id: String,
    },
    /// Volumes, folders and groups go.
    Clean,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// When to look again though nothing has happened.
    pub at: Option<i64>,
    /// Nothing of the pod is left to do once the steps are done.
    pub ended: bool,
    /// The steps remove all containers, for all to begin again.
    pub restarts_all: bool,
}

/// A pod on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub since: i64,
    /// Seconds.
    pub grace: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Volumes are in place.
    pub prepared: bool,
    pub backoffs: HashMap<String, Backoff>,
    /// Why containers wait: reason and message.
    pub waiting: BTreeMap<String, (String, String)>,
    /// What failed is not tried again before.
    pub not_before: HashMap<String, i64>,
    /// By container id.
    pub probes: HashMap<String, Probes>,
    pub failed: Option<Failure>,
    /// New limits were granted that are not in force yet.
    pub resizing: bool,
    /// What stands against them.
    pub resize: Option<String>,
    /// Containers that the runtime may no longer have.
    pub past: Past,
}

/// The pod has failed as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub message: String,
    /// Seconds that its containers get, if not as many as the pod says.
    pub grace: Option<i64>,
    /// It was never let in.
    pub refused: bool,
    /// It had to go for others.
    pub disrupted: bool,
}

/// What probes say of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    pub started: bool,
    pub ready: bool,
    /// Why it must be killed, and how long it gets if not as long as the pod.
    pub failed: Option<(String, Option<i64>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub seconds: i64,
    pub updated: i64,
}

/// The memory's key for the sandbox.
pub const SANDBOX: &str = "";
/// The memory's key for restarts of all containers. No container is called so.
pub const ALL: &str = "all containers";
/// The memory's key for new limits.
pub const RESIZE: &str = "resize";

pub fn plan(
    pod: &Pod,
    ending: Option<Ending>,
    seen: &Observed,
    memory: &mut Memory,
    now: i64,
) -> Plan {
    if let Some(ending) = ending {
        return end(pod, ending, seen, now);
    }
    if memory.failed.is_some() || pod.is_finished() || is_over(pod, seen, &memory.past) {
        let grace = memory.failed.as_ref().and_then(|failed| failed.grace);
        return finish(pod, seen, grace);
    }
    let Some(sandbox) = seen.sandbox() else { return begin(pod, seen, memory, now) };
    if let Some(plan) = restart_all(pod, seen, memory, now) {
        return plan;
    }
    let sandbox = sandbox.id.clone();
    let mut planner =
        Planner { pod, seen, memory, now, sandbox, resized: Vec::new(), plan: Plan::default() };
    if planner.init() {
        planner.regular();
        planner.ephemeral();
    }
    planner.resize();
    planner.tidy();
    planner.plan
}

/// Whether all that the pod was for has been done, or can no longer be.
pub fn is_over(pod: &Pod, seen: &Observed, past: &Past) -> bool {
    let done = |container: &Spec| match seen.newest(container.name()) {
        Some(last) => last.state == State::Exited && !restarts(pod, container, last.exit_code),
        None => past.get(container.name()).is_some_and(|past| is_done(pod, container, past)),
    };
    let broken = pod.spec().init_containers().iter().any(|container| {
        !container.is_sidecar()
            && seen.newest(container.name()).is_some_and(|last| last.exit_code != 0)
            && done(container)
    });
    broken || pod.spec().containers().iter().all(done)
}

/// When a container of this name may start again, having ended at `finished`; remembers
/// that it does.
fn next_start(memory: &mut Memory, name: &str, finished: i64, now: i64) -> Result<(), i64> {
    let last = memory.backoffs.get(name).copied();
    let stale =
        |backoff: &Backoff| finished.saturating_sub(backoff.updated) > 2 * LAST_BACKOFF * SECOND;
    match last.filter(|backoff| !stale(backoff)) {
        Some(backoff) if now < finished.saturating_add(backoff.seconds * SECOND) => {
            Err(finished.saturating_add(backoff.seconds * SECOND))
        }
        Some(backoff) => {
            let seconds = (backoff.seconds * 2).min(LAST_BACKOFF);
            memory.backoffs.insert(name.into(), Backoff { seconds, updated: now });
            Ok(())
        }
        None => {
            let fresh = Backoff { seconds: FIRST_BACKOFF, updated: now };
            memory.backoffs.insert(name.into(), fresh);
            Ok(())
        }
    }
}

struct Planner<'a> {
    pod: &'a Pod,
    seen: &'a Observed,
    memory: &'a mut Memory,
    now: i64,
    sandbox: String,
    /// Containers whose limits are no longer what the pod says.
    resized: Vec<(String, String)>,
    plan: Plan,
}

impl Planner<'_> {
    fn later(&mut self, at: i64) {
        self.plan.at = Some(self.plan.at.map_or(at, |known| known.min(at)));
    }

    fn here(&self, name: &str) -> Option<Container> {
        self.seen.newest(name).filter(|one| one.sandbox == self.sandbox).cloned()
    }

    fn started(&self, container: &Container) -> bool {
        self.memory.probes.get(&container.id).is_some_and(|probes| probes.started)
    }

    /// Whether other containers may run.
    fn init(&mut self) -> bool {
        let pod = self.pod;
        let begun = pod.spec().containers().iter().any(|one| self.here(one.name()).is_some());
        for container in pod.spec().init_containers().iter() {
            let found = self.here(container.name());
            if container.is_sidecar() {
                self.keep(container, Role::Sidecar);
                let up = found
                    .is_some_and(|found| found.state == State::Running && self.started(&found));
                if !up && !begun {
                    return false;
                }
                continue;
            }
            match found {
                _ if begun => {}
                Some(found) if found.state == State::Exited && found.exit_code == 0 => {}
                _ => {
                    self.keep(container, Role::Init);
                    return false;
                }
            }
        }
        true
    }

    fn regular(&mut self) {
        for container in self.pod.spec().containers().iter() {
            self.keep(container, Role::Regular);
        }
    }

    fn ephemeral(&mut self) {
        let statuses = self.pod.status().ephemeral_container_statuses();
        for container in self.pod.spec().ephemeral_containers().iter() {
            let container = container.as_container();
            // one that has ended never runs again, also when a new sandbox knows nothing of it
            let has_ended = statuses.find(|status| {
                status.name() == container.name() && status.state().terminated().is_some()
            });
            if self.seen.newest(container.name()).is_none() && has_ended.is_none() {
                self.start(container, Role::Ephemeral);
            }
        }
    }

    /// Starts a container that is not there, ends one that must not be as it is.
    fn keep(&mut self, spec: &Spec, role: Role) {
        let Some(found) = self.here(spec.name()) else {
            return if role == Role::Regular && self.was_done(spec) {
                ()
            } else {
                self.start(spec, role)
            };
        };
        match found.state {
            State::Running => self.check(spec, role, &found),
            State::Unknown => self.kill(&found, "Container is in unknown state".into(), None),
            State::Created => {
                // its start failed; the next try makes a new one
                if self.start_is_due(spec.name()) {
                    self.plan.steps.push(Step::Remove { id: found.id });
                    self.start(spec, role);
                }
            }
            State::Exited => {
                let again = role == Role::Sidecar || restarts(self.pod, spec, found.exit_code);
                if again {
                    self.restart(spec, role, &found);
                }
            }
        }
    }

    /// Whether a container ended for good in an earlier sandbox.
    fn was_done(&self, spec: &Spec) -> bool {
        match self.seen.newest(spec.name()) {
            Some(last) => last.state == State::Exited && !restarts(self.pod, spec, last.exit_code),
            None => {
                let past = self.memory.past.get(spec.name());
                past.is_some_and(|past| is_done(self.pod, spec, past))
            }
        }
    }

    fn check(&mut self, spec: &Spec, role: Role, found: &Container) {
        let probes = self.memory.probes.get(&found.id);
        if let Some((why, grace)) = probes.and_then(|probes| probes.failed.clone()) {
            return self.kill(found, why, grace);
        }
        if role == Role::Regular && !found.hash.is_empty() && found.hash != hash(spec) {
            let why = format!("Container {} definition changed", spec.name());
            return self.kill(found, format!("{why}, will be restarted"), None);
        }
        let wanted = Limits::of(self.pod, spec);
        match found.limits.filter(|limits| *limits != wanted) {
            Some(limits) if role != Role::Init && wanted.needs_restart(&limits, spec) => {
                let why = format!("Container {} resize requires restart", spec.name());
                self.kill(found, why, None);
            }
            Some(_) if role != Role::Init => {
                self.resized.push((found.id.clone(), found.name.clone()));
            }
            _ => {}
        }
    }

    fn resize(&mut self) {
        let containers = std::mem::take(&mut self.resized);
        let due = self.memory.resizing || !containers.is_empty();
        if due && self.start_is_due(RESIZE) {
            self.plan.steps.push(Step::Resize { containers });
        }
    }

    fn kill(&mut self, found: &Container, why: String, grace: Option<i64>) {
        self.plan.steps.push(Step::Kill {
            id: found.id.clone(),
            name: found.name.clone(),
            grace: grace.unwrap_or(self.pod.spec().termination_grace_period_seconds()),
            why,
        });
    }

    fn restart(&mut self, spec: &Spec, role: Role, last: &Container) {
        if !self.start_is_due(spec.name()) {
            return;
        }
        match next_start(self.memory, spec.name(), last.finished, self.now) {
            Ok(()) => self.start(spec, role),
            Err(at) => {
                let meta = self.pod.metadata();
                let seconds = self.memory.backoffs[spec.name()].seconds;
                let message = format!(
                    "back-off {} restarting failed container={} pod={}_{}({})",
                    go_seconds(seconds),
                    spec.name(),
                    meta.name(),
                    meta.namespace(),
                    meta.uid()
                );
                let why = ("CrashLoopBackOff".to_owned(), message);
                self.memory.waiting.insert(spec.name().into(), why);
                self.later(at);
            }
        }
    }

    /// Whether the last failed try is long enough ago.
    fn start_is_due(&mut self, name: &str) -> bool {
        match self.memory.not_before.get(name).copied() {
            Some(at) if at > self.now => {
                self.later(at);
                false
            }
            _ => true,
        }
    }

    fn start(&mut self, spec: &Spec, role: Role) {
        if !self.start_is_due(spec.name()) {
            return;
        }
        let restarts = match self.seen.newest(spec.name()) {
            // one that was made but never ran does not count
            Some(last) if last.state == State::Created => last.restarts,
            Some(last) => last.restarts.saturating_add(1),
            None => self.memory.past.get(spec.name()).map_or(0, restart::next_count),
        };
        self.plan.steps.push(Step::Start { name: spec.name().into(), role, restarts });
    }

    /// One dead container of a name is kept for its logs; sandboxes without containers go.
    fn tidy(&mut self) {
        let mut kept: HashMap<&str, usize> = HashMap::new();
        for container in &self.seen.containers {
            let count = kept.entry(&container.name).or_default();
            *count += 1;
            if *count > 2 && container.state == State::Exited {
                self.plan.steps.push(Step::Remove { id: container.id.clone() });
            }
        }
        for sandbox in self.seen.sandboxes.iter().skip(1) {
            if !self.seen.containers.iter().any(|one| one.sandbox == sandbox.id) {
                self.plan.steps.push(Step::RemoveSandbox { id: sandbox.id.clone() });
            }
        }
    }
}

/// A container ended so that all must begin again: those that run are ended at once, and all are removed. The one that
/// caused it goes last, so that a kubelet that is interrupted goes on.
fn restart_all(pod: &Pod, seen: &Observed, memory: &mut Memory, now: i64) -> Option<Plan> {
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
fn begin(pod: &Pod, seen: &Observed, memory: &mut Memory, now: i64) -> Plan {
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
fn finish(pod: &Pod, seen: &Observed, grace: Option<i64>) -> Plan {
    let grace = grace.unwrap_or_else(|| pod.spec().termination_grace_period_seconds());
    let steps = kills(pod, seen, grace);
    if !steps.is_empty() {
        return Plan { steps, ..Plan::default() };
    }
    let ready = seen.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let steps = ready.map(|sandbox| Step::StopSandbox { id: sandbox.id.clone() }).collect();
    Plan { steps, ..Plan::default() }
}

fn end(pod: &Pod, ending: Ending, seen: &Observed, now: i64) -> Plan {
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

/// What a container is made from; when it changes, so does the container.
pub fn hash(container: &Spec) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{}\0{}", container.name(), container.image()).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:x}")
}

/// As Go prints it: `10s`, `1m20s`, `5m0s`.
pub(crate) fn go_seconds(seconds: i64) -> String {
    object::Duration::text(seconds.saturating_mul(SECOND)).to_string()
}

#[cfg(test)]
mod tests;
