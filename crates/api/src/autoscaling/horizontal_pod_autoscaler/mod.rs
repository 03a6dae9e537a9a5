//! autoscaling/v2: HorizontalPodAutoscaler.

pub(crate) mod metrics;
mod rules;

use macros::api;
use object::{LabelSelector, Lens, List, ObjectMeta, Quantity, Time};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Subresource, TableColumn};

/// Adjusts the number of pods of a workload to its load.
#[api]
pub struct HorizontalPodAutoscaler {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Desired behaviour of the autoscaler.
    #[api(required)]
    spec: HorizontalPodAutoscalerSpec,
    /// Observed state, written by the controller.
    status: HorizontalPodAutoscalerStatus,
}

#[api]
pub struct HorizontalPodAutoscalerSpec {
    /// Workload to scale, such as a Deployment.
    scale_target_ref: Must<CrossVersionObjectReference>,
    /// Smallest number of pods, 1 by default.
    #[api(default = 1, unpublished_default)]
    min_replicas: Option<i32>,
    /// Largest number of pods.
    max_replicas: Must<i32>,
    /// Metrics to scale by. The one that asks for the most pods wins.
    metrics: List<MetricSpec>,
    /// Limits for how fast the number of pods grows and shrinks.
    behavior: Option<HorizontalPodAutoscalerBehavior>,
}

#[api]
pub struct CrossVersionObjectReference {
    /// The kind of the object.
    kind: Must<String>,
    /// The name of the object.
    name: Must<String>,
    /// The group and version of its kind.
    api_version: String,
}

#[api]
pub struct MetricSpec {
    /// Source of the metric: Object, Pods, Resource, ContainerResource or External.
    #[api(go_type = "v2.MetricSourceType")]
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
    /// The object that has the metric.
    described_object: Must<CrossVersionObjectReference>,
    /// Target value of the metric.
    target: Must<MetricTarget>,
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
}

#[api]
pub struct MetricIdentifier {
    /// The name of the metric.
    name: Must<String>,
    /// Label selector that narrows down which series of the metric counts.
    selector: Option<LabelSelector>,
}

#[api]
pub struct MetricTarget {
    /// Kind of the target: Utilization, Value or AverageValue.
    #[api(go_type = "v2.MetricTargetType")]
    type_: Must<String>,
    /// Value of the metric as a whole, not averaged.
    value: Option<Quantity>,
    /// Value averaged over all pods.
    average_value: Option<Quantity>,
    /// Value as a percentage of what the pods request, averaged over all pods.
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricSource {
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
    /// Target value of the metric.
    target: Must<MetricTarget>,
}

#[api]
pub struct ResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Target value of the metric.
    target: Must<MetricTarget>,
}

#[api]
pub struct ContainerResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Target value of the metric.
    target: Must<MetricTarget>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricSource {
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
    /// Target value of the metric.
    target: Must<MetricTarget>,
}

#[api]
pub struct HorizontalPodAutoscalerBehavior {
    /// Rules for scaling up.
    scale_up: Option<HPAScalingRules>,
    /// Rules for scaling down.
    scale_down: Option<HPAScalingRules>,
}

#[api]
pub struct HPAScalingRules {
    /// Seconds for which past recommendations are considered, to avoid flapping.
    #[api(tag = 3)]
    stabilization_window_seconds: Option<i32>,
    /// Which policy applies: Max (default), Min, or Disabled.
    #[api(tag = 1, go_type = "v2.ScalingPolicySelect")]
    select_policy: Option<String>,
    /// Policies that limit the change.
    policies: List<HPAScalingPolicy>,
    /// Deviation of the metric from its target below which nothing is scaled.
    #[api(tag = 4)]
    tolerance: Option<Quantity>,
}

#[api]
pub struct HPAScalingPolicy {
    /// Unit of the value: Pods or Percent.
    #[api(go_type = "v2.HPAScalingPolicyType")]
    type_: Must<String>,
    /// Largest change in one period.
    value: Must<i32>,
    /// Length of the period in seconds.
    period_seconds: Must<i32>,
}

#[api]
pub struct HorizontalPodAutoscalerStatus {
    /// Generation of the object that this status was computed from.
    observed_generation: Option<i64>,
    /// When the autoscaler last changed the number of pods.
    last_scale_time: Option<Time>,
    /// Number of pods that was last observed.
    current_replicas: i32,
    /// Number of pods that was last computed.
    desired_replicas: Must<i32>,
    /// Values of the metrics that were last read.
    #[api(no_omitempty)]
    current_metrics: List<MetricStatus>,
    /// Current conditions of the object.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<HorizontalPodAutoscalerCondition>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    /// Type of the condition.
    #[api(go_type = "v2.HorizontalPodAutoscalerConditionType")]
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

#[api]
pub struct MetricStatus {
    /// Source of the metric: Object, Pods, Resource, ContainerResource or External.
    #[api(go_type = "v2.MetricSourceType")]
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
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
    /// Current value of the metric.
    current: Must<MetricValueStatus>,
    /// The object that has the metric.
    described_object: Must<CrossVersionObjectReference>,
}

#[api]
pub struct MetricValueStatus {
    /// Value of the metric as a whole, not averaged.
    value: Option<Quantity>,
    /// Value averaged over all pods.
    average_value: Option<Quantity>,
    /// Value as a percentage of what the pods request, averaged over all pods.
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricStatus {
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
    /// Current value of the metric.
    current: Must<MetricValueStatus>,
}

#[api]
pub struct ResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Current value of the metric.
    current: Must<MetricValueStatus>,
}

#[api]
pub struct ContainerResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go_type = "v1.ResourceName")]
    name: Must<String>,
    /// Current value of the metric.
    current: Must<MetricValueStatus>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricStatus {
    /// The metric, by name and selector.
    metric: Must<MetricIdentifier>,
    /// Current value of the metric.
    current: Must<MetricValueStatus>,
}

impl Kind for HorizontalPodAutoscaler {
    const NAMES: ResourceNames = ResourceNames::new(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    )
    .short(&["hpa"])
    .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["autoscaling/v2"];
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("HorizontalPodAutoscaler").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Reference", |this, _| {
            let target = this.spec().scale_target_ref();
            format!("{}/{}", target.kind(), target.name()).into()
        }),
        TableColumn::text("Targets", |this, _| metrics::cell(this).into()),
        TableColumn::text("MinPods", |this, _| this.spec().min_replicas().to_string().into()),
        TableColumn::text("MaxPods", |this, _| this.spec().max_replicas().into()),
        TableColumn::text("Replicas", |this, _| this.status().current_replicas().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        rules::check(self.spec(), errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut ErrorList) {
        let (status, at) = (self.status(), FieldPath::STATUS);
        at.field("conditions").for_each_item(status.conditions().iter(), |condition, at| {
            let generation = condition.observed_generation().unwrap_or_default();
            errs.non_negative(&at.field("observedGeneration"), generation);
        });
        errs.non_negative(&at.field("currentReplicas"), status.current_replicas().into());
        errs.non_negative(&at.field("desiredReplicas"), status.desired_replicas().into());
    }

    fn default_fields(&mut self) {
        let spec = self.spec_mut();
        if spec.metrics().is_empty() {
            spec.set_metrics([metrics::cpu(DEFAULT_CPU)]);
        }
        if spec.behavior().is_some() {
            let behavior = spec.behavior_mut();
            behavior.scale_up_mut().default_up();
            behavior.scale_down_mut().default_down();
        }
    }
}

/// The share of its requested CPU that a pod uses, if nothing else is asked for.
const DEFAULT_CPU: i32 = 80;

impl HPAScalingRules {
    fn default_up(&mut self) {
        if self.stabilization_window_seconds().is_none() {
            self.set_stabilization_window_seconds(0);
        }
        self.default_policies(&[("Pods", 4), ("Percent", 100)]);
    }

    fn default_down(&mut self) {
        self.default_policies(&[("Percent", 100)]);
    }

    fn default_policies(&mut self, policies: &[(&str, i32)]) {
        if self.select_policy().is_none() {
            self.set_select_policy("Max");
        }
        if self.tree().get("policies").is_null() {
            let policy = |(kind, value): &(&str, i32)| {
                HPAScalingPolicy::new().with_type(*kind).with_value(*value).with_period_seconds(15)
            };
            self.set_policies(policies.iter().map(policy).collect::<List<_>>());
        }
    }
}
