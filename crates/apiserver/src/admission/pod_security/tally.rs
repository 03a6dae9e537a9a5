//! How often rules were looked at, and what came of it, under upstream's names.

use server::{Admission, Counter, Name, Operation, Report};

use super::policy::{LATEST, Level, Rules};

#[derive(Debug)]
pub(crate) struct Tally {
    evaluations: Counter,
    exemptions: Counter,
    errors: Counter,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            evaluations: Counter::new(Name {
                name: "pod_security_evaluations_total",
                help: "How often the rules for pods were looked at, and what they said.",
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
            exemptions: Counter::new(Name {
                name: "pod_security_exemptions_total",
                help: "How often requests were let off the rules for pods.",
                labels: &["request_operation", "resource", "subresource"],
            }),
            errors: Counter::new(Name {
                name: "pod_security_errors_total",
                help: "How often the rules for pods could not be looked at as they should.",
                labels: &["fatal", "request_operation", "resource", "subresource"],
            }),
        }
    }
}

impl Tally {
    pub(super) fn evaluated(
        &self,
        admission: &Admission,
        (mode, rules): (&str, Rules),
        allowed: bool,
    ) {
        let decision = if allowed { "allow" } else { "deny" };
        let [operation, resource, part] = request(admission);
        let version = version(rules);
        let level = rules.level.word();
        self.evaluations.count(&[decision, mode, level, &version, operation, resource, part]);
    }

    pub(super) fn exempted(&self, admission: &Admission) {
        self.exemptions.count(&request(admission));
    }

    pub(super) fn failed(&self, admission: &Admission, fatal: bool) {
        let [operation, resource, part] = request(admission);
        let fatal = if fatal { "true" } else { "false" };
        self.errors.count(&[fatal, operation, resource, part]);
    }
}

impl Report for Tally {
    fn report(&self, out: &mut String) {
        [&self.evaluations, &self.exemptions, &self.errors].iter().for_each(|own| own.write(out));
    }
}

/// What a request does, to what, and to which part.
fn request<'a>(admission: &Admission<'a>) -> [&'a str; 3] {
    let operation = if admission.operation == Operation::Create { "create" } else { "update" };
    let resource = match admission.served.definition.names.plural {
        "pods" => "pod",
        "namespaces" => "namespace",
        _ => "controller",
    };
    [operation, resource, admission.subresource]
}

/// Versions that are not there yet are one: who labels namespaces cannot fill the list.
fn version(rules: Rules) -> String {
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
        let of = |level, minor| version(Rules { level, minor });
        assert_eq!(of(Level::Privileged, Some(30)), "latest");
        assert_eq!(of(Level::Baseline, None), "latest");
        assert_eq!(of(Level::Baseline, Some(30)), "v1.30");
        assert_eq!(of(Level::Restricted, Some(LATEST + 1)), "future");
    }
}
