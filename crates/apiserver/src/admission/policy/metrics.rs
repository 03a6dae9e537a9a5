//! Metrics of admission policies, with upstream's names.

use std::time::Duration;

use server::{CounterVec, HistogramVec, MetricDesc, MetricsSource};

const SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];
const VALIDATING: &[&str] = &["enforcement_action", "error_type", "policy", "policy_binding"];
const MUTATING: &[&str] = &["error_type", "policy", "policy_binding"];

/// The number and duration of policy evaluations, for validating and for mutating policies.
#[derive(Debug)]
pub(crate) struct PolicyMetrics {
    validating: (CounterVec, HistogramVec),
    mutating: (CounterVec, HistogramVec),
}

impl Default for PolicyMetrics {
    fn default() -> Self {
        let both = |total, seconds, labels| {
            let help = "Evaluations of admission policies, by policy and result.";
            let counter = CounterVec::new(MetricDesc { name: total, help, labels });
            let help = "Latency of admission policies in seconds.";
            (counter, HistogramVec::new(MetricDesc { name: seconds, help, labels }, SECONDS))
        };
        Self {
            validating: both(
                "apiserver_validating_admission_policy_check_total",
                "apiserver_validating_admission_policy_check_duration_seconds",
                VALIDATING,
            ),
            mutating: both(
                "apiserver_mutating_admission_policy_check_total",
                "apiserver_mutating_admission_policy_check_duration_seconds",
                MUTATING,
            ),
        }
    }
}

impl PolicyMetrics {
    /// Counts an enforcement action of a binding: deny, audit or warn.
    pub(super) fn enforced(&self, (policy, binding): (&str, &str), action: &str, took: Duration) {
        let labels = [action, "no_error", policy, binding];
        self.validating.0.count(&labels);
        self.validating.1.observe(&labels, took.as_secs_f64());
    }

    /// Counts a policy whose evaluation failed, so that the request was rejected.
    pub(super) fn failed(&self, (policy, binding): (&str, &str), took: Duration) {
        let labels = ["deny", "invalid_error", policy, binding];
        self.validating.0.count(&labels);
        self.validating.1.observe(&labels, took.as_secs_f64());
    }

    /// Counts a mutating policy that changed an object, or failed to.
    pub(super) fn changed(&self, (policy, binding): (&str, &str), failed: bool, took: Duration) {
        let error = if failed { "invalid_error" } else { "no_error" };
        let labels = [error, policy, binding];
        self.mutating.0.count(&labels);
        self.mutating.1.observe(&labels, took.as_secs_f64());
    }
}

impl MetricsSource for PolicyMetrics {
    fn report(&self, out: &mut String) {
        for (counter, timing) in [&self.validating, &self.mutating] {
            counter.write(out);
            timing.write(out);
        }
    }
}
