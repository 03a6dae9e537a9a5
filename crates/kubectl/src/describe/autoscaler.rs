//! Describes HorizontalPodAutoscalers.

use object::{Value, quote::quote};

use super::{core::begin, describe_writer::DescribeWriter, either, format_time, number, text};

pub(super) fn describe(object: &Value, sheet: &mut DescribeWriter) {
    let (spec, status) = (&object["spec"], &object["status"]);
    begin(object, sheet);
    sheet.field("CreationTimestamp", format_time(&object["metadata"]["creationTimestamp"]));
    let target = &spec["scaleTargetRef"];
    sheet.field("Reference", format!("{}/{}", text(&target["kind"]), text(&target["name"])));
    sheet.field("Metrics", "( current / target )");
    for (at, wanted) in spec["metrics"].items().iter().enumerate() {
        let there = status["currentMetrics"].items().get(at).cloned().unwrap_or_default();
        sheet.line(1, &metric(wanted, &there));
    }
    let least = &spec["minReplicas"];
    sheet.field("Min replicas", if least.is_null() { "<unset>".to_owned() } else { either(least) });
    sheet.field("Max replicas", number(&spec["maxReplicas"]));
    let behavior = &spec["behavior"];
    if !behavior.is_null() {
        sheet.line(0, "Behavior:");
        direction("Scale Up", &behavior["scaleUp"], sheet);
        direction("Scale Down", &behavior["scaleDown"], sheet);
    }
    let (current, desired) =
        (number(&status["currentReplicas"]), number(&status["desiredReplicas"]));
    let kind = text(&target["kind"]);
    sheet.line(0, &format!("{kind} pods:\t{current} current / {desired} desired"));
    let conditions = status["conditions"].items();
    if conditions.is_empty() {
        return;
    }
    sheet.line(0, "Conditions:");
    sheet.line(1, "Type\tStatus\tReason\tMessage");
    sheet.line(1, "----\t------\t------\t-------");
    for one in conditions {
        sheet.line(
            1,
            &format!(
                "{}\t{}\t{}\t{}",
                text(&one["type"]),
                text(&one["status"]),
                text(&one["reason"]),
                text(&one["message"])
            ),
        );
    }
}

fn metric(wanted: &Value, there: &Value) -> String {
    let (field, kind) = match text(&wanted["type"]) {
        "External" => ("external", "value"),
        "Pods" => ("pods", "pods"),
        "Object" => ("object", "value"),
        "Resource" => ("resource", "resource"),
        "ContainerResource" => ("containerResource", "resource"),
        other => return format!("<unknown metric type {}>", quote(other)),
    };
    let (metric, current) = (&wanted[field], &there[field]["current"]);
    let target = &metric["target"];
    let average = !target["averageValue"].is_null();
    let name = quote(text(&metric["metric"]["name"]));
    let now = |of: &str| match current[of].is_null() {
        true if there[field].is_null() => "<unknown>".to_owned(),
        true => "0".to_owned(),
        false => either(&current[of]),
    };
    let pair = |of: &str| format!("{} / {}", now(of), either(&target[of]));
    match (field, kind) {
        ("external", _) if average => {
            format!("{name} (target average value):\t{}", pair("averageValue"))
        }
        ("external", _) => format!("{name} (target value):\t{}", pair("value")),
        ("pods", _) => format!("{name} on pods:\t{}", pair("averageValue")),
        ("object", _) => {
            let on = &metric["describedObject"];
            let on = format!("{name} on {}/{} ", text(&on["kind"]), text(&on["name"]));
            if text(&target["type"]) == "AverageValue" {
                format!("{on}(target average value):\t{}", pair("averageValue"))
            } else {
                format!("{on}(target value):\t{}", pair("value"))
            }
        }
        _ => {
            let of = match text(&metric["container"]) {
                "" => String::new(),
                container => format!(" of container {}", quote(container)),
            };
            let title = format!("resource {}{of} on pods", text(&metric["name"]));
            if average {
                return format!("{title}:\t{}", pair("averageValue"));
            }
            let percent = |value: &Value| value.as_i64().map(|n| format!("{n}%"));
            let now = percent(&current["averageUtilization"])
                .map_or("<unknown>".to_owned(), |percent| {
                    format!("{percent} ({})", either(&current["averageValue"]))
                });
            let wanted = percent(&target["averageUtilization"]).unwrap_or("<auto>".to_owned());
            format!("{title}  (as a percentage of request):\t{now} / {wanted}")
        }
    }
}

fn direction(title: &str, rules: &Value, sheet: &mut DescribeWriter) {
    if rules.is_null() {
        return;
    }
    sheet.line(1, &format!("{title}:"));
    if let Some(seconds) = rules["stabilizationWindowSeconds"].as_i64() {
        sheet.line(2, &format!("Stabilization Window: {seconds} seconds"));
    }
    let policies = rules["policies"].items();
    if policies.is_empty() {
        return;
    }
    sheet.line(2, &format!("Select Policy: {}", rules["selectPolicy"].as_str().unwrap_or("Max")));
    sheet.line(2, "Policies:");
    for policy in policies {
        sheet.line(
            3,
            &format!(
                "- Type: {}\tValue: {}\tPeriod: {} seconds",
                text(&policy["type"]),
                number(&policy["value"]),
                number(&policy["periodSeconds"])
            ),
        );
    }
}
