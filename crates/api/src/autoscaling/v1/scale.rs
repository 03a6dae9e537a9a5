//! autoscaling/v1: more.

use macros::api;
use object::{LabelSelector, ObjectMeta, Quantity, Time};

use super::CrossVersionObjectReference;

#[api]
pub struct Scale {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2)]
    spec: ScaleSpec,
    #[api(tag = 3)]
    status: ScaleStatus,
}

#[api]
pub struct ScaleSpec {
    #[api(tag = 1, default = 0)]
    replicas: i32,
}

#[api]
pub struct ScaleStatus {
    #[api(tag = 1, required, always)]
    replicas: i32,
    #[api(tag = 2)]
    selector: String,
}

#[api]
pub struct MetricSpec {
    #[api(tag = 1, required, always, go = "v1.MetricSourceType")]
    type_: String,
    #[api(tag = 2)]
    object: Option<ObjectMetricSource>,
    #[api(tag = 3)]
    pods: Option<PodsMetricSource>,
    #[api(tag = 4)]
    resource: Option<ResourceMetricSource>,
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricSource>,
    #[api(tag = 5)]
    external: Option<ExternalMetricSource>,
}

#[api]
pub struct ObjectMetricSource {
    #[api(tag = 1, required, always)]
    target: CrossVersionObjectReference,
    #[api(tag = 2, required, always)]
    metric_name: String,
    #[api(tag = 3, required, always)]
    target_value: Quantity,
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    #[api(tag = 5)]
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricSource {
    #[api(tag = 1, required, always)]
    metric_name: String,
    #[api(tag = 2, required, always)]
    target_average_value: Quantity,
    #[api(tag = 3)]
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricSource {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    target_average_utilization: Option<i32>,
    #[api(tag = 3)]
    target_average_value: Option<Quantity>,
}

#[api]
pub struct ContainerResourceMetricSource {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    target_average_utilization: Option<i32>,
    #[api(tag = 3)]
    target_average_value: Option<Quantity>,
    #[api(tag = 5, required, always)]
    container: String,
}

#[api]
pub struct ExternalMetricSource {
    #[api(tag = 1, required, always)]
    metric_name: String,
    #[api(tag = 2)]
    metric_selector: Option<LabelSelector>,
    #[api(tag = 3)]
    target_value: Option<Quantity>,
    #[api(tag = 4)]
    target_average_value: Option<Quantity>,
}

#[api]
pub struct MetricStatus {
    #[api(tag = 1, required, always, go = "v1.MetricSourceType")]
    type_: String,
    #[api(tag = 2)]
    object: Option<ObjectMetricStatus>,
    #[api(tag = 3)]
    pods: Option<PodsMetricStatus>,
    #[api(tag = 4)]
    resource: Option<ResourceMetricStatus>,
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricStatus>,
    #[api(tag = 5)]
    external: Option<ExternalMetricStatus>,
}

#[api]
pub struct ObjectMetricStatus {
    #[api(tag = 1, required, always)]
    target: CrossVersionObjectReference,
    #[api(tag = 2, required, always)]
    metric_name: String,
    #[api(tag = 3, required, always)]
    current_value: Quantity,
    #[api(tag = 4)]
    selector: Option<LabelSelector>,
    #[api(tag = 5)]
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricStatus {
    #[api(tag = 1, required, always)]
    metric_name: String,
    #[api(tag = 2, required, always)]
    current_average_value: Quantity,
    #[api(tag = 3)]
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricStatus {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    current_average_utilization: Option<i32>,
    #[api(tag = 3, required, always)]
    current_average_value: Quantity,
}

#[api]
pub struct ContainerResourceMetricStatus {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2)]
    current_average_utilization: Option<i32>,
    #[api(tag = 3, required, always)]
    current_average_value: Quantity,
    #[api(tag = 4, required, always)]
    container: String,
}

#[api]
pub struct ExternalMetricStatus {
    #[api(tag = 1, required, always)]
    metric_name: String,
    #[api(tag = 2)]
    metric_selector: Option<LabelSelector>,
    #[api(tag = 3, required, always)]
    current_value: Quantity,
    #[api(tag = 4)]
    current_average_value: Option<Quantity>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    #[api(tag = 1, required, always, go = "v1.HorizontalPodAutoscalerConditionType")]
    type_: String,
    #[api(tag = 2, required, always, go = "v1.ConditionStatus")]
    status: String,
    #[api(tag = 3)]
    last_transition_time: Time,
    #[api(tag = 4)]
    reason: String,
    #[api(tag = 5)]
    message: String,
    #[api(tag = 6)]
    observed_generation: Option<i64>,
}
