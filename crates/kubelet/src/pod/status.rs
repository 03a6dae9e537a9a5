//! What the API is told of a pod.

use api::core::{Container as Spec, Pod};
use object::{Lens, Text, Time, Value, count};

use super::{
    observe::{Container, Observed, State},
    plan::{Memory, Role, SECOND},
};

/// What every status of this node says.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub host_ips: Vec<String>,
    /// What container ids begin with.
    pub runtime: String,
    /// Nanoseconds since 1970.
    pub now: i64,
    /// The pod has ended: nothing of it runs, nor will.
    pub ended: bool,
}

/// The status of `pod`, given what it was.
pub fn status(pod: &Pod, seen: &Observed, memory: &Memory, around: &Surroundings) -> Value {
    let mut status = pod.status().tree().clone();
    if !status.is_object() {
        status = Value::object();
    }
    let spec = pod.spec();
    let writer = Writer { pod, seen, memory, around };
    let list = |role: fn(&Spec) -> Role, containers: Vec<&Spec>| -> Value {
        containers.iter().map(|one| writer.container(one, role(one))).collect()
    };
    let init = list(
        |one| if one.is_sidecar() { Role::Sidecar } else { Role::Init },
        spec.init_containers().iter().collect(),
    );
    let regular = list(|_| Role::Regular, spec.containers().iter().collect());
    let ephemeral = spec
        .ephemeral_containers()
        .iter()
        .map(api::core::EphemeralContainer::as_container)
        .collect();
    let ephemeral = list(|_| Role::Ephemeral, ephemeral);
    let phase = writer.phase(&init, &regular);
    status["phase"] = phase.into();
    if let Some((reason, message)) = &memory.failed {
        (status["reason"], status["message"]) = ((&**reason).into(), (&**message).into());
    }
    status["qosClass"] = pod.qos_class().into();
    let generation = pod.metadata().generation();
    if generation != 0 {
        status["observedGeneration"] = generation.into();
    }
    if status["startTime"].is_null() {
        status["startTime"] = Time::text(around.now / SECOND).into();
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

struct Writer<'a> {
    pod: &'a Pod,
    seen: &'a Observed,
    memory: &'a Memory,
    around: &'a Surroundings,
}

impl Writer<'_> {
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

    fn container(&self, spec: &Spec, role: Role) -> Value {
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
        let waiting = self.memory.waiting.get(name);
        let Some(found) = self.seen.newest(name) else {
            out["state"] = self.waiting(waiting, role);
            self.keep_old(name, &mut out);
            return out;
        };
        out["restartCount"] = found.restarts.into();
        out["imageID"] = (&*found.image_id).into();
        // a runtime that was given an id may know no better name
        if !found.image.is_empty() && !found.image.starts_with("sha256:") {
            out["image"] = (&*found.image).into();
        }
        out["containerID"] = self.id(found).into();
        if let Some(previous) = self.seen.previous(name).filter(|one| one.state == State::Exited) {
            out["lastState"] = self.terminated(previous);
        }
        match found.state {
            State::Running | State::Unknown => {
                let probes = self.memory.probes.get(&found.id);
                out["state"]["running"]["startedAt"] = time(found.started).into();
                out["ready"] = probes.is_some_and(|probes| probes.ready).into();
                out["started"] = probes.is_some_and(|probes| probes.started).into();
            }
            State::Created => out["state"] = self.waiting(waiting, role),
            State::Exited => {
                let ended = self.terminated(found);
                if let Some(waiting) = waiting.filter(|_| !self.around.ended) {
                    out["lastState"] = ended;
                    out["state"] = self.waiting(Some(waiting), role);
                } else {
                    out["state"] = ended;
                }
                out["ready"] = (role == Role::Init && found.exit_code == 0).into();
            }
        }
        out
    }

    /// What was known before the containers were removed stays known.
    fn keep_old(&self, name: &str, out: &mut Value) {
        let old = self.pod.status();
        let lists = [
            old.container_statuses(),
            old.init_container_statuses(),
            old.ephemeral_container_statuses(),
        ];
        let Some(old) = lists.iter().find_map(|list| list.find(|one| one.name() == name)) else {
            return;
        };
        if old.state().terminated().is_some() && self.pod.is_finished() {
            *out = old.tree().clone();
        } else if self.around.ended && old.state().running().is_some() {
            // it vanished with its sandbox
            let mut ended = Value::object();
            ended["exitCode"] = 137.into();
            ended["reason"] = "ContainerStatusUnknown".into();
            ended["message"] =
                "The container could not be located when the pod was terminated".into();
            (ended["startedAt"], ended["finishedAt"]) = (Value::Null, Value::Null);
            out["state"] = Value::object();
            out["state"]["terminated"] = ended;
            out["restartCount"] = old.restart_count().into();
        } else if old.restart_count() > 0 {
            out["restartCount"] = old.restart_count().into();
        }
    }

    fn waiting(&self, why: Option<&(String, String)>, role: Role) -> Value {
        let mut out = Value::object();
        let waiting = &mut out["waiting"];
        let initializing = !self.pod.spec().init_containers().is_empty() && role != Role::Ephemeral;
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

    fn terminated(&self, found: &Container) -> Value {
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

    fn id(&self, found: &Container) -> String {
        format!("{}://{}", self.around.runtime, found.id)
    }

    fn phase(&self, init: &Value, regular: &Value) -> &'static str {
        let old = self.pod.status().phase();
        if self.memory.failed.is_some() || old == "Failed" {
            return "Failed";
        }
        if old == "Succeeded" {
            return "Succeeded";
        }
        let policy = self.pod.spec().restart_policy();
        let specs: Vec<&Spec> = self.pod.spec().init_containers().iter().collect();
        let (mut pending, mut failed) = (false, false);
        for (status, spec) in init.items().iter().zip(specs) {
            let state = &status["state"];
            if spec.is_sidecar() {
                pending |= state["running"].is_null() || status["started"].as_bool() != Some(true);
                continue;
            }
            match exit_code(state) {
                Some(0) => {}
                Some(_) if spec.restart_policy().unwrap_or(policy) == "Never" => failed = true,
                _ => pending = true,
            }
        }
        let tally = Tally::of(regular);
        let begun = tally.running + tally.stopped > 0;
        if self.around.ended {
            let good =
                tally.waiting == 0 && tally.stopped == tally.succeeded && !failed && !pending;
            return if good { "Succeeded" } else { "Failed" };
        }
        match () {
            () if failed => "Failed",
            () if pending && !begun => "Pending",
            () if tally.waiting > 0 => "Pending",
            () if tally.running > 0 => "Running",
            () if tally.stopped == 0 => "Pending",
            () if policy == "Always" => "Running",
            () if tally.stopped == tally.succeeded => "Succeeded",
            () if policy == "Never" => "Failed",
            () => "Running",
        }
    }

    fn conditions(&self, status: &Value, phase: &str, init: &Value, regular: &Value) -> Value {
        let over = match phase {
            "Succeeded" => Some("PodCompleted"),
            "Failed" => Some("PodFailed"),
            _ => None,
        };
        let mut unready = names_where(regular, |one| one["ready"].as_bool() != Some(true));
        let specs: Vec<&Spec> = self.pod.spec().init_containers().iter().collect();
        let mut incomplete = Vec::new();
        for (one, spec) in init.items().iter().zip(specs) {
            let name = spec.name().to_owned();
            if spec.is_sidecar() {
                if one["started"].as_bool() != Some(true) {
                    incomplete.push(name.clone());
                }
                if one["ready"].as_bool() != Some(true) {
                    unready.push(name);
                }
            } else if exit_code(&one["state"]) != Some(0) {
                incomplete.push(name);
            }
        }
        let begun = Tally::of(regular);
        if begun.running + begun.stopped > 0 {
            incomplete.clear();
        }
        let ips = !status["podIP"].is_null();
        let sandboxed = over.is_none() && self.seen.sandbox().is_some() && ips;
        let list = |names: &[String]| format!("[{}]", names.join(" "));
        let ready = match over {
            Some(reason) => (false, reason, String::new()),
            None if unready.is_empty() => (true, "", String::new()),
            None => {
                let message = format!("containers with unready status: {}", list(&unready));
                (false, "ContainersNotReady", message)
            }
        };
        let initialized = if incomplete.is_empty() {
            let reason = if phase == "Succeeded" { "PodCompleted" } else { "" };
            (true, reason, String::new())
        } else {
            let message = format!("containers with incomplete status: {}", list(&incomplete));
            (false, "ContainersNotInitialized", message)
        };
        let gated = if ready.0 { self.gates() } else { ready.clone() };
        let mut out = Conditions { pod: self.pod, now: self.around.now, list: Vec::new() };
        out.put("PodReadyToStartContainers", (sandboxed, "", String::new()));
        out.put("Initialized", initialized);
        out.put("Ready", gated);
        out.put("ContainersReady", ready);
        out.put("PodScheduled", (true, "", String::new()));
        out.finish()
    }

    /// Conditions that others set and the pod waits for.
    fn gates(&self) -> (bool, &'static str, String) {
        let status = self.pod.status();
        let gates = self.pod.spec().readiness_gates();
        let unmet: Vec<String> = gates
            .iter()
            .filter(|gate| !status.is_true(gate.condition_type()))
            .map(|gate| match status.condition(gate.condition_type()) {
                Some(_) => format!(
                    "the status of pod readiness gate \"{}\" is not \"True\", but False",
                    gate.condition_type()
                ),
                None => format!(
                    "corresponding condition of pod readiness gate \"{}\" does not exist.",
                    gate.condition_type()
                ),
            })
            .collect();
        if unmet.is_empty() {
            return (true, "", String::new());
        }
        (false, "ReadinessGatesNotReady", unmet.join(", "))
    }
}

struct Conditions<'a> {
    pod: &'a Pod,
    now: i64,
    list: Vec<Value>,
}

impl Conditions<'_> {
    fn put(&mut self, name: &str, (good, reason, message): (bool, &str, String)) {
        let status = if good { "True" } else { "False" };
        let mut condition = Value::object();
        condition["type"] = name.into();
        condition["status"] = status.into();
        condition["lastProbeTime"] = Value::Null;
        let old = self.pod.status().condition(name).filter(|old| old.status() == status);
        condition["lastTransitionTime"] = match old {
            Some(old) => old.last_transition_time().into(),
            None => Time::text(self.now / SECOND).into(),
        };
        let generation = self.pod.metadata().generation();
        if generation != 0 {
            condition["observedGeneration"] = generation.into();
        }
        if !reason.is_empty() {
            condition["reason"] = reason.into();
        }
        if !message.is_empty() {
            condition["message"] = message.into();
        }
        self.list.push(condition);
    }

    /// With those that others have set.
    fn finish(self) -> Value {
        let ours: Vec<Text> =
            self.list.iter().filter_map(|one| one["type"].as_str().map(Text::from)).collect();
        let theirs = self.pod.status().conditions().iter();
        let theirs = theirs.filter(|one| !ours.iter().any(|name| name == one.type_()));
        let theirs: Vec<Value> = theirs.map(|one| one.tree().clone()).collect();
        self.list.into_iter().chain(theirs).collect()
    }
}

#[derive(Default)]
struct Tally {
    running: i32,
    waiting: i32,
    stopped: i32,
    succeeded: i32,
}

impl Tally {
    fn of(statuses: &Value) -> Self {
        let mut tally = Self::default();
        for status in statuses.items() {
            let (state, last) = (&status["state"], &status["lastState"]);
            if !state["running"].is_null() {
                tally.running += 1;
            } else if let Some(code) = exit_code(state) {
                tally.stopped += 1;
                tally.succeeded += count(usize::from(code == 0));
            } else if exit_code(last).is_some() {
                tally.stopped += 1;
            } else {
                tally.waiting += 1;
            }
        }
        tally
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
    Time::text(nanos.div_euclid(SECOND))
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;
    use crate::pod::{observe::Sandbox, plan::Probes};

    fn pod(policy: &str) -> Pod {
        let text = format!(
            "metadata: {{name: p}}\nspec: {{restartPolicy: {policy}, containers: [{{name: a, image: i}}]}}"
        );
        Pod::from(from_yaml(&text).unwrap())
    }

    fn seen(state: State, exit_code: i32) -> Observed {
        let sandbox = Sandbox {
            id: "s".into(),
            ready: true,
            ips: vec!["10.0.0.9".into()],
            ..Sandbox::default()
        };
        let container = Container {
            id: "c".into(),
            name: "a".into(),
            state,
            exit_code,
            ..Container::default()
        };
        Observed { sandboxes: vec![sandbox], containers: vec![container] }
    }

    fn around() -> Surroundings {
        let host_ips = vec!["10.1.1.1".into()];
        Surroundings { host_ips, runtime: "r".into(), now: 1_900_000_000 * SECOND, ended: false }
    }

    fn condition<'a>(status: &'a Value, name: &str) -> &'a Value {
        let found = status["conditions"].items().iter();
        found.into_iter().find(|one| one["type"].as_str() == Some(name)).unwrap()
    }

    #[test]
    fn phases_follow_containers_and_policy() {
        for (policy, state, code, want) in [
            ("Always", State::Created, 0, "Pending"),
            ("Always", State::Running, 0, "Running"),
            ("Always", State::Exited, 1, "Running"),
            ("OnFailure", State::Exited, 1, "Running"),
            ("OnFailure", State::Exited, 0, "Succeeded"),
            ("Never", State::Exited, 0, "Succeeded"),
            ("Never", State::Exited, 1, "Failed"),
        ] {
            let got = status(&pod(policy), &seen(state, code), &Memory::default(), &around());
            assert_eq!(got["phase"].as_str(), Some(want), "{policy} {state:?} {code}");
        }
    }

    #[test]
    fn readiness_is_what_probes_say() {
        let (pod, seen) = (pod("Always"), seen(State::Running, 0));
        let mut memory = Memory::default();
        let got = status(&pod, &seen, &memory, &around());
        let ready = condition(&got, "Ready");
        assert_eq!(ready["status"].as_str(), Some("False"));
        assert_eq!(ready["message"].as_str(), Some("containers with unready status: [a]"));
        memory.probes.insert("c".into(), Probes { started: true, ready: true, failed: None });
        let got = status(&pod, &seen, &memory, &around());
        assert_eq!(condition(&got, "Ready")["status"].as_str(), Some("True"));
        assert_eq!(got["podIP"].as_str(), Some("10.0.0.9"));
        assert_eq!(got["containerStatuses"].items()[0]["containerID"].as_str(), Some("r://c"));
    }

    #[test]
    fn a_container_that_waits_shows_why_and_how_it_ended() {
        let mut memory = Memory::default();
        memory.waiting.insert("a".into(), ("CrashLoopBackOff".into(), "m".into()));
        let got = status(&pod("Always"), &seen(State::Exited, 3), &memory, &around());
        let container = &got["containerStatuses"].items()[0];
        let waiting = &container["state"]["waiting"];
        assert_eq!(waiting["reason"].as_str(), Some("CrashLoopBackOff"));
        assert_eq!(container["lastState"]["terminated"]["exitCode"].as_i64(), Some(3));
        assert_eq!(container["lastState"]["terminated"]["reason"].as_str(), Some("Error"));
    }
}
