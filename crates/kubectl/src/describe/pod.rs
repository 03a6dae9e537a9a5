//! Describes pods.

use object::Value;

use super::{
    containers, controller, describe_writer::DescribeWriter, format_time, number, text, workload,
};
use crate::{invocation::Invocation, print::age};

#[expect(clippy::too_many_lines, reason = "one sheet, from top to bottom")]
pub(super) fn describe(call: &Invocation<'_>, pod: &Value, sheet: &mut DescribeWriter) {
    let (meta, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    if let Some(priority) = spec["priority"].as_i64() {
        sheet.field("Priority", priority);
    }
    sheet.optional_field("Priority Class Name", &spec["priorityClassName"]);
    sheet.optional_field("Runtime Class Name", &spec["runtimeClassName"]);
    sheet.optional_field("Service Account", &spec["serviceAccountName"]);
    match text(&spec["nodeName"]) {
        "" => sheet.field("Node", "<none>"),
        node => sheet.field("Node", format!("{node}/{}", text(&status["hostIP"]))),
    }
    if !status["startTime"].is_null() {
        sheet.field("Start Time", format_time(&status["startTime"]));
    }
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    let phase = text(&status["phase"]);
    if !meta["deletionTimestamp"].is_null() && !matches!(phase, "Failed" | "Succeeded") {
        let since = age::age_since(text(&meta["deletionTimestamp"]), call.now());
        sheet.field("Status", format!("Terminating (lasts {since})"));
        sheet.field(
            "Termination Grace Period",
            format!("{}s", number(&meta["deletionGracePeriodSeconds"])),
        );
    } else {
        sheet.field("Status", phase);
    }
    sheet.optional_field("Reason", &status["reason"]);
    sheet.optional_field("Message", &status["message"]);
    sheet.optional_field("SeccompProfile", &spec["securityContext"]["seccompProfile"]["type"]);
    sheet.field("IP", text(&status["podIP"]));
    if status["podIPs"].items().is_empty() {
        sheet.line(0, "IPs:\t<none>");
    } else {
        sheet.line(0, "IPs:");
        for ip in status["podIPs"].items() {
            sheet.line(1, &format!("IP:\t{}", text(&ip["ip"])));
        }
    }
    if let Some(owner) = controller(pod) {
        sheet.field("Controlled By", owner);
    }
    sheet.optional_field("NominatedNodeName", &status["nominatedNodeName"]);
    if !spec["resources"].is_null() {
        sheet.line(0, "Resources:");
        containers::resources(&spec["resources"], 1, sheet);
    }
    if !spec["initContainers"].items().is_empty() {
        containers::containers(
            "Init Containers",
            &spec["initContainers"],
            Some(&status["initContainerStatuses"]),
            pod,
            sheet,
        );
    }
    containers::containers(
        "Containers",
        &spec["containers"],
        Some(&status["containerStatuses"]),
        pod,
        sheet,
    );
    if !spec["ephemeralContainers"].items().is_empty() {
        containers::containers(
            "Ephemeral Containers",
            &spec["ephemeralContainers"],
            Some(&status["ephemeralContainerStatuses"]),
            pod,
            sheet,
        );
    }
    let conditions = status["conditions"].items();
    if !spec["readinessGates"].items().is_empty() {
        sheet.line(0, "Readiness Gates:\n  Type\tStatus");
        for gate in spec["readinessGates"].items() {
            let found = conditions.iter().find(|c| c["type"] == gate["conditionType"]);
            let state = found.map_or("<none>", |c| text(&c["status"]));
            sheet.line(1, &format!("{} \t{state} ", text(&gate["conditionType"])));
        }
    }
    if !conditions.is_empty() {
        sheet.line(0, "Conditions:\n  Type\tStatus");
        for condition in conditions {
            sheet.line(
                1,
                &format!("{} \t{} ", text(&condition["type"]), text(&condition["status"])),
            );
        }
    }
    containers::volumes(&spec["volumes"], "", sheet);
    sheet.field("QoS Class", qos(pod));
    sheet.labels("Node-Selectors", &spec["nodeSelector"]);
    sheet.column("Tolerations", &containers::tolerations(&spec["tolerations"]));
    topology_spread("Topology Spread Constraints", spec, sheet);
}

/// Describes the topology spread constraints of a pod or a pod template.
pub(super) fn topology_spread(title: &str, spec: &Value, sheet: &mut DescribeWriter) {
    let mut constraints = spec["topologySpreadConstraints"].items().to_vec();
    if constraints.is_empty() {
        return;
    }
    constraints.sort_by(|a, b| text(&a["topologyKey"]).cmp(text(&b["topologyKey"])));
    let line = |constraint: &Value| {
        let mut line = format!(
            "{}:{} when max skew {} is exceeded",
            text(&constraint["topologyKey"]),
            text(&constraint["whenUnsatisfiable"]),
            number(&constraint["maxSkew"])
        );
        if !constraint["labelSelector"].is_null() {
            line += &format!(
                " for selector {}",
                workload::selector_or_none(&constraint["labelSelector"])
            );
        }
        line
    };
    sheet.column(title, &constraints.iter().map(line).collect::<Vec<_>>());
}

/// The QoS class from the status, or computed from requests and limits.
fn qos(pod: &Value) -> String {
    if let Some(class) = pod["status"]["qosClass"].as_str() {
        return class.to_owned();
    }
    let all: Vec<&Value> = pod["spec"]["containers"]
        .items()
        .iter()
        .chain(pod["spec"]["initContainers"].items())
        .collect();
    let has = |c: &&Value, field: &str| {
        c["resources"][field].entries().any(|(name, _)| matches!(name, "cpu" | "memory"))
    };
    if !all.iter().any(|c| has(c, "limits") || has(c, "requests")) {
        return "BestEffort".to_owned();
    }
    let full = |c: &&Value| {
        let (limits, requests) = (&c["resources"]["limits"], &c["resources"]["requests"]);
        ["cpu", "memory"].iter().all(|name| {
            !limits[*name].is_null()
                && (requests[*name].is_null() || requests[*name] == limits[*name])
        })
    };
    if all.iter().all(full) { "Guaranteed".to_owned() } else { "Burstable".to_owned() }
}
