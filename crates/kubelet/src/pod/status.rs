//! The status of a pod, computed from the runtime's containers and the worker's state.

mod conditions;
mod phase;

use api::core::{Container as Spec, Pod};
use object::{Lens, Text, Time, Value};

pub(crate) use self::conditions::{KUBELET_CONDITIONS, TERMINATION_BY_KUBELET};
use super::{
    observe::{ContainerRunState, RuntimeContainer, RuntimePodState},
    plan::{ContainerType, Failure, SECOND, WorkerState},
    restart::{self, RESTARTING_ALL},
};
use crate::{cgroup::ContainerLimits, status_size::most_groups};

/// Inputs of a pod status other than the pod, the runtime's containers and the worker's state.
#[derive(Clone, Debug, Default)]
pub struct StatusContext {
    pub host_ips: Vec<String>,
    /// Prefix of container ids, such as `containerd`.
    pub runtime_name: String,
    /// Nanoseconds since 1970.
    pub now: i64,
    /// The pod has terminated: no container runs or will run.
    pub ended: bool,
    /// Why a resize is pending: reason and message.
    pub pending: Option<(String, String)>,
}

/// Computes the new status of `pod` from its previous one.
pub fn status(
    pod: &Pod,
    seen: &RuntimePodState,
    memory: &WorkerState,
    around: &StatusContext,
) -> Value {
    let mut status = pod.status().tree().clone();
    if !status.is_object() {
        status = Value::object();
    }
    let spec = pod.spec();
    let writer = StatusBuilder { pod, seen, memory, around };
    if let Some(failed) = memory.failure.as_ref().filter(|failed| failed.rejected) {
        return writer.rejected(failed);
    }
    let list = |role: fn(&Spec) -> ContainerType, containers: Vec<&Spec>| -> Value {
        containers.iter().map(|one| writer.container(one, role(one))).collect()
    };
    let init = list(
        |one| if one.is_sidecar() { ContainerType::Sidecar } else { ContainerType::Init },
        spec.init_containers().iter().collect(),
    );
    let regular = list(|_| ContainerType::Regular, spec.containers().iter().collect());
    let ephemeral = spec
        .ephemeral_containers()
        .iter()
        .map(api::core::EphemeralContainer::as_container)
        .collect();
    let ephemeral = list(|_| ContainerType::Ephemeral, ephemeral);
    let phase = writer.phase(&init, &regular);
    status["phase"] = phase.into();
    if let Some(Failure { reason, message, .. }) = &memory.failure {
        (status["reason"], status["message"]) = ((&**reason).into(), (&**message).into());
    }
    status["qosClass"] = pod.qos_class().into();
    let generation = pod.metadata().generation();
    if generation != 0 {
        status["observedGeneration"] = generation.into();
    }
    if status["startTime"].is_null() {
        status["startTime"] = Time::format(around.now / SECOND).into();
    }
    writer.addresses(&mut status);
    status["conditions"] = writer.conditions(&status, phase, &init, &regular);
    for (name, value) in [
        ("initContainerStatuses", init),
        ("containerStatuses", regular),
        ("ephemeralContainerStatuses", ephemeral),
    ] {
        if value.items().is_empty() {
            status.remove(name);
        } else {
            status[name] = value;
        }
    }
    status
}

/// Computes the parts of a pod's status.
struct StatusBuilder<'a> {
    pod: &'a Pod,
    seen: &'a RuntimePodState,
    memory: &'a WorkerState,
    around: &'a StatusContext,
}

impl StatusBuilder<'_> {
    /// The status of a pod that was rejected at admission.
    fn rejected(&self, failed: &Failure) -> Value {
        let mut status = Value::object();
        status["phase"] = "Failed".into();
        (status["reason"], status["message"]) =
            ((&*failed.reason).into(), (&*failed.message).into());
        status["qosClass"] = self.pod.qos_class().into();
        let old = self.pod.status();
        let start =
            old.start_time().map_or_else(|| Time::format(self.around.now / SECOND), Text::from);
        status["startTime"] = start.into();
        let generation = self.pod.metadata().generation();
        if generation != 0 {
            status["observedGeneration"] = generation.into();
        }
        let theirs = old.conditions().iter().filter(|one| {
            one.type_() == "PodScheduled" || !KUBELET_CONDITIONS.contains(&one.type_())
        });
        status["conditions"] = theirs.map(|one| one.tree().clone()).collect();
        status
    }

    fn addresses(&self, status: &mut Value) {
        let list = |ips: &[String]| -> Value {
            let one = |ip: &String| {
                let mut entry = Value::object();
                entry["ip"] = (&**ip).into();
                entry
            };
            ips.iter().map(one).collect()
        };
        if let Some(first) = self.around.host_ips.first() {
            status["hostIP"] = (&**first).into();
            status["hostIPs"] = list(&self.around.host_ips);
        }
        let ips = if self.pod.spec().host_network() {
            self.around.host_ips.clone()
        } else {
            self.seen.sandbox().map(|sandbox| sandbox.ips.clone()).unwrap_or_default()
        };
        if let Some(first) = ips.first() {
            status["podIP"] = (&**first).into();
            status["podIPs"] = list(&ips);
        }
    }

    fn container(&self, spec: &Spec, role: ContainerType) -> Value {
        let name = spec.name();
        let mut out = Value::object();
        out["name"] = name.into();
        out["image"] = spec.image().into();
        out["imageID"] = "".into();
        out["ready"] = false.into();
        out["restartCount"] = 0.into();
        out["started"] = false.into();
        out["state"] = Value::object();
        out["lastState"] = Value::object();
        mounts(spec, &mut out);
        let waiting = self.memory.waiting_reasons.get(name);
        let Some(found) = self.seen.newest(name) else {
            out["state"] = self.waiting(waiting, role);
            self.preserve_previous(spec, role, &mut out);
            return out;
        };
        out["restartCount"] = found.restarts.into();
        out["imageID"] = (&*found.image_id).into();
        // a runtime that was given an image id may not know its name
        if !found.image.is_empty() && !found.image.starts_with("sha256:") {
            out["image"] = (&*found.image).into();
        }
        out["containerID"] = self.id(found).into();
        if role != ContainerType::Ephemeral {
            self.resources(spec, found, &mut out);
        }
        if let Some((uid, gid, groups)) = &found.user {
            let user = &mut out["user"]["linux"];
            (user["uid"], user["gid"]) = ((*uid).into(), (*gid).into());
            let shown = groups.iter().take(most_groups(self.pod));
            user["supplementalGroups"] = shown.map(|group| Value::from(*group)).collect();
        }
        if let Some(previous) =
            self.seen.previous(name).filter(|one| one.state == ContainerRunState::Exited)
        {
            out["lastState"] = self.terminated(previous);
        } else if let Some(past) = self.memory.past.get(name) {
            out["lastState"] = last_state(past, found.restarts);
        }
        match found.state {
            ContainerRunState::Running | ContainerRunState::Unknown => {
                let probes = self.memory.probes.get(&found.id);
                out["state"]["running"]["startedAt"] = time(found.started).into();
                out["ready"] = probes.is_some_and(|probes| probes.ready).into();
                out["started"] = probes.is_some_and(|probes| probes.started).into();
            }
            ContainerRunState::Created => out["state"] = self.waiting(waiting, role),
            ContainerRunState::Exited => {
                let ended = self.terminated(found);
                if let Some(waiting) = waiting.filter(|_| !self.around.ended) {
                    out["lastState"] = ended;
                    out["state"] = self.waiting(Some(waiting), role);
                } else {
                    out["state"] = ended;
                }
                out["ready"] = (role == ContainerType::Init && found.exit_code == 0).into();
            }
        }
        out
    }

    /// Sets `allocatedResources`, and `resources` to the limits that are in effect.
    fn resources(&self, spec: &Spec, found: &RuntimeContainer, out: &mut Value) {
        let granted = spec.resources();
        if !granted.requests().is_empty() {
            out["allocatedResources"] = granted.tree()["requests"].clone();
        }
        let mut has = Value::object();
        for (name, amounts) in granted.tree().entries().filter(|(name, _)| *name != "claims") {
            has[name] = amounts.clone();
        }
        let running = found.state == ContainerRunState::Running;
        if running
            && found.limits.is_some_and(|limits| limits != ContainerLimits::of(self.pod, spec))
        {
            let id = self.id(found);
            let status = self.pod.status();
            let lists = [status.container_statuses(), status.init_container_statuses()];
            let old = lists.iter().find_map(|list| list.find(|one| one.container_id() == id));
            if let Some(old) = old.and_then(|old| old.resources()) {
                has = old.tree().clone();
            }
        }
        out["resources"] = has;
    }

    /// Whether the limits of a running container differ from the allocated ones.
    fn is_resizing(&self) -> bool {
        let spec = self.pod.spec();
        let mut lasting = spec.containers().iter().chain(spec.sidecars());
        lasting.any(|one| {
            let found = self
                .seen
                .newest(one.name())
                .filter(|found| found.state == ContainerRunState::Running);
            let limits = found.and_then(|found| found.limits);
            limits.is_some_and(|limits| limits != ContainerLimits::of(self.pod, one))
        })
    }

    /// Keeps the status of a container that the runtime no longer has.
    fn preserve_previous(&self, spec: &Spec, role: ContainerType, out: &mut Value) {
        let name = spec.name();
        let status = self.pod.status();
        let lists = [
            status.container_statuses(),
            status.init_container_statuses(),
            status.ephemeral_container_statuses(),
        ];
        let old = lists.iter().find_map(|list| list.find(|one| one.name() == name));
        let past = self.memory.past.get(name).or_else(|| old.map(Lens::tree));
        let Some(past) = past else { return };
        let has_ended = !past["state"]["terminated"].is_null();
        let stays = self.pod.is_finished()
            || role == ContainerType::Ephemeral
            || restart::is_done(self.pod, spec, past);
        if has_ended && stays {
            *out = past.clone();
        } else if self.around.ended && !past["state"]["running"].is_null() {
            // it was lost with its sandbox
            let mut ended = Value::object();
            ended["exitCode"] = 137.into();
            ended["reason"] = "ContainerStatusUnknown".into();
            ended["message"] =
                "The container could not be located when the pod was terminated".into();
            (ended["startedAt"], ended["finishedAt"]) = (Value::Null, Value::Null);
            out["state"] = Value::object();
            out["state"]["terminated"] = ended;
            out["restartCount"] = past["restartCount"].clone();
        } else if self.memory.past.contains_key(name) {
            let next = restart::next_count(past);
            let is_counted = restart::is_by_rule(past);
            out["restartCount"] =
                if is_counted { next.into() } else { past["restartCount"].clone() };
            out["lastState"] = last_state(past, next);
            if is_counted && !self.memory.waiting_reasons.contains_key(name) {
                let message = "The container is removed because RestartAllContainers in place";
                out["state"] = self.waiting(Some(&(RESTARTING_ALL.into(), message.into())), role);
            }
        }
    }

    fn waiting(&self, why: Option<&(String, String)>, role: ContainerType) -> Value {
        let mut out = Value::object();
        let waiting = &mut out["waiting"];
        let initializing =
            !self.pod.spec().init_containers().is_empty() && role != ContainerType::Ephemeral;
        waiting["reason"] = match why {
            Some((reason, _)) => (&**reason).into(),
            None if initializing => "PodInitializing".into(),
            None => "ContainerCreating".into(),
        };
        if let Some((_, message)) = why.filter(|(_, message)| !message.is_empty()) {
            waiting["message"] = (&**message).into();
        }
        out
    }

    fn terminated(&self, found: &RuntimeContainer) -> Value {
        let mut out = Value::object();
        let ended = &mut out["terminated"];
        ended["exitCode"] = found.exit_code.into();
        let reason = match (&*found.reason, found.exit_code) {
            ("", 0) => "Completed",
            ("", _) => "Error",
            (reason, _) => reason,
        };
        ended["reason"] = reason.into();
        if !found.message.is_empty() {
            ended["message"] = (&*found.message).into();
        }
        ended["startedAt"] = time(found.started).into();
        ended["finishedAt"] = time(found.finished).into();
        ended["containerID"] = self.id(found).into();
        out
    }

    fn id(&self, found: &RuntimeContainer) -> String {
        format!("{}://{}", self.around.runtime_name, found.id)
    }
}

/// `lastState` of a container with this restart count, when the runtime no longer has its predecessor.
fn last_state(past: &Value, restart_count: i32) -> Value {
    let counted = past["restartCount"].as_i64().unwrap_or_default();
    let mut last = past["lastState"].clone();
    if let Some(ended) = restart::ended(past).filter(|_| i64::from(restart_count) > counted) {
        last = Value::object();
        last["terminated"] = ended.clone();
    }
    if last.is_object() { last } else { Value::object() }
}

/// Sets `volumeMounts`: the volumes of the container and whether they are read-only.
fn mounts(spec: &Spec, out: &mut Value) {
    let shown = spec.volume_mounts().iter().map(|mount| {
        let mut entry = Value::object();
        (entry["name"], entry["mountPath"]) = (mount.name().into(), mount.mount_path().into());
        if mount.read_only() {
            entry["readOnly"] = true.into();
            let how = mount.recursive_read_only().filter(|how| *how == "Enabled");
            entry["recursiveReadOnly"] = how.unwrap_or("Disabled").into();
        }
        entry
    });
    let shown: Value = shown.collect();
    if !shown.items().is_empty() {
        out["volumeMounts"] = shown;
    }
}

fn exit_code(state: &Value) -> Option<i64> {
    state["terminated"]["exitCode"].as_i64()
}

fn names_where(statuses: &Value, is: impl Fn(&Value) -> bool) -> Vec<String> {
    let found = statuses.items().iter().filter(|one| is(one));
    found.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
}

fn time(nanos: i64) -> Text {
    Time::format(nanos.div_euclid(SECOND))
}

#[cfg(test)]
mod tests;
