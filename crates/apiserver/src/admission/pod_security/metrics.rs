//! Metrics of Pod Security evaluations, with upstream's names.

use server::{AdmissionAttributes, CounterVec, MetricDesc, MetricsSource, Operation};

use super::policy::{LATEST, Level, LevelVersion};

/// Counters of evaluations, exemptions and errors.
#[derive(Debug)]
pub(crate) struct PodSecurityMetrics {
    evaluations: CounterVec,
    exemptions: CounterVec,
    errors: CounterVec,
}

impl Default for PodSecurityMetrics {
    fn default() -> Self {
        Self {
            evaluations: CounterVec::new(MetricDesc {
                name: "pod_security_evaluations_total",
                help: "Pod Security evaluations, by decision, level and mode.",
                labels: &[
                    "decision",
                    "mode",
                    "policy_level",
                    "policy_version",
                    "request_operation",
                    "resource",
                    "subresource",
                ],
            }),
            exemptions: CounterVec::new(MetricDesc {
                name: "pod_security_exemptions_total",
                help: "Requests exempt from Pod Security.",
                labels: &["request_operation", "resource", "subresource"],
            }),
            errors: CounterVec::new(MetricDesc {
                name: "pod_security_errors_total",
                help: "Errors that kept Pod Security from evaluating a request normally.",
                labels: &["fatal", "request_operation", "resource", "subresource"],
            }),
        }
    }
}

impl PodSecurityMetrics {
    /// Counts an evaluation of one mode.
    pub(super) fn evaluated(
        &self,
        admission: &AdmissionAttributes,
        (mode, rules): (&str, LevelVersion),
        allowed: bool,
    ) {
        let decision = if allowed { "allow" } else { "deny" };
        let [operation, resource, part] = request(admission);
        let version = version(rules);
        let level = rules.level.word();
        self.evaluations.count(&[decision, mode, level, &version, operation, resource, part]);
    }

    /// Counts an exempt request.
    pub(super) fn exempted(&self, admission: &AdmissionAttributes) {
        self.exemptions.count(&request(admission));
    }

    /// Counts a request that could not be evaluated.
    pub(super) fn failed(&self, admission: &AdmissionAttributes, fatal: bool) {
        let [operation, resource, part] = request(admission);
        let fatal = if fatal { "true" } else { "false" };
        self.errors.count(&[fatal, operation, resource, part]);
    }
}

impl MetricsSource for PodSecurityMetrics {
    fn report(&self, out: &mut String) {
        [&self.evaluations, &self.exemptions, &self.errors].iter().for_each(|own| own.write(out));
    }
}

/// The labels of a request: operation, resource and subresource.
fn request<'a>(admission: &AdmissionAttributes<'a>) -> [&'a str; 3] {
    let operation = if admission.operation == Operation::Create { "create" } else { "update" };
    let resource = match admission.served.definition.names.plural {
        "pods" => "pod",
        "namespaces" => "namespace",
        _ => "controller",
    };
    [operation, resource, admission.subresource]
}

/// The version label. All versions that do not exist yet are reported as `future`, so that labels
/// of namespaces cannot create an unlimited number of series.
fn version(rules: LevelVersion) -> String {
    match rules.minor {
        Some(minor) if rules.level != Level::Privileged => {
            if minor > LATEST {
                "future".to_owned()
            } else {
                format!("v1.{minor}")
            }
        }
        _ => "latest".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_few() {
        let of = |level, minor| version(LevelVersion { level, minor });
        assert_eq!(of(Level::Privileged, Some(30)), "latest");
        assert_eq!(of(Level::Baseline, None), "latest");
        assert_eq!(of(Level::Baseline, Some(30)), "v1.30");
        assert_eq!(of(Level::Restricted, Some(LATEST + 1)), "future");
    }
}
