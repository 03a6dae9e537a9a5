//! What an autoscaler looks at, and how tables show it.

use object::Quantity;

use super::{
    HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
    ResourceMetricSource,
};

const UNKNOWN: &str = "<unknown>";

/// A share of the CPU that pods have asked for.
pub(crate) fn cpu(percent: i32) -> MetricSpec {
    let target = MetricTarget::new().with_type("Utilization").with_average_utilization(percent);
    let source = ResourceMetricSource::new().with_name("cpu").with_target(target);
    MetricSpec::new().with_type("Resource").with_resource(source)
}

/// The first two metrics: what is, and what should be.
pub(super) fn cell(hpa: &HorizontalPodAutoscaler) -> String {
    let metrics = hpa.spec().metrics();
    if metrics.is_empty() {
        return "<none>".into();
    }
    let statuses: Vec<_> = hpa.status().current_metrics().iter().collect();
    let each = metrics.iter().enumerate().map(|(i, spec)| one(spec, statuses.get(i).copied()));
    let each: Vec<_> = each.collect();
    match each.len() {
        n @ 3.. => format!("{} + {} more...", each[..2].join(", "), n - 2),
        _ => each.join(", "),
    }
}

fn one(spec: &MetricSpec, status: Option<&MetricStatus>) -> String {
    match spec.type_() {
        "External" => {
            let current =
                status.and_then(MetricStatus::external).map(super::ExternalMetricStatus::current);
            spec.external().map(|it| value_or_average(it.target(), current))
        }
        "Object" => {
            let current =
                status.and_then(MetricStatus::object).map(super::ObjectMetricStatus::current);
            spec.object().map(|it| value_or_average(it.target(), current))
        }
        "Pods" => {
            let current = status.and_then(MetricStatus::pods).map(super::PodsMetricStatus::current);
            let now = current.and_then(MetricValueStatus::average_value);
            spec.pods().map(|it| format!("{}/{}", shown(now), shown(it.target().average_value())))
        }
        "Resource" => {
            let current =
                status.and_then(MetricStatus::resource).map(super::ResourceMetricStatus::current);
            spec.resource().map(|it| format!("{}: {}", it.name(), share(it.target(), current)))
        }
        "ContainerResource" => {
            let current = status
                .and_then(MetricStatus::container_resource)
                .map(super::ContainerResourceMetricStatus::current);
            let source = spec.container_resource();
            source.map(|it| format!("{}: {}", it.name(), share(it.target(), current)))
        }
        _ => Some("<unknown type>".into()),
    }
    .unwrap_or_else(|| UNKNOWN.into())
}

fn value_or_average(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(average) = target.average_value() {
        let now = current.and_then(MetricValueStatus::average_value);
        format!("{}/{average} (avg)", shown(now))
    } else {
        let now = current.and_then(MetricValueStatus::value);
        format!("{}/{}", shown(now), shown(target.value()))
    }
}

fn share(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(average) = target.average_value() {
        let now = current.and_then(MetricValueStatus::average_value);
        return format!("{}/{average}", shown(now));
    }
    let percent = |n: Option<i32>, none: &str| n.map_or(none.to_owned(), |n| format!("{n}%"));
    let now = current.and_then(MetricValueStatus::average_utilization);
    format!("{}/{}", percent(now, UNKNOWN), percent(target.average_utilization(), "<auto>"))
}

fn shown(amount: Option<Quantity>) -> String {
    amount.map_or(UNKNOWN.to_owned(), |amount| amount.to_string())
}
