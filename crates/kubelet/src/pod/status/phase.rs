//! The phase of a pod.

use api::core::{Container as Spec, Pod};
use object::{Value, saturating_i32};

use super::{StatusBuilder, exit_code};
use crate::pod::restart::{RESTARTING_ALL, restarts};

impl StatusBuilder<'_> {
    pub(super) fn phase(&self, init: &Value, regular: &Value) -> &'static str {
        let old = self.pod.status().phase();
        // a failed pod keeps its phase until its containers have exited
        let ends = self.memory.failure.is_some() && self.seen.running().next().is_none();
        if ends || old == "Failed" {
            return "Failed";
        }
        if old == "Succeeded" {
            return "Succeeded";
        }
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
                Some(_) if !runs_again(self.pod, spec, &state["terminated"]) => failed = true,
                _ => pending = true,
            }
        }
        let tally = Tally::of(self.pod, regular);
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
            () if tally.restarting > 0 => "Running",
            () if tally.stopped == tally.succeeded => "Succeeded",
            () => "Failed",
        }
    }
}

/// Number of regular containers by state.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) running: i32,
    waiting: i32,
    pub(super) stopped: i32,
    /// Those among the stopped ones that will be restarted.
    restarting: i32,
    succeeded: i32,
}

impl Tally {
    pub(super) fn of(pod: &Pod, statuses: &Value) -> Self {
        let mut tally = Self::default();
        for (status, spec) in statuses.items().iter().zip(pod.spec().containers().iter()) {
            let (state, last) = (&status["state"], &status["lastState"]);
            let ended = if exit_code(state).is_some() { state } else { last };
            if !state["running"].is_null() {
                tally.running += 1;
            } else if exit_code(ended).is_some() {
                tally.stopped += 1;
                let again = runs_again(pod, spec, &ended["terminated"]);
                tally.restarting += saturating_i32(usize::from(again));
                tally.succeeded += saturating_i32(usize::from(exit_code(state) == Some(0)));
            } else {
                tally.waiting += 1;
            }
        }
        tally
    }
}

/// Whether a container that terminated like this runs again.
fn runs_again(pod: &Pod, spec: &Spec, terminated: &Value) -> bool {
    let code = terminated["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    terminated["reason"].as_str() == Some(RESTARTING_ALL)
        || code.is_some_and(|code| restarts(pod, spec, code))
}
