//! Collects the new status of an autoscaler.

use api::autoscaling::{
    ContainerResourceMetricStatus, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus, MetricStatus, MetricValueStatus, ResourceMetricStatus,
};
use object::{List, Quantity, Time, quantity::Format};

use super::{
    metrics::ErrorKind,
    replicas::{MetricQuery, Proposal},
};
use crate::conditions::Conditions;

/// Collects the new status of an autoscaler during a reconcile.
pub(super) struct StatusBuilder {
    pub(super) now: i64,
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) scaled: bool,
    /// Whose fault it is that the metrics say nothing.
    pub(super) error: ErrorKind,
    pub(super) metrics: Vec<MetricStatus>,
    conditions: List<HorizontalPodAutoscalerCondition>,
}

impl StatusBuilder {
    pub(super) fn new(scaler: &HorizontalPodAutoscaler, now: i64) -> Self {
        let status = scaler.status();
        Self {
            now,
            current: status.current_replicas(),
            desired: status.desired_replicas(),
            scaled: false,
            error: ErrorKind::None,
            metrics: Vec::new(),
            conditions: status.conditions().clone(),
        }
    }

    pub(super) fn put(&mut self, name: &str, verdict: &str, reason: &str, message: &str) {
        let condition = HorizontalPodAutoscalerCondition::new()
            .with_type(name)
            .with_status(verdict)
            .with_reason(reason)
            .with_message(message);
        self.conditions.set_condition(condition, self.now);
    }

    pub(super) fn finish(self, scaler: &HorizontalPodAutoscaler) -> HorizontalPodAutoscalerStatus {
        let old = scaler.status();
        let metrics: List<MetricStatus> = self.metrics.into_iter().collect();
        let known = old.current_metrics().iter().eq(metrics.iter());
        let metrics = if known { old.current_metrics().clone() } else { metrics };
        let mut status = old
            .clone()
            .with_current_replicas(self.current)
            .with_desired_replicas(self.desired)
            .with_current_metrics(metrics)
            .with_conditions(self.conditions);
        if self.scaled {
            status.set_last_scale_time(Time::format(self.now));
        }
        status
    }
}

/// The entry of a metric in `status.currentMetrics`.
pub(super) fn metric_status(ask: &MetricQuery<'_>, proposal: &Proposal) -> MetricStatus {
    let amount = if ask.resource == "memory" {
        Quantity::new(proposal.average / 1000, Format::BinarySi)
    } else {
        Quantity::from_milli(proposal.average, Format::DecimalSi)
    };
    let mut current = MetricValueStatus::new().with_average_value(amount);
    if let Some(percent) = proposal.utilization {
        current.set_average_utilization(percent);
    }
    if ask.container.is_empty() {
        let status = ResourceMetricStatus::new().with_name(ask.resource).with_current(current);
        return MetricStatus::new().with_type("Resource").with_resource(status);
    }
    let status = ContainerResourceMetricStatus::new()
        .with_name(ask.resource)
        .with_container(ask.container)
        .with_current(current);
    MetricStatus::new().with_type("ContainerResource").with_container_resource(status)
}
