//! autoscaling/v1: more.

use macros::api;
use object::{LabelSelector, ObjectMeta, Quantity, Time};
use schema::{Column, Kind, Names};

use super::CrossVersionObjectReference;

#[api]
pub struct Scale {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What is wanted.
    spec: ScaleSpec,
    /// What there is.
    status: ScaleStatus,
}

/// Without a resource of its own: others have it as a part.
impl Kind for Scale {
    const NAMES: Names = Names::new("autoscaling", "v1", "Scale", "");
    const VERBS: &'static [&'static str] = &[];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("Name", "string", |scale, _| scale.metadata().name().into()),
        Column::new("Desired", "integer", |scale, _| scale.spec().replicas().into()),
        Column::new("Available", "integer", |scale, _| scale.status().replicas().into()),
        Column::AGE,
    ];
}

#[api]
pub struct ScaleSpec {
    /// How many pods there should be.
    #[api(default = 0)]
    replicas: i32,
}

#[api]
pub struct ScaleStatus {
    /// How many pods there are.
    replicas: Must<i32>,
    /// Which pods are counted, as a selector in text form.
    selector: String,
}

#[api]
pub struct MetricSpec {
    /// Where the metric comes from: Object, Pods, Resource, ContainerResource or External.
    #[api(go = "v1.MetricSourceType")]
    type_: Must<String>,
    /// A metric of one object.
    object: Option<ObjectMetricSource>,
    /// A metric of every pod, as an average.
    pods: Option<PodsMetricSource>,
    /// What the pods use of cpu or memory.
    resource: Option<ResourceMetricSource>,
    /// What one container of the pods uses of cpu or memory.
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricSource>,
    /// A metric of something outside the cluster.
    #[api(tag = 5)]
    external: Option<ExternalMetricSource>,
}

#[api]
pub struct ObjectMetricSource {
    /// What it should be.
    target: Must<CrossVersionObjectReference>,
    /// The name of the metric.
    metric_name: Must<String>,
    /// What it should be.
    target_value: Must<Quantity>,
    /// Which of the metrics of that name.
    selector: Option<LabelSelector>,
    /// What it is, or should be, for each pod.
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricSource {
    /// The name of the metric.
    metric_name: Must<String>,
    /// What it should be for each pod.
    target_average_value: Must<Quantity>,
    /// Which of the metrics of that name.
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it should be, as a percentage of what the pods request.
    target_average_utilization: Option<i32>,
    /// What it should be for each pod.
    target_average_value: Option<Quantity>,
}

#[api]
pub struct ContainerResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it should be, as a percentage of what the pods request.
    target_average_utilization: Option<i32>,
    /// What it should be for each pod.
    target_average_value: Option<Quantity>,
    /// The container.
    #[api(tag = 5)]
    container: Must<String>,
}

#[api]
pub struct ExternalMetricSource {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Which of the metrics of that name.
    metric_selector: Option<LabelSelector>,
    /// What it should be.
    target_value: Option<Quantity>,
    /// What it should be for each pod.
    target_average_value: Option<Quantity>,
}

#[api]
pub struct MetricStatus {
    /// Where the metric comes from: Object, Pods, Resource, ContainerResource or External.
    #[api(go = "v1.MetricSourceType")]
    type_: Must<String>,
    /// A metric of one object.
    object: Option<ObjectMetricStatus>,
    /// A metric of every pod, as an average.
    pods: Option<PodsMetricStatus>,
    /// What the pods use of cpu or memory.
    resource: Option<ResourceMetricStatus>,
    /// What one container of the pods uses of cpu or memory.
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricStatus>,
    /// A metric of something outside the cluster.
    #[api(tag = 5)]
    external: Option<ExternalMetricStatus>,
}

#[api]
pub struct ObjectMetricStatus {
    /// What it should be.
    target: Must<CrossVersionObjectReference>,
    /// The name of the metric.
    metric_name: Must<String>,
    /// What it is.
    current_value: Must<Quantity>,
    /// Which of the metrics of that name.
    selector: Option<LabelSelector>,
    /// What it is, or should be, for each pod.
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricStatus {
    /// The name of the metric.
    metric_name: Must<String>,
    /// What it is for each pod.
    current_average_value: Must<Quantity>,
    /// Which of the metrics of that name.
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it is, as a percentage of what the pods request.
    current_average_utilization: Option<i32>,
    /// What it is for each pod.
    current_average_value: Must<Quantity>,
}

#[api]
pub struct ContainerResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it is, as a percentage of what the pods request.
    current_average_utilization: Option<i32>,
    /// What it is for each pod.
    current_average_value: Must<Quantity>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricStatus {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Which of the metrics of that name.
    metric_selector: Option<LabelSelector>,
    /// What it is.
    current_value: Must<Quantity>,
    /// What it is for each pod.
    current_average_value: Option<Quantity>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    /// Which condition this is.
    #[api(go = "v1.HorizontalPodAutoscalerConditionType")]
    type_: Must<String>,
    /// Whether it holds: True, False or Unknown.
    #[api(go = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the status last changed.
    last_transition_time: Time,
    /// Why, as one word for programs.
    reason: String,
    /// Why, as a sentence for people.
    message: String,
    /// The generation of the object that this was found out about.
    observed_generation: Option<i64>,
}
