//! Metrics of the HorizontalPodAutoscaler controller, under upstream's names.

use std::time::Duration;

use api::autoscaling::HorizontalPodAutoscaler;
use object::NamespacedName;
use runtime::{
    Context,
    metrics::{Family, Metrics, exponential},
};

static SECONDS: [f64; 15] = exponential(0.001, 2.0);

const RECONCILIATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    "[BETA] Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
    &["action", "error"],
);
const RECONCILIATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    "[BETA] The time(seconds) that the HPA controller takes to reconcile once. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
    &["action", "error"],
    &SECONDS,
);
const COMPUTATIONS: Family = Family::counter(
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    "[BETA] Number of metric computations. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
    &["action", "error", "metric_type"],
);
const COMPUTATION_DURATION: Family = Family::histogram(
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    "[BETA] The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
    &["action", "error", "metric_type"],
    &SECONDS,
);
const AUTOSCALERS: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    "[ALPHA] Current number of controlled HPA objects.",
    &[],
);
const DESIRED_REPLICAS: Family = Family::gauge(
    "horizontal_pod_autoscaler_controller_desired_replicas",
    "[ALPHA] Current desired replica count for HPA objects.",
    &["hpa_name", "namespace"],
);

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ErrorKind {
    None,
    /// The autoscaler's spec is invalid.
    Spec,
    Internal,
}

impl ErrorKind {
    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spec => "spec",
            Self::Internal => "internal",
        }
    }
}

/// Counts what the autoscaler controller does.
#[derive(Debug)]
pub(super) struct AutoscalerMetrics(Metrics);

impl AutoscalerMetrics {
    pub(super) fn start(cx: &Context) -> Self {
        let count = cx.metrics().gauge(&AUTOSCALERS, &[]);
        cx.cache::<HorizontalPodAutoscaler>().on_change(move |old, new| match (old, new) {
            (None, Some(_)) => count.add(1.0),
            (Some(_), None) => count.add(-1.0),
            _ => {}
        });
        Self(cx.metrics().clone())
    }

    /// Records a reconciliation that changed the number of replicas from `current` to `desired`.
    pub(super) fn reconciled(
        &self,
        (current, desired): (i32, i32),
        error: ErrorKind,
        took: Duration,
    ) {
        let labels = [action(current, desired), error.label()];
        self.0.counter(&RECONCILIATIONS, &labels).add(1);
        self.0.histogram(&RECONCILIATION_DURATION, &labels).observe_duration(took);
    }

    /// Records that a metric of this type proposed `desired` replicas, or failed.
    pub(super) fn computed(
        &self,
        (current, desired): (i32, i32),
        error: ErrorKind,
        kind: &str,
        took: Duration,
    ) {
        let labels = [action(current, desired), error.label(), kind];
        self.0.counter(&COMPUTATIONS, &labels).add(1);
        self.0.histogram(&COMPUTATION_DURATION, &labels).observe_duration(took);
    }

    pub(super) fn desired(&self, key: &NamespacedName, replicas: i32) {
        self.0.gauge(&DESIRED_REPLICAS, &[&key.name, &key.namespace]).set(replicas.into());
    }

    /// Removes the series of an autoscaler that is gone.
    pub(super) fn forget(&self, key: &NamespacedName) {
        self.0.remove(&DESIRED_REPLICAS, &[&key.name, &key.namespace]);
    }
}

fn action(current: i32, desired: i32) -> &'static str {
    match desired.cmp(&current) {
        std::cmp::Ordering::Greater => "scale_up",
        std::cmp::Ordering::Less => "scale_down",
        std::cmp::Ordering::Equal => "none",
    }
}
