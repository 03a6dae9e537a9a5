//! autoscaling/v1: HorizontalPodAutoscaler.

use macros::api;
use object::{ObjectMeta, Time, Value};
use ref_cast::RefCast;
use schema::{Kind, ResourceNames, StorageConfig, Subresource, TableColumn};

use super::notes;
use crate::autoscaling;

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
    /// Target average CPU usage of the pods, in percent of their requests.
    #[api(name = "targetCPUUtilizationPercentage")]
    target_cpu_utilization_percentage: Option<i32>,
}

#[api(atomic)]
pub struct CrossVersionObjectReference {
    /// The kind of the object.
    kind: Must<String>,
    /// The name of the object.
    name: Must<String>,
    /// The group and version of its kind.
    api_version: String,
}

#[api]
pub struct HorizontalPodAutoscalerStatus {
    /// Generation of the object that this status was computed from.
    observed_generation: Option<i64>,
    /// When the autoscaler last changed the number of pods.
    last_scale_time: Option<Time>,
    /// Number of pods that was last observed.
    current_replicas: Must<i32>,
    /// Number of pods that was last computed.
    desired_replicas: Must<i32>,
    /// What the pods use of the cpu that they request, in percent.
    #[api(name = "currentCPUUtilizationPercentage")]
    current_cpu_utilization_percentage: Option<i32>,
}

impl Kind for HorizontalPodAutoscaler {
    const NAMES: ResourceNames = ResourceNames::new(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    )
    .short(&["hpa"])
    .categories(&["all"]);
    const FORMER_API_VERSIONS: &'static [&'static str] = &["autoscaling/v2"];
    const STORAGE: StorageConfig = StorageConfig::new("horizontalpodautoscalers", "v2");
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::status("HorizontalPodAutoscaler").writes_metadata()];
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Reference", |this, _| {
            let target = this.spec().scale_target_ref();
            format!("{}/{}", target.kind(), target.name()).into()
        }),
        TableColumn::text("Targets", |this, _| this.targets().into()),
        TableColumn::text("MinPods", |this, _| this.spec().min_replicas().to_string().into()),
        TableColumn::text("MaxPods", |this, _| this.spec().max_replicas().into()),
        TableColumn::text("Replicas", |this, _| this.status().current_replicas().into()),
        TableColumn::AGE,
    ];

    fn to_stored(object: &mut Value) {
        notes::v1_to_v2(object);
        // A target is there by default, but for what the annotations say.
        autoscaling::HorizontalPodAutoscaler::ref_cast_mut(object).default_fields();
        object["apiVersion"] = "autoscaling/v2".into();
    }

    fn from_stored(object: &mut Value) {
        notes::v2_to_v1(object);
        object["apiVersion"] = Self::NAMES.api_version().into();
    }
}

impl HorizontalPodAutoscaler {
    fn targets(&self) -> String {
        let Some(target) = self.spec().target_cpu_utilization_percentage() else {
            return "<none>".into();
        };
        let now = self.status().current_cpu_utilization_percentage();
        let now = now.map_or("<unknown>".to_owned(), |now| format!("{now}%"));
        format!("cpu: {now}/{target}%")
    }
}
