//! autoscaling/v1.

mod horizontal_pod_autoscaler;
mod notes;
mod scale;

pub use self::{
    horizontal_pod_autoscaler::{
        CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
        HorizontalPodAutoscalerStatus,
    },
    scale::{
        ContainerResourceMetricSource, ContainerResourceMetricStatus, ExternalMetricSource,
        ExternalMetricStatus, HorizontalPodAutoscalerCondition, MetricSpec, MetricStatus,
        ObjectMetricSource, ObjectMetricStatus, PodsMetricSource, PodsMetricStatus,
        ResourceMetricSource, ResourceMetricStatus, SCALE, Scale, ScaleSpec, ScaleStatus,
    },
};
