//! The conditions of a pod.

use api::core::{Container as Spec, Pod};
use object::{Lens, Text, Time, Value};

use super::{SECOND, StatusBuilder, exit_code, names_where, phase::Tally};
use crate::pod::restart;

/// The reason of the kubelet's own `DisruptionTarget` condition, a type that other components write too.
pub(crate) const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

/// Condition types that only the kubelet writes.
pub(crate) const KUBELET_CONDITIONS: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "AllContainersRestarting",
    "PodResizePending",
    "PodResizeInProgress",
];

impl StatusBuilder<'_> {
    pub(super) fn conditions(
        &self,
        status: &Value,
        phase: &str,
        init: &Value,
        regular: &Value,
    ) -> Value {
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
        let begun = Tally::of(self.pod, regular);
        // a pod that is restarted in place was initialized before
        if begun.running + begun.stopped > 0 || self.pod.status().is_true("Initialized") {
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
        let gated = if ready.0 { self.readiness_gates() } else { ready.clone() };
        let mut out = Conditions { pod: self.pod, now: self.around.now, list: Vec::new() };
        out.put("PodReadyToStartContainers", (sandboxed, "", String::new()));
        out.put("Initialized", initialized);
        out.put("Ready", gated);
        out.put("ContainersReady", ready);
        out.put("PodScheduled", (true, "", String::new()));
        if restart::can_restart_all(self.pod) {
            let restarting = match over {
                Some(reason) => (false, reason, String::new()),
                None if restart::trigger(self.pod, self.seen).is_some() => {
                    let message = "container exited with restart policy rule".to_owned();
                    (true, "RestartAllContainersStarted", message)
                }
                None => (false, "", String::new()),
            };
            out.put("AllContainersRestarting", restarting);
        }
        if let Some((reason, message)) = &self.around.pending {
            out.put("PodResizePending", (true, reason, message.clone()));
        }
        if over.is_none() && self.is_resizing() {
            let error = self.memory.resize_error.clone();
            let reason = if error.is_some() { "Error" } else { "" };
            out.put("PodResizeInProgress", (true, reason, error.unwrap_or_default()));
        }
        if let Some(failed) = self.memory.failure.as_ref().filter(|failed| failed.disruption_target)
        {
            out.put("DisruptionTarget", (true, TERMINATION_BY_KUBELET, failed.message.clone()));
        }
        out.finish()
    }

    /// The `Ready` condition by the pod's readiness gates, which other components set.
    fn readiness_gates(&self) -> (bool, &'static str, String) {
        let status = self.pod.status();
        let gates = self.pod.spec().readiness_gates();
        let unmet: Vec<String> = gates
            .iter()
            .filter(|gate| !status.is_true(gate.condition_type()))
            .map(|gate| match status.condition(gate.condition_type()) {
                Some(condition) => format!(
                    "the status of pod readiness gate \"{}\" is not \"True\", but {}",
                    gate.condition_type(),
                    condition.status()
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

/// Collects the conditions, with transition times carried over from the old status.
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
            None => Time::format(self.now / SECOND).into(),
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

    /// The conditions, followed by those of other components.
    fn finish(self) -> Value {
        let ours: Vec<Text> =
            self.list.iter().filter_map(|one| one["type"].as_str().map(Text::from)).collect();
        let theirs = self.pod.status().conditions().iter();
        let theirs = theirs.filter(|one| {
            !KUBELET_CONDITIONS.contains(&one.type_())
                && !ours.iter().any(|name| name == one.type_())
        });
        let theirs: Vec<Value> = theirs.map(|one| one.tree().clone()).collect();
        self.list.into_iter().chain(theirs).collect()
    }
}
