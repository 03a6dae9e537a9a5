//! autoscaling/v1: more.

use macros::api;
use object::{LabelSelector, ObjectMeta, Quantity, Time};
use schema::{Kind, ResourceNames, Subresource, TableColumn};

use super::CrossVersionObjectReference;

#[api]
pub struct Scale {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired state.
    spec: ScaleSpec,
    /// Observed state.
    status: ScaleStatus,
}

/// The `scale` subresource: desired and current replicas of a workload, or of a custom resource.
pub const SCALE: Subresource = Subresource::converted("scale", Scale::NAMES.kind)
    .of_group(Scale::NAMES.group, Scale::NAMES.version);

/// Without a resource of its own: others have it as a part.
impl Kind for Scale {
    const NAMES: ResourceNames = ResourceNames::new("autoscaling", "v1", "Scale", "");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"];
    const VERBS: &'static [&'static str] = &[];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::new("Name", "string", |scale, _| scale.metadata().name().into()),
        TableColumn::new("Desired", "integer", |scale, _| scale.spec().replicas().into()),
        TableColumn::new("Available", "integer", |scale, _| scale.status().replicas().into()),
        TableColumn::AGE,
    ];
}

#[api]
pub struct ScaleSpec {
    /// Desired number of pods.
    #[api(default = 0)]
    replicas: i32,
}

#[api]
pub struct ScaleStatus {
    /// Number of pods that exist.
    replicas: Must<i32>,
    /// Which pods are counted, as a selector in text form.
    selector: String,
}

#[api]
pub struct MetricSpec {
    /// Source of the metric: Object, Pods, Resource, ContainerResource or External.
    #[api(go_type = "v1.MetricSourceType")]
    type_: Must<String>,
    /// A metric that describes one Kubernetes object.
    object: Option<ObjectMetricSource>,
    /// A metric of each pod, averaged over all pods.
    pods: Option<PodsMetricSource>,
    /// CPU or memory usage of the pods.
    resource: Option<ResourceMetricSource>,
    /// CPU or memory usage of one container of each pod.
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricSource>,
    /// A metric that belongs to no Kubernetes object.
    #[api(tag = 5)]
    external: Option<ExternalMetricSource>,
}

#[api]
pub struct ObjectMetricSource {
    /// Target value of the metric.
    target: Must<CrossVersionObjectReference>,
    /// The name of the metric.
    metric_name: Must<String>,
    /// Target value of the metric.
    target_value: Must<Quantity>,
    /// Label selector that narrows down which series of the metric counts.
    selector: Option<LabelSelector>,
    /// Value averaged over all pods.
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricSource {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Target value, averaged over all pods.
    target_average_value: Must<Quantity>,
    /// Label selector that narrows down which series of the metric counts.
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Target as a percentage of the requests of the pods.
    target_average_utilization: Option<i32>,
    /// Target value, averaged over all pods.
    target_average_value: Option<Quantity>,
}

#[api]
pub struct ContainerResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Target as a percentage of the requests of the pods.
    target_average_utilization: Option<i32>,
    /// Target value, averaged over all pods.
    target_average_value: Option<Quantity>,
    /// The container.
    #[api(tag = 5)]
    container: Must<String>,
}

#[api]
pub struct ExternalMetricSource {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Label selector that narrows down which series of the metric counts.
    metric_selector: Option<LabelSelector>,
    /// Target value of the metric.
    target_value: Option<Quantity>,
    /// Target value, averaged over all pods.
    target_average_value: Option<Quantity>,
}

#[api]
pub struct MetricStatus {
    /// Source of the metric: Object, Pods, Resource, ContainerResource or External.
    #[api(go_type = "v1.MetricSourceType")]
    type_: Must<String>,
    /// A metric that describes one Kubernetes object.
    object: Option<ObjectMetricStatus>,
    /// A metric of each pod, averaged over all pods.
    pods: Option<PodsMetricStatus>,
    /// CPU or memory usage of the pods.
    resource: Option<ResourceMetricStatus>,
    /// CPU or memory usage of one container of each pod.
    #[api(tag = 7)]
    container_resource: Option<ContainerResourceMetricStatus>,
    /// A metric that belongs to no Kubernetes object.
    #[api(tag = 5)]
    external: Option<ExternalMetricStatus>,
}

#[api]
pub struct ObjectMetricStatus {
    /// Target value of the metric.
    target: Must<CrossVersionObjectReference>,
    /// The name of the metric.
    metric_name: Must<String>,
    /// Current value of the metric.
    current_value: Must<Quantity>,
    /// Label selector that narrows down which series of the metric counts.
    selector: Option<LabelSelector>,
    /// Value averaged over all pods.
    average_value: Option<Quantity>,
}

#[api]
pub struct PodsMetricStatus {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Current value, averaged over all pods.
    current_average_value: Must<Quantity>,
    /// Label selector that narrows down which series of the metric counts.
    selector: Option<LabelSelector>,
}

#[api]
pub struct ResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Current value as a percentage of the requests of the pods.
    current_average_utilization: Option<i32>,
    /// Current value, averaged over all pods.
    current_average_value: Must<Quantity>,
}

#[api]
pub struct ContainerResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Current value as a percentage of the requests of the pods.
    current_average_utilization: Option<i32>,
    /// Current value, averaged over all pods.
    current_average_value: Must<Quantity>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricStatus {
    /// The name of the metric.
    metric_name: Must<String>,
    /// Label selector that narrows down which series of the metric counts.
    metric_selector: Option<LabelSelector>,
    /// Current value of the metric.
    current_value: Must<Quantity>,
    /// Current value, averaged over all pods.
    current_average_value: Option<Quantity>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    /// Type of the condition.
    #[api(go_type = "v1.HorizontalPodAutoscalerConditionType")]
    type_: Must<String>,
    /// Status of the condition: True, False or Unknown.
    #[api(go_type = "v1.ConditionStatus")]
    status: Must<String>,
    /// When the condition last went from one status to another.
    last_transition_time: Time,
    /// Machine-readable reason: one CamelCase word.
    reason: String,
    /// Human-readable details.
    message: String,
    /// Generation of the object that the condition was computed from.
    observed_generation: Option<i64>,
}
