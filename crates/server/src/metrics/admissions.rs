//! Admission latency, by plugin and in total, under upstream's names.

use std::{array, fmt::Write as _};

use tokio::time::Instant;

use super::Histogram;
use crate::Operation;

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
const TYPES: [&str; 2] = ["admit", "validate"];

/// The phase of admission: mutating (`admit`) or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Admit,
    Validate,
}

/// Histograms by operation, phase, and whether the request was rejected.
type Times = [Histogram; 16];

/// Latency of each admission plugin and of each phase.
#[derive(Debug)]
pub(crate) struct AdmissionMetrics {
    plugins: Vec<(&'static str, Times)>,
    steps: Times,
}

impl AdmissionMetrics {
    pub(crate) fn new(plugins: impl Iterator<Item = &'static str>) -> Self {
        Self { plugins: plugins.map(|name| (name, times())).collect(), steps: times() }
    }

    pub(crate) fn begin(&self, operation: Operation, phase: Phase) -> AdmissionTimer<'_> {
        let now = Instant::now();
        let place = (operation as usize * TYPES.len() + phase as usize) * 2;
        AdmissionTimer { of: self, place, began: now, last: now }
    }

    pub(crate) fn write(&self, out: &mut String) {
        let (step, each) = (
            "apiserver_admission_step_admission_duration_seconds",
            "apiserver_admission_controller_admission_duration_seconds",
        );
        let _ = writeln!(out, "# HELP {step} How long all of admission took.");
        let _ = writeln!(out, "# TYPE {step} histogram");
        write(&self.steps, step, "", out);
        let _ = writeln!(out, "# HELP {each} How long a plugin of admission took.");
        let _ = writeln!(out, "# TYPE {each} histogram");
        for (name, times) in &self.plugins {
            write(times, each, &format!("name=\"{name}\","), out);
        }
    }
}

/// Measures one phase: each plugin starts when the one before it ends.
#[derive(Debug)]
pub(crate) struct AdmissionTimer<'a> {
    of: &'a AdmissionMetrics,
    place: usize,
    began: Instant,
    last: Instant,
}

impl AdmissionTimer<'_> {
    /// Records that a plugin has decided.
    pub(crate) fn observe_plugin(&mut self, plugin: usize, refused: bool) {
        let now = Instant::now();
        let times = self.of.plugins.get(plugin).map(|(_, times)| times);
        if let Some(times) = times.and_then(|times| times.get(self.place + usize::from(refused))) {
            times.observe((now - self.last).as_secs_f64());
        }
        self.last = now;
    }

    /// Records the end of the phase.
    pub(crate) fn end(self, refused: bool) {
        let taken = (self.last - self.began).as_secs_f64();
        if let Some(times) = self.of.steps.get(self.place + usize::from(refused)) {
            times.observe(taken);
        }
    }
}

fn times() -> Times {
    array::from_fn(|_| Histogram::new(SECONDS))
}

fn write(times: &Times, name: &str, of: &str, out: &mut String) {
    for (at, times) in times.iter().enumerate().filter(|(_, times)| times.count() > 0) {
        let (Some(operation), Some(ty)) = (OPERATIONS.get(at / 4), TYPES.get(at / 2 % 2)) else {
            continue;
        };
        let refused = at % 2 == 1;
        let rest = format!("operation=\"{operation}\",rejected=\"{refused}\",type=\"{ty}\"");
        times.write(name, format!("{of}{rest}"), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_told_and_nothing_else() {
        let admissions = AdmissionMetrics::new(["One", "Two"].into_iter());
        let mut timer = admissions.begin(Operation::Delete, Phase::Validate);
        timer.observe_plugin(0, false);
        timer.observe_plugin(1, true);
        timer.end(true);
        let mut text = String::new();
        admissions.write(&mut text);
        let counted: Vec<_> = text.lines().filter(|line| line.contains("_count{")).collect();
        let labels = |refused: bool| {
            format!("operation=\"DELETE\",rejected=\"{refused}\",type=\"validate\"}} 1")
        };
        assert_eq!(counted.len(), 3, "{text}");
        assert!(counted[0].ends_with(&labels(true)));
        assert!(counted[1].ends_with(&format!("name=\"One\",{}", labels(false))));
        assert!(counted[2].ends_with(&format!("name=\"Two\",{}", labels(true))));
    }
}
