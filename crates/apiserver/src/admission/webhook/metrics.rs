//! Metrics of admission webhooks, with upstream's names.

use server::{CounterVec, HistogramVec, MetricDesc, MetricsSource, Operation};

use super::{Webhook, WebhookError};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Duration, requests, rejections and ignored failures of webhook calls.
#[derive(Debug)]
pub(crate) struct WebhookMetrics {
    seconds: HistogramVec,
    requests: CounterVec,
    rejections: CounterVec,
    open: CounterVec,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let counter = |name, help, labels| CounterVec::new(MetricDesc { name, help, labels });
        Self {
            seconds: HistogramVec::new(
                MetricDesc {
                    name: "apiserver_admission_webhook_admission_duration_seconds",
                    help: "Latency of admission webhooks in seconds.",
                    labels: &["name", "operation", "rejected", "type"],
                },
                SECONDS,
            ),
            requests: counter(
                "apiserver_admission_webhook_request_total",
                "Requests to admission webhooks, by result.",
                &["code", "name", "operation", "rejected", "type"],
            ),
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "Requests rejected by admission webhooks, by error type.",
                &["error_type", "name", "operation", "rejection_code", "type"],
            ),
            open: counter(
                "apiserver_admission_webhook_fail_open_count",
                "Requests admitted although a webhook failed.",
                &["name", "type"],
            ),
        }
    }
}

impl WebhookMetrics {
    /// Records a call of a webhook; `failure` is `None` if the webhook admitted the request.
    #[expect(clippy::too_many_arguments, reason = "all that is known of a question")]
    pub(super) fn asked(
        &self,
        hook: &Webhook,
        operation: Operation,
        mutating: bool,
        failure: Option<&WebhookError>,
        seconds: f64,
    ) {
        let (name, operation) = (hook.name.as_str(), operation.name());
        let kind = if mutating { "admit" } else { "validating" };
        let open =
            matches!(failure, Some(WebhookError::Calling(_))) && hook.is("failurePolicy", "Ignore");
        let rejected = if failure.is_some() && !open { "true" } else { "false" };
        let code = match failure {
            None => 200,
            Some(WebhookError::Denied(status)) => status.code(),
            Some(WebhookError::Calling(_)) => 0,
        };
        let code = code.to_string();
        self.seconds.observe(&[name, operation, rejected, kind], seconds);
        self.requests.count(&[&code, name, operation, rejected, kind]);
        match failure {
            Some(WebhookError::Calling(_)) if open => self.open.count(&[name, kind]),
            Some(WebhookError::Calling(_)) => {
                self.rejections.count(&["calling_webhook_error", name, operation, "0", kind]);
            }
            Some(WebhookError::Denied(_)) => {
                self.rejections.count(&["no_error", name, operation, &code, kind]);
            }
            None => {}
        }
    }
}

impl MetricsSource for WebhookMetrics {
    fn report(&self, out: &mut String) {
        self.seconds.write(out);
        self.requests.write(out);
        self.rejections.write(out);
        self.open.write(out);
    }
}
