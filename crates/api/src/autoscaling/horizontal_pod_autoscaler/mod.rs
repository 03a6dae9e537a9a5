//! autoscaling/v2: HorizontalPodAutoscaler.

pub(crate) mod metrics;
mod rules;

use macros::api;
use object::{LabelSelector, Lens, List, ObjectMeta, Quantity, Time};
use schema::{Column, Errors, Kind, Names, Path, Subresource};

/// Scales something by what its pods use or by other metrics.
#[api]
pub struct HorizontalPodAutoscaler {
    /// Name, labels and the like.
    metadata: ObjectMeta,
    /// What is scaled, and by what.
    #[api(required)]
    spec: HorizontalPodAutoscalerSpec,
    /// How far it is.
    status: HorizontalPodAutoscalerStatus,
}

#[api]
pub struct HorizontalPodAutoscalerSpec {
    /// What is scaled.
    scale_target_ref: Must<CrossVersionObjectReference>,
    /// The fewest pods.
    #[api(default = 1, implied)]
    min_replicas: Option<i32>,
    /// The most pods.
    max_replicas: Must<i32>,
    /// What the number of pods follows.
    metrics: List<MetricSpec>,
    /// How fast it grows and shrinks.
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
    /// Where the metric comes from: Object, Pods, Resource, ContainerResource or External.
    #[api(go = "v2.MetricSourceType")]
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
    /// The object that has the metric.
    described_object: Must<CrossVersionObjectReference>,
    /// What it should be.
    target: Must<MetricTarget>,
    /// Which metric.
    metric: Must<MetricIdentifier>,
}

#[api]
pub struct MetricIdentifier {
    /// The name of the metric.
    name: Must<String>,
    /// Which of the metrics of that name.
    selector: Option<LabelSelector>,
}

#[api]
pub struct MetricTarget {
    /// Which of the values counts: Utilization, Value or AverageValue.
    #[api(go = "v2.MetricTargetType")]
    type_: Must<String>,
    /// The value as a whole.
    value: Option<Quantity>,
    /// What it is, or should be, for each pod.
    average_value: Option<Quantity>,
    /// The value as a percentage of what the pods request.
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricSource {
    /// Which metric.
    metric: Must<MetricIdentifier>,
    /// What it should be.
    target: Must<MetricTarget>,
}

#[api]
pub struct ResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it should be.
    target: Must<MetricTarget>,
}

#[api]
pub struct ContainerResourceMetricSource {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it should be.
    target: Must<MetricTarget>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricSource {
    /// Which metric.
    metric: Must<MetricIdentifier>,
    /// What it should be.
    target: Must<MetricTarget>,
}

#[api]
pub struct HorizontalPodAutoscalerBehavior {
    /// How more pods are made.
    scale_up: Option<HPAScalingRules>,
    /// How pods are taken away.
    scale_down: Option<HPAScalingRules>,
}

#[api]
pub struct HPAScalingRules {
    /// How far back recommendations are looked at before one is followed.
    #[api(tag = 3)]
    stabilization_window_seconds: Option<i32>,
    /// Which policy wins: Max, Min, or Disabled for no change.
    #[api(tag = 1, go = "v2.ScalingPolicySelect")]
    select_policy: Option<String>,
    /// How much may change at a time.
    policies: List<HPAScalingPolicy>,
    /// How far the metric may be off before anything changes.
    #[api(tag = 4)]
    tolerance: Option<Quantity>,
}

#[api]
pub struct HPAScalingPolicy {
    /// Whether it counts Pods or Percent of them.
    #[api(go = "v2.HPAScalingPolicyType")]
    type_: Must<String>,
    /// How many.
    value: Must<i32>,
    /// In how long.
    period_seconds: Must<i32>,
}

#[api]
pub struct HorizontalPodAutoscalerStatus {
    /// The generation of the object that the status is about.
    observed_generation: Option<i64>,
    /// When the number of pods was last changed.
    last_scale_time: Option<Time>,
    /// How many pods there were when last looked at.
    current_replicas: i32,
    /// How many there should be.
    desired_replicas: Must<i32>,
    /// What the metrics were when last looked at.
    #[api(always)]
    current_metrics: List<MetricStatus>,
    /// What holds of the object at present.
    #[api(keys("type"), merge, merge_key = "type")]
    conditions: List<HorizontalPodAutoscalerCondition>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    /// Which condition this is.
    #[api(go = "v2.HorizontalPodAutoscalerConditionType")]
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

#[api]
pub struct MetricStatus {
    /// Where the metric comes from: Object, Pods, Resource, ContainerResource or External.
    #[api(go = "v2.MetricSourceType")]
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
    /// Which metric.
    metric: Must<MetricIdentifier>,
    /// What it is.
    current: Must<MetricValueStatus>,
    /// The object that has the metric.
    described_object: Must<CrossVersionObjectReference>,
}

#[api]
pub struct MetricValueStatus {
    /// The value as a whole.
    value: Option<Quantity>,
    /// What it is, or should be, for each pod.
    average_value: Option<Quantity>,
    /// The value as a percentage of what the pods request.
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricStatus {
    /// Which metric.
    metric: Must<MetricIdentifier>,
    /// What it is.
    current: Must<MetricValueStatus>,
}

#[api]
pub struct ResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it is.
    current: Must<MetricValueStatus>,
}

#[api]
pub struct ContainerResourceMetricStatus {
    /// The resource: cpu or memory.
    #[api(go = "v1.ResourceName")]
    name: Must<String>,
    /// What it is.
    current: Must<MetricValueStatus>,
    /// The container.
    container: Must<String>,
}

#[api]
pub struct ExternalMetricStatus {
    /// Which metric.
    metric: Must<MetricIdentifier>,
    /// What it is.
    current: Must<MetricValueStatus>,
}

impl Kind for HorizontalPodAutoscaler {
    const NAMES: Names =
        Names::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short(&["hpa"])
            .categories(&["all"]);
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("HorizontalPodAutoscaler")];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Reference", |this, _| {
            let target = this.spec().scale_target_ref();
            format!("{}/{}", target.kind(), target.name()).into()
        }),
        Column::text("Targets", |this, _| metrics::cell(this).into()),
        Column::text("MinPods", |this, _| this.spec().min_replicas().to_string().into()),
        Column::text("MaxPods", |this, _| this.spec().max_replicas().into()),
        Column::text("Replicas", |this, _| this.status().current_replicas().into()),
        Column::AGE,
    ];

    fn validate(&self, errs: &mut Errors) {
        rules::check(self.spec(), errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        let (status, at) = (self.status(), Path::STATUS);
        at.field("conditions").each(status.conditions().iter(), |condition, at| {
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
