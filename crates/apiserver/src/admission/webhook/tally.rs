//! What became of the questions to hooks, under upstream's names.

use server::{Counter, Name, Operation, Report, Timing};

use super::{Failure, Hook};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

#[derive(Debug)]
pub(crate) struct Tally {
    seconds: Timing,
    requests: Counter,
    rejections: Counter,
    open: Counter,
}

impl Default for Tally {
    fn default() -> Self {
        let counter = |name, help, labels| Counter::new(Name { name, help, labels });
        Self {
            seconds: Timing::new(
                Name {
                    name: "apiserver_admission_webhook_admission_duration_seconds",
                    help: "How long hooks took.",
                    labels: &["name", "operation", "rejected", "type"],
                },
                SECONDS,
            ),
            requests: counter(
                "apiserver_admission_webhook_request_total",
                "What hooks were asked.",
                &["code", "name", "operation", "rejected", "type"],
            ),
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "What was refused because of hooks.",
                &["error_type", "name", "operation", "rejection_code", "type"],
            ),
            open: counter(
                "apiserver_admission_webhook_fail_open_count",
                "What went on without a hook's answer.",
                &["name", "type"],
            ),
        }
    }
}

impl Tally {
    /// A hook was asked; `None`: it said yes.
    #[expect(clippy::too_many_arguments, reason = "all that is known of a question")]
    pub(super) fn asked(
        &self,
        hook: &Hook,
        operation: Operation,
        mutating: bool,
        failure: Option<&Failure>,
        seconds: f64,
    ) {
        let (name, operation) = (hook.name.as_str(), operation.name());
        let kind = if mutating { "admit" } else { "validating" };
        let open =
            matches!(failure, Some(Failure::Calling(_))) && hook.is("failurePolicy", "Ignore");
        let rejected = if failure.is_some() && !open { "true" } else { "false" };
        let code = match failure {
            None => 200,
            Some(Failure::Refused(status)) => status.code(),
            Some(Failure::Calling(_)) => 0,
        };
        let code = code.to_string();
        self.seconds.observe(&[name, operation, rejected, kind], seconds);
        self.requests.count(&[&code, name, operation, rejected, kind]);
        match failure {
            Some(Failure::Calling(_)) if open => self.open.count(&[name, kind]),
            Some(Failure::Calling(_)) => {
                self.rejections.count(&["calling_webhook_error", name, operation, "0", kind]);
            }
            Some(Failure::Refused(_)) => {
                self.rejections.count(&["no_error", name, operation, &code, kind]);
            }
            None => {}
        }
    }
}

impl Report for Tally {
    fn report(&self, out: &mut String) {
        self.seconds.write(out);
        self.requests.write(out);
        self.rejections.write(out);
        self.open.write(out);
    }
}
