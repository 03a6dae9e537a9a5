//! Plans the containers of a pod whose sandbox is ready.

use std::collections::HashMap;

use api::core::{Container as Spec, Pod};

use super::{
    ContainerType, Plan, RESIZE_BACKOFF_KEY, Step, WorkerState, check_backoff, go_seconds, hash,
};
use crate::{
    cgroup::ContainerLimits,
    pod::{
        observe::{ContainerRunState, RuntimeContainer, RuntimePodState},
        restart::{self, is_done, restarts},
    },
};

/// Collects the steps for the containers of a pod.
pub(super) struct Planner<'a> {
    pub(super) pod: &'a Pod,
    pub(super) seen: &'a RuntimePodState,
    pub(super) memory: &'a mut WorkerState,
    pub(super) now: i64,
    pub(super) sandbox: String,
    /// Id and name of the running containers whose limits differ from the spec.
    pub(super) resized: Vec<(String, String)>,
    pub(super) plan: Plan,
}

impl Planner<'_> {
    fn plan_again_at(&mut self, at: i64) {
        self.plan.next_at = Some(self.plan.next_at.map_or(at, |known| known.min(at)));
    }

    fn current_container(&self, name: &str) -> Option<RuntimeContainer> {
        self.seen.newest(name).filter(|one| one.sandbox == self.sandbox).cloned()
    }

    fn started(&self, container: &RuntimeContainer) -> bool {
        self.memory.probes.get(&container.id).is_some_and(|probes| probes.started)
    }

    /// Plans init containers and sidecars. Returns whether the regular containers may run.
    pub(super) fn init(&mut self) -> bool {
        let pod = self.pod;
        let begun =
            pod.spec().containers().iter().any(|one| self.current_container(one.name()).is_some());
        for container in pod.spec().init_containers().iter() {
            let found = self.current_container(container.name());
            if container.is_sidecar() {
                self.plan_container(container, ContainerType::Sidecar);
                let up = found.is_some_and(|found| {
                    found.state == ContainerRunState::Running && self.started(&found)
                });
                if !up && !begun {
                    return false;
                }
                continue;
            }
            match found {
                _ if begun => {}
                Some(found) if found.state == ContainerRunState::Exited && found.exit_code == 0 => {
                }
                _ => {
                    self.plan_container(container, ContainerType::Init);
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn regular(&mut self) {
        for container in self.pod.spec().containers().iter() {
            self.plan_container(container, ContainerType::Regular);
        }
    }

    pub(super) fn ephemeral(&mut self) {
        let statuses = self.pod.status().ephemeral_container_statuses();
        for container in self.pod.spec().ephemeral_containers().iter() {
            let container = container.as_container();
            // a finished ephemeral container never runs again, not even in a new sandbox
            let has_ended = statuses.find(|status| {
                status.name() == container.name() && status.state().terminated().is_some()
            });
            if self.seen.newest(container.name()).is_none() && has_ended.is_none() {
                self.start(container, ContainerType::Ephemeral);
            }
        }
    }

    /// Starts a container that is missing, restarts one that exited, kills one that no longer matches.
    fn plan_container(&mut self, spec: &Spec, role: ContainerType) {
        let Some(found) = self.current_container(spec.name()) else {
            if role != ContainerType::Regular || !self.was_done(spec) {
                self.start(spec, role);
            }
            return;
        };
        match found.state {
            ContainerRunState::Running => self.check(spec, role, &found),
            ContainerRunState::Unknown => {
                self.kill(&found, "Container is in unknown state".into(), None);
            }
            ContainerRunState::Created => {
                // its start failed; the retry creates a new container
                if self.start_is_due(spec.name()) {
                    self.plan.steps.push(Step::RemoveContainer { id: found.id });
                    self.start(spec, role);
                }
            }
            ContainerRunState::Exited => {
                let again =
                    role == ContainerType::Sidecar || restarts(self.pod, spec, found.exit_code);
                if again {
                    self.restart(spec, role, &found);
                }
            }
        }
    }

    /// Whether a container finished for good in an earlier sandbox.
    fn was_done(&self, spec: &Spec) -> bool {
        if let Some(last) = self.seen.newest(spec.name()) {
            return last.state == ContainerRunState::Exited
                && !restarts(self.pod, spec, last.exit_code);
        }
        let past = self.memory.past.get(spec.name());
        past.is_some_and(|past| is_done(self.pod, spec, past))
    }

    fn check(&mut self, spec: &Spec, role: ContainerType, found: &RuntimeContainer) {
        let probes = self.memory.probes.get(&found.id);
        if let Some((why, grace)) = probes.and_then(|probes| probes.failed.clone()) {
            return self.kill(found, why, grace);
        }
        if role == ContainerType::Regular && !found.hash.is_empty() && found.hash != hash(spec) {
            let why = format!("Container {} definition changed", spec.name());
            return self.kill(found, format!("{why}, will be restarted"), None);
        }
        let wanted = ContainerLimits::of(self.pod, spec);
        match found.limits.filter(|limits| *limits != wanted) {
            Some(limits) if role != ContainerType::Init && wanted.needs_restart(&limits, spec) => {
                let why = format!("Container {} resize requires restart", spec.name());
                self.kill(found, why, None);
            }
            Some(_) if role != ContainerType::Init => {
                self.resized.push((found.id.clone(), found.name.clone()));
            }
            _ => {}
        }
    }

    pub(super) fn resize(&mut self) {
        let containers = std::mem::take(&mut self.resized);
        let due = self.memory.resize_in_progress || !containers.is_empty();
        if due && self.start_is_due(RESIZE_BACKOFF_KEY) {
            self.plan.steps.push(Step::Resize { containers });
        }
    }

    fn kill(&mut self, found: &RuntimeContainer, why: String, grace: Option<i64>) {
        self.plan.steps.push(Step::KillContainer {
            id: found.id.clone(),
            name: found.name.clone(),
            grace: grace.unwrap_or(self.pod.spec().termination_grace_period_seconds()),
            why,
        });
    }

    fn restart(&mut self, spec: &Spec, role: ContainerType, last: &RuntimeContainer) {
        if !self.start_is_due(spec.name()) {
            return;
        }
        match check_backoff(self.memory, spec.name(), last.finished, self.now) {
            Ok(()) => self.start(spec, role),
            Err(at) => {
                let meta = self.pod.metadata();
                let backoff = self.memory.backoffs.get(spec.name());
                let seconds = backoff.map_or(0, |backoff| backoff.seconds);
                let message = format!(
                    "back-off {} restarting failed container={} pod={}_{}({})",
                    go_seconds(seconds),
                    spec.name(),
                    meta.name(),
                    meta.namespace(),
                    meta.uid()
                );
                let why = ("CrashLoopBackOff".to_owned(), message);
                self.memory.waiting_reasons.insert(spec.name().into(), why);
                self.plan_again_at(at);
            }
        }
    }

    /// Whether the retry time after the last failure has passed.
    fn start_is_due(&mut self, name: &str) -> bool {
        match self.memory.retry_at.get(name).copied() {
            Some(at) if at > self.now => {
                self.plan_again_at(at);
                false
            }
            _ => true,
        }
    }

    fn start(&mut self, spec: &Spec, role: ContainerType) {
        if !self.start_is_due(spec.name()) {
            return;
        }
        let restarts = match self.seen.newest(spec.name()) {
            // a container that was created but never ran does not count as a restart
            Some(last) if last.state == ContainerRunState::Created => last.restarts,
            Some(last) => last.restarts.saturating_add(1),
            None => self.memory.past.get(spec.name()).map_or(0, restart::next_count),
        };
        self.plan.steps.push(Step::StartContainer { name: spec.name().into(), role, restarts });
    }

    /// Plans removals: keeps the two newest containers of each name, the second for its logs, and removes old sandboxes
    /// without containers.
    pub(super) fn plan_removals(&mut self) {
        let mut kept: HashMap<&str, usize> = HashMap::new();
        for container in &self.seen.containers {
            let count = kept.entry(&container.name).or_default();
            *count += 1;
            if *count > 2 && container.state == ContainerRunState::Exited {
                self.plan.steps.push(Step::RemoveContainer { id: container.id.clone() });
            }
        }
        for sandbox in self.seen.sandboxes.iter().skip(1) {
            if !self.seen.containers.iter().any(|one| one.sandbox == sandbox.id) {
                self.plan.steps.push(Step::RemoveSandbox { id: sandbox.id.clone() });
            }
        }
    }
}
