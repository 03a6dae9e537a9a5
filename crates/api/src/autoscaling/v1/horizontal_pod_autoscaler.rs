//! autoscaling/v1: HorizontalPodAutoscaler.

use macros::api;
use object::{ObjectMeta, Time, Value, from_json, to_json};
use schema::{Column, Kind, Names, Storage, Subresource};

use crate::autoscaling::horizontal_pod_autoscaler::metrics;

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
    const NAMES: Names = Names::new(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
    )
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
        to_v2(object);
        object["apiVersion"] = "autoscaling/v2".into();
    }

    fn from_stored(object: &mut Value) {
        from_v2(object);
        object["apiVersion"] = Self::NAMES.api_version().into();
    }
}

/// Here only CPU has a field; all else is kept in annotations.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

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

fn to_v2(object: &mut Value) {
    let target = object.get("spec").get("targetCPUUtilizationPercentage").as_i64();
    object["spec"].remove("targetCPUUtilizationPercentage");
    let mut metrics: Vec<Value> = taken(object, METRICS).items().to_vec();
    if let Some(percent) = target.and_then(|n| i32::try_from(n).ok()) {
        metrics.insert(0, metrics::cpu(percent).into());
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = metrics.into_iter().collect();
    }
    for (note, part, field) in
        [(BEHAVIOR, "spec", "behavior"), (CONDITIONS, "status", "conditions")]
    {
        let kept = taken(object, note);
        if !kept.is_null() {
            object[part][field] = kept;
        }
    }
    let now = object.get("status").get("currentCPUUtilizationPercentage").clone();
    let mut current: Vec<Value> = taken(object, CURRENT).items().to_vec();
    if !now.is_null() {
        object["status"].remove("currentCPUUtilizationPercentage");
        let mut metric = Value::object();
        metric["type"] = "Resource".into();
        metric["resource"]["name"] = "cpu".into();
        metric["resource"]["current"]["averageUtilization"] = now;
        current.insert(0, metric);
    }
    if !current.is_empty() {
        object["status"]["currentMetrics"] = current.into_iter().collect();
    }
}

fn from_v2(object: &mut Value) {
    let is_cpu = |metric: &Value| metric.get("resource").get("name").as_str() == Some("cpu");
    let target =
        |metric: &Value| metric.get("resource").get("target").get("averageUtilization").clone();
    let metrics = object.get("spec").get("metrics").items().to_vec();
    let cpu = metrics.iter().position(|metric| is_cpu(metric) && !target(metric).is_null());
    if let Some(at) = cpu {
        object["spec"]["targetCPUUtilizationPercentage"] = target(&metrics[at]);
    }
    keep(object, METRICS, &others(&metrics, cpu));
    object["spec"].remove("metrics");
    let behavior = object.get("spec").get("behavior").clone();
    keep(object, BEHAVIOR, &behavior);
    object["spec"].remove("behavior");
    let current = object.get("status").get("currentMetrics").items().to_vec();
    let used =
        |metric: &Value| metric.get("resource").get("current").get("averageUtilization").clone();
    let cpu = current.iter().position(|metric| is_cpu(metric) && !used(metric).is_null());
    if let Some(at) = cpu {
        object["status"]["currentCPUUtilizationPercentage"] = used(&current[at]);
    }
    keep(object, CURRENT, &others(&current, cpu));
    let conditions = object.get("status").get("conditions").clone();
    keep(object, CONDITIONS, &conditions);
    if !object.get("status").is_null() {
        object["status"].remove("currentMetrics");
        object["status"].remove("conditions");
    }
}

fn others(all: &[Value], but: Option<usize>) -> Value {
    let rest = all.iter().enumerate().filter(|(at, _)| Some(*at) != but);
    let rest: Vec<Value> = rest.map(|(_, value)| value.clone()).collect();
    if rest.is_empty() { Value::Null } else { rest.into_iter().collect() }
}

fn keep(object: &mut Value, note: &str, value: &Value) {
    if !value.is_null() {
        let json = String::from_utf8_lossy(&to_json(value)).into_owned();
        object["metadata"]["annotations"][note] = json.into();
    }
}

/// What an annotation keeps; it is taken away.
fn taken(object: &mut Value, note: &str) -> Value {
    let text = object.get("metadata").get("annotations").get(note).as_str().map(str::to_owned);
    let Some(text) = text else { return Value::Null };
    object["metadata"]["annotations"].remove(note);
    from_json(text.as_bytes()).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_field_here_survives() {
        let text = r#"{"metadata":{"name":"a"},"spec":{"behavior":{"scaleUp":{}},"metrics":[
            {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization",
                "averageUtilization":50}}},
            {"type":"Pods","pods":{"metric":{"name":"m"}}}]}}"#;
        let stored = from_json(text.as_bytes()).expect("JSON");
        let mut tree = stored.clone();
        HorizontalPodAutoscaler::from_stored(&mut tree);
        let cpu = tree.get("spec").get("targetCPUUtilizationPercentage").as_i64();
        assert_eq!(cpu, Some(50));
        HorizontalPodAutoscaler::to_stored(&mut tree);
        assert_eq!(tree.get("spec").get("metrics"), stored.get("spec").get("metrics"));
        assert_eq!(tree.get("spec").get("behavior"), stored.get("spec").get("behavior"));
    }
}
