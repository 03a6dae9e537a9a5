//! What autoscaling/v1 keeps in annotations, as upstream writes it there: metrics in the form
//! that they once had, with everything a field of its own; behaviour in upstream's own words.

use object::{Value, from_json};

use crate::{autoscaling::horizontal_pod_autoscaler::metrics, rules::json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// All annotations of this form, regardless of their author.
const V2_ANNOTATIONS: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    CURRENT,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// What is written where there is nothing.
#[derive(Clone, Copy, PartialEq)]
enum AbsentEncoding {
    Nothing,
    Empty,
    Zero,
}
use AbsentEncoding::{Empty, Nothing, Zero};

/// A field there, where it is here, and what is written without it.
type Field = (&'static str, [&'static str; 2], AbsentEncoding);

/// The sources of a metric, in order, with their fields, in order: as targets, and as states.
const SOURCES: [(&str, &[Field], &[Field]); 5] = [
    (
        "object",
        &[
            ("target", ["describedObject", ""], Empty),
            ("metricName", ["metric", "name"], Empty),
            ("targetValue", ["target", "value"], Zero),
            ("selector", ["metric", "selector"], Nothing),
            ("averageValue", ["target", "averageValue"], Nothing),
        ],
        &[
            ("target", ["describedObject", ""], Empty),
            ("metricName", ["metric", "name"], Empty),
            ("currentValue", ["current", "value"], Zero),
            ("selector", ["metric", "selector"], Nothing),
            ("averageValue", ["current", "averageValue"], Nothing),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", ["metric", "name"], Empty),
            ("targetAverageValue", ["target", "averageValue"], Zero),
            ("selector", ["metric", "selector"], Nothing),
        ],
        &[
            ("metricName", ["metric", "name"], Empty),
            ("currentAverageValue", ["current", "averageValue"], Zero),
            ("selector", ["metric", "selector"], Nothing),
        ],
    ),
    (
        "resource",
        &[
            ("name", ["name", ""], Empty),
            ("targetAverageUtilization", ["target", "averageUtilization"], Nothing),
            ("targetAverageValue", ["target", "averageValue"], Nothing),
        ],
        &[
            ("name", ["name", ""], Empty),
            ("currentAverageUtilization", ["current", "averageUtilization"], Nothing),
            ("currentAverageValue", ["current", "averageValue"], Zero),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", ["name", ""], Empty),
            ("targetAverageUtilization", ["target", "averageUtilization"], Nothing),
            ("targetAverageValue", ["target", "averageValue"], Nothing),
            ("container", ["container", ""], Empty),
        ],
        &[
            ("name", ["name", ""], Empty),
            ("currentAverageUtilization", ["current", "averageUtilization"], Nothing),
            ("currentAverageValue", ["current", "averageValue"], Zero),
            ("container", ["container", ""], Empty),
        ],
    ),
    (
        "external",
        &[
            ("metricName", ["metric", "name"], Empty),
            ("metricSelector", ["metric", "selector"], Nothing),
            ("targetValue", ["target", "value"], Nothing),
            ("targetAverageValue", ["target", "averageValue"], Nothing),
        ],
        &[
            ("metricName", ["metric", "name"], Empty),
            ("metricSelector", ["metric", "selector"], Nothing),
            ("currentValue", ["current", "value"], Zero),
            ("currentAverageValue", ["current", "averageValue"], Nothing),
        ],
    ),
];

/// From v1 to v2.
pub(super) fn v1_to_v2(object: &mut Value) {
    let [metrics, behavior, current, conditions, ..] =
        V2_ANNOTATIONS.map(|note| taken(object, note));
    let target = object.get("spec").get("targetCPUUtilizationPercentage").as_i64();
    object["spec"].remove("targetCPUUtilizationPercentage");
    let mut metrics: Vec<Value> =
        metrics.items().iter().map(|old| decode_metric(old, false)).collect();
    if let Some(percent) = target.and_then(|percent| i32::try_from(percent).ok()) {
        metrics.push(metrics::cpu(percent).into());
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = metrics.into_iter().collect();
    }
    let behavior = decode_behavior(&behavior);
    if ["scaleUp", "scaleDown"].iter().any(|rules| !behavior.get(rules).is_null()) {
        object["spec"]["behavior"] = behavior;
    }
    if !conditions.items().is_empty() {
        object["status"]["conditions"] = conditions.items().iter().map(without_nulls).collect();
    }
    let now = object.get("status").get("currentCPUUtilizationPercentage").clone();
    if !now.is_null() {
        object["status"].remove("currentCPUUtilizationPercentage");
    }
    if !current.items().is_empty() {
        let current = current.items().iter().map(|old| decode_metric(old, true));
        object["status"]["currentMetrics"] = current.collect();
    } else if !now.is_null() {
        let mut metric = Value::object();
        metric["type"] = "Resource".into();
        metric["resource"]["name"] = "cpu".into();
        metric["resource"]["current"]["averageUtilization"] = now;
        object["status"]["currentMetrics"] = [metric].into_iter().collect();
    }
}

/// From v2 to v1.
pub(super) fn v2_to_v1(object: &mut Value) {
    for note in V2_ANNOTATIONS {
        taken(object, note);
    }
    let is_cpu = |metric: &&Value| {
        metric.get("type").as_str() == Some("Resource")
            && metric.get("resource").get("name").as_str() == Some("cpu")
    };
    let percent =
        |metric: &Value, of: &str| metric.get("resource").get(of).get("averageUtilization").clone();
    let metrics = pulled(object, "spec", "metrics");
    let (cpu, others): (Vec<&Value>, Vec<_>) = (metrics.items().iter())
        .partition(|metric| is_cpu(metric) && !percent(metric, "target").is_null());
    if let Some(cpu) = cpu.first() {
        object["spec"]["targetCPUUtilizationPercentage"] = percent(cpu, "target");
    }
    keep(object, METRICS, others.into_iter(), |metric| encode_metric(metric, false));
    let behavior = pulled(object, "spec", "behavior");
    if !behavior.is_null() {
        object["metadata"]["annotations"][BEHAVIOR] = encode_behavior(&behavior).into();
    }
    if object.get("status").is_null() {
        return;
    }
    let current = pulled(object, "status", "currentMetrics");
    let mut used = current.items().iter().filter(is_cpu).map(|cpu| percent(cpu, "current"));
    if let Some(used) = used.rfind(|used| !used.is_null()) {
        object["status"]["currentCPUUtilizationPercentage"] = used;
    }
    keep(object, CURRENT, current.items().iter(), |metric| encode_metric(metric, true));
    let conditions = pulled(object, "status", "conditions");
    keep(object, CONDITIONS, conditions.items().iter(), condition);
}

/// A metric of v2 as it is kept in v1.
fn encode_metric(metric: &Value, state: bool) -> String {
    let mut old = vec![("type", json(metric.get("type")))];
    for (source, targets, states) in SOURCES {
        let from = metric.get(source);
        if from.is_null() {
            continue;
        }
        let field = |(name, [part, field], absent): &Field| {
            let value = from.get(part);
            let value = if field.is_empty() { value } else { value.get(field) };
            let text = match (value.is_null(), absent) {
                (false, _) if *name == "target" => reference(value),
                (false, _) if *field == "selector" => selector(value),
                (false, _) => json(value),
                (true, Zero) => "\"0\"".to_owned(),
                (true, Empty) => "\"\"".to_owned(),
                (true, Nothing) => return None,
            };
            Some((*name, text))
        };
        let fields = if state { states } else { targets };
        old.push((source, braced(fields.iter().filter_map(field))));
    }
    braced(old)
}

/// The other way.
fn decode_metric(old: &Value, state: bool) -> Value {
    let mut metric = Value::object();
    metric["type"] = old.get("type").clone();
    for (source, targets, states) in SOURCES {
        let from = old.get(source);
        if from.is_null() {
            continue;
        }
        let mut to = Value::object();
        for (name, [part, field], absent) in if state { states } else { targets } {
            let value = match from.get(name) {
                value if value.is_null() && *absent == Zero => "0".into(),
                value => value.clone(),
            };
            match field {
                _ if value.is_null() => {}
                &"" => to[part] = value,
                field => to[part][field] = value,
            }
        }
        if !state {
            aim(source, &mut to);
        }
        metric[source] = to;
    }
    metric
}

/// Says of which type a target is.
fn aim(source: &str, to: &mut Value) {
    let has = |field: &str| !to.get("target").get(field).is_null();
    let kind = match source {
        "object" if has("averageValue") => "AverageValue",
        "object" => "Value",
        "external" if has("value") => "Value",
        _ if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    let zero = to.get("target").get("value").as_str() == Some("0");
    if source == "object" && kind == "AverageValue" && zero {
        to["target"].remove("value"); // there it cannot be left out
    }
    to["target"]["type"] = kind.into();
}

fn reference(of: &Value) -> String {
    let text = |field: &str| of.get(field).as_str().unwrap_or_default();
    let fields = ["kind", "name", "apiVersion"].into_iter();
    let fields = fields.filter(|field| *field != "apiVersion" || !text(field).is_empty());
    braced(fields.map(|field| (field, json(&text(field).into()))))
}

fn selector(of: &Value) -> String {
    let fields = ["matchLabels", "matchExpressions"].into_iter();
    let fields = fields.filter(|field| !of.get(field).is_null());
    braced(fields.map(|field| (field, json(of.get(field)))))
}

fn condition(of: &Value) -> String {
    let fields =
        ["type", "status", "lastTransitionTime", "reason", "message", "observedGeneration"];
    let must = |field: &str| matches!(field, "type" | "status" | "lastTransitionTime");
    let fields = fields.into_iter().filter(|field| must(field) || !of.get(field).is_null());
    braced(fields.map(|field| (field, json(of.get(field)))))
}

fn without_nulls(of: &Value) -> Value {
    let mut to = Value::object();
    for (field, value) in of.entries().filter(|(_, value)| !value.is_null()) {
        to[field] = value.clone();
    }
    to
}

/// Behaviour in upstream's own words: every field, whether it is there or not.
fn encode_behavior(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        let fields = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];
        braced(fields.map(|(name, field)| (name, json(policy.get(field)))))
    };
    let rules = |rules: &Value| {
        if rules.is_null() {
            return "null".to_owned();
        }
        let policies = match rules.get("policies") {
            none if none.is_null() => "null".to_owned(),
            some => bracketed(some.items().iter().map(policy)),
        };
        braced([
            ("StabilizationWindowSeconds", json(rules.get("stabilizationWindowSeconds"))),
            ("SelectPolicy", json(rules.get("selectPolicy"))),
            ("Policies", policies),
            ("Tolerance", json(rules.get("tolerance"))),
        ])
    };
    braced([
        ("ScaleUp", rules(behavior.get("scaleUp"))),
        ("ScaleDown", rules(behavior.get("scaleDown"))),
    ])
}

/// The other way. Letters may be large or small: to upstream it is the same.
fn decode_behavior(of: &Value) -> Value {
    const NAMES: [&str; 9] = [
        "scaleUp",
        "scaleDown",
        "stabilizationWindowSeconds",
        "selectPolicy",
        "policies",
        "tolerance",
        "type",
        "value",
        "periodSeconds",
    ];
    if matches!(of, Value::List(_)) {
        return of.items().iter().map(decode_behavior).collect();
    } else if !of.is_object() {
        return of.clone();
    }
    let mut to = Value::object();
    for (name, value) in of.entries().filter(|(_, value)| !value.is_null()) {
        let known = NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name));
        if let Some(known) = known {
            to[known] = decode_behavior(value);
        }
    }
    to
}

/// An object in this order of fields: a tree would have its own.
fn braced<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn bracketed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Keeps a list, unless it is empty.
fn keep<'a>(
    object: &mut Value,
    note: &str,
    items: impl Iterator<Item = &'a Value>,
    text: impl Fn(&Value) -> String,
) {
    let mut items = items.map(text).peekable();
    if items.peek().is_some() {
        object["metadata"]["annotations"][note] = bracketed(items).into();
    }
}

/// What a field has; it is taken away.
fn pulled(object: &mut Value, part: &str, field: &str) -> Value {
    let value = object.get(part).get(field).clone();
    if !value.is_null() {
        object[part].remove(field);
    }
    value
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

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).expect("JSON")
    }

    /// Both texts are upstream's.
    #[test]
    fn annotations_are_written_as_upstream_does_and_read_again() {
        let stored = tree(
            r#"{"metadata":{"name":"a"},"spec":{
            "behavior":{"scaleDown":{"policies":[{"periodSeconds":15,"type":"Percent","value":100}],
                "selectPolicy":"Max","stabilizationWindowSeconds":300}},
            "metrics":[
            {"type":"Pods","pods":{"metric":{"name":"m","selector":{"matchLabels":{"a":"b"}}},
                "target":{"averageValue":"1k","type":"AverageValue"}}},
            {"type":"Object","object":{"describedObject":{"apiVersion":"v1","kind":"Service","name":"s"},
                "metric":{"name":"hits"},"target":{"type":"Value","value":"10"}}},
            {"type":"External","external":{"metric":{"name":"q<"},
                "target":{"averageValue":"30","type":"AverageValue"}}},
            {"type":"Resource","resource":{"name":"memory",
                "target":{"averageUtilization":60,"type":"Utilization"}}},
            {"type":"Resource","resource":{"name":"cpu",
                "target":{"averageUtilization":50,"type":"Utilization"}}}]},
            "status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m",
                "reason":"r","status":"True","type":"AbleToScale"}],
            "currentMetrics":[{"type":"Resource","resource":{"name":"cpu",
                "current":{"averageUtilization":7,"averageValue":"3m"}}}]}}"#,
        );
        let mut object = stored.clone();
        v2_to_v1(&mut object);
        let note = |name: &str| {
            object.get("metadata").get("annotations").get(name).as_str().unwrap_or_default()
        };
        assert_eq!(
            note(METRICS),
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}},{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"hits","targetValue":"10"}},{"type":"External","external":{"metricName":"q\u003c","targetAverageValue":"30"}},{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":60}}]"#
        );
        assert_eq!(
            note(BEHAVIOR),
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":300,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#
        );
        assert_eq!(
            note(CURRENT),
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"3m"}}]"#
        );
        assert_eq!(
            note(CONDITIONS),
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"r","message":"m"}]"#
        );
        let spec = object.get("spec");
        assert_eq!(spec.get("targetCPUUtilizationPercentage").as_i64(), Some(50));
        v1_to_v2(&mut object);
        for part in ["spec", "status"] {
            assert_eq!(object.get(part), stored.get(part));
        }
    }
}
