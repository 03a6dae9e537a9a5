//! autoscaling/v1: HorizontalPodAutoscaler.

use macros::api;
use object::{ObjectMeta, Time, Value};
use ref_cast::RefCast;
use schema::{Column, Kind, Names, Storage, Subresource};

use super::notes;
use crate::autoscaling;

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
    /// How busy pods should be, of what they ask for.
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
    /// The generation of the object that the status is about.
    observed_generation: Option<i64>,
    /// When the number of pods was last changed.
    last_scale_time: Option<Time>,
    /// How many pods there were when last looked at.
    current_replicas: Must<i32>,
    /// How many there should be.
    desired_replicas: Must<i32>,
    /// What the pods use of the cpu that they request, in percent.
    #[api(name = "currentCPUUtilizationPercentage")]
    current_cpu_utilization_percentage: Option<i32>,
}

impl Kind for HorizontalPodAutoscaler {
    const NAMES: Names =
        Names::new("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short(&["hpa"])
            .categories(&["all"]);
    const STORAGE: Storage = Storage::new("horizontalpodautoscalers", "v2");
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::status("HorizontalPodAutoscaler")];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Reference", |this, _| {
            let target = this.spec().scale_target_ref();
            format!("{}/{}", target.kind(), target.name()).into()
        }),
        Column::text("Targets", |this, _| this.targets().into()),
        Column::text("MinPods", |this, _| this.spec().min_replicas().to_string().into()),
        Column::text("MaxPods", |this, _| this.spec().max_replicas().into()),
        Column::text("Replicas", |this, _| this.status().current_replicas().into()),
        Column::AGE,
    ];

    fn to_stored(object: &mut Value) {
        notes::unfold(object);
        // A target is there by default, but for what the annotations say.
        autoscaling::HorizontalPodAutoscaler::ref_cast_mut(object).default_fields();
        object["apiVersion"] = "autoscaling/v2".into();
    }

    fn from_stored(object: &mut Value) {
        notes::fold(object);
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
