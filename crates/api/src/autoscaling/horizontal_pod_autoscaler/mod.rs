//! autoscaling/v2: HorizontalPodAutoscaler.

pub(crate) mod metrics;
mod rules;

use macros::api;
use object::{LabelSelector, Lens, List, ObjectMeta, Quantity, Time};
use schema::{Column, Errors, Kind, Names, Path, Storage, Subresource};

#[api]
pub struct HorizontalPodAutoscaler {
    /// Name, labels and the like.
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// What is scaled, and by what.
    #[api(tag = 2)]
    spec: HorizontalPodAutoscalerSpec,
    /// How far it is.
    #[api(tag = 3)]
    status: HorizontalPodAutoscalerStatus,
}

#[api]
pub struct HorizontalPodAutoscalerSpec {
    /// What is scaled.
    #[api(tag = 1, required, always)]
    scale_target_ref: CrossVersionObjectReference,
    /// The fewest pods.
    #[api(tag = 2, default = 1, implied)]
    min_replicas: Option<i32>,
    /// The most pods.
    #[api(tag = 3, required, always)]
    max_replicas: i32,
    /// What the number of pods follows.
    #[api(tag = 4)]
    metrics: List<MetricSpec>,
    /// How fast it grows and shrinks.
    #[api(tag = 5)]
    behavior: Option<HorizontalPodAutoscalerBehavior>,
}

#[api]
pub struct CrossVersionObjectReference {
    #[api(tag = 1, required, always)]
    kind: String,
    #[api(tag = 2, required, always)]
    name: String,
    #[api(tag = 3)]
    api_version: String,
}

#[api]
pub struct MetricSpec {
    #[api(tag = 1, required, always, go = "v2.MetricSourceType")]
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
    described_object: CrossVersionObjectReference,
    #[api(tag = 2, required, always)]
    target: MetricTarget,
    #[api(tag = 3, required, always)]
    metric: MetricIdentifier,
}

#[api]
pub struct MetricIdentifier {
    #[api(tag = 1, required, always)]
    name: String,
    #[api(tag = 2)]
    selector: Option<LabelSelector>,
}

#[api]
pub struct MetricTarget {
    #[api(tag = 1, required, always, go = "v2.MetricTargetType")]
    type_: String,
    #[api(tag = 2)]
    value: Option<Quantity>,
    #[api(tag = 3)]
    average_value: Option<Quantity>,
    #[api(tag = 4)]
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricSource {
    #[api(tag = 1, required, always)]
    metric: MetricIdentifier,
    #[api(tag = 2, required, always)]
    target: MetricTarget,
}

#[api]
pub struct ResourceMetricSource {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2, required, always)]
    target: MetricTarget,
}

#[api]
pub struct ContainerResourceMetricSource {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2, required, always)]
    target: MetricTarget,
    #[api(tag = 3, required, always)]
    container: String,
}

#[api]
pub struct ExternalMetricSource {
    #[api(tag = 1, required, always)]
    metric: MetricIdentifier,
    #[api(tag = 2, required, always)]
    target: MetricTarget,
}

#[api]
pub struct HorizontalPodAutoscalerBehavior {
    #[api(tag = 1)]
    scale_up: Option<HPAScalingRules>,
    #[api(tag = 2)]
    scale_down: Option<HPAScalingRules>,
}

#[api]
pub struct HPAScalingRules {
    #[api(tag = 3)]
    stabilization_window_seconds: Option<i32>,
    #[api(tag = 1, go = "v2.ScalingPolicySelect")]
    select_policy: Option<String>,
    #[api(tag = 2)]
    policies: List<HPAScalingPolicy>,
    #[api(tag = 4)]
    tolerance: Option<Quantity>,
}

#[api]
pub struct HPAScalingPolicy {
    #[api(tag = 1, required, always, go = "v2.HPAScalingPolicyType")]
    type_: String,
    #[api(tag = 2, required, always)]
    value: i32,
    #[api(tag = 3, required, always)]
    period_seconds: i32,
}

#[api]
pub struct HorizontalPodAutoscalerStatus {
    #[api(tag = 1)]
    observed_generation: Option<i64>,
    #[api(tag = 2)]
    last_scale_time: Option<Time>,
    #[api(tag = 3)]
    current_replicas: i32,
    #[api(tag = 4, required, always)]
    desired_replicas: i32,
    #[api(tag = 5, always)]
    current_metrics: List<MetricStatus>,
    #[api(tag = 6, keys("type"), merge, merge_key = "type")]
    conditions: List<HorizontalPodAutoscalerCondition>,
}

#[api]
pub struct HorizontalPodAutoscalerCondition {
    #[api(tag = 1, required, always, go = "v2.HorizontalPodAutoscalerConditionType")]
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

#[api]
pub struct MetricStatus {
    #[api(tag = 1, required, always, go = "v2.MetricSourceType")]
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
    metric: MetricIdentifier,
    #[api(tag = 2, required, always)]
    current: MetricValueStatus,
    #[api(tag = 3, required, always)]
    described_object: CrossVersionObjectReference,
}

#[api]
pub struct MetricValueStatus {
    #[api(tag = 1)]
    value: Option<Quantity>,
    #[api(tag = 2)]
    average_value: Option<Quantity>,
    #[api(tag = 3)]
    average_utilization: Option<i32>,
}

#[api]
pub struct PodsMetricStatus {
    #[api(tag = 1, required, always)]
    metric: MetricIdentifier,
    #[api(tag = 2, required, always)]
    current: MetricValueStatus,
}

#[api]
pub struct ResourceMetricStatus {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2, required, always)]
    current: MetricValueStatus,
}

#[api]
pub struct ContainerResourceMetricStatus {
    #[api(tag = 1, required, always, go = "v1.ResourceName")]
    name: String,
    #[api(tag = 2, required, always)]
    current: MetricValueStatus,
    #[api(tag = 3, required, always)]
    container: String,
}

#[api]
pub struct ExternalMetricStatus {
    #[api(tag = 1, required, always)]
    metric: MetricIdentifier,
    #[api(tag = 2, required, always)]
    current: MetricValueStatus,
}

impl Kind for HorizontalPodAutoscaler {
    const NAMES: Names = Names {
        group: "autoscaling",
        version: "v2",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        singular: "horizontalpodautoscaler",
        short: &["hpa"],
        categories: &["all"],
    };
    const STORAGE: Storage = Storage::new("horizontalpodautoscalers", "v2");
    const GENERATION: bool = true;
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::new("status", "HorizontalPodAutoscaler", &["get", "patch", "update"])];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Reference", "string", |this, _| {
            let target = this.spec().scale_target_ref();
            format!("{}/{}", target.kind(), target.name()).into()
        }),
        Column::new("Targets", "string", |this, _| metrics::cell(this).into()),
        Column::new("MinPods", "string", |this, _| this.spec().min_replicas().to_string().into()),
        Column::new("MaxPods", "string", |this, _| this.spec().max_replicas().into()),
        Column::new("Replicas", "string", |this, _| this.status().current_replicas().into()),
        Column::AGE,
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        rules::check(self.spec(), errs);
    }

    fn validate_update(&self, _old: &Self, errs: &mut Errors) {
        rules::check(self.spec(), errs);
    }

    fn validate_status(&self, _old: &Self, errs: &mut Errors) {
        let (status, at) = (self.status(), Path::Root.field("status"));
        for (i, condition) in status.conditions().iter().enumerate() {
            let at = at.field("conditions");
            let generation = condition.observed_generation().unwrap_or_default();
            errs.non_negative(&at.index(i).field("observedGeneration"), generation);
        }
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

    fn prepare_create(&mut self) {
        self.set_status(HorizontalPodAutoscalerStatus::new());
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
