//! The output of `describe` for each kind of object.

mod autoscaler;
mod containers;
mod core;
mod describe_writer;
mod network;
mod node;
mod other_kinds;
mod pod;
mod request;
mod storage;
mod volumes;
mod workload;

use object::Value;

use self::describe_writer::DescribeWriter;
pub(crate) use self::other_kinds::rows as rule_rows;
use crate::{
    error::Result,
    invocation::Invocation,
    print::{age, jsonpath},
    resources::escape,
    select::Info,
};

/// Describes an object, with its events if `events_too`.
pub(crate) fn describe(call: &Invocation<'_>, info: &Info, events_too: bool) -> Result<String> {
    let object = &info.object;
    let mut sheet = DescribeWriter::default();
    match (info.resource.group.as_str(), info.resource.kind.as_str()) {
        ("", "Pod") => pod::describe(call, object, &mut sheet),
        ("", "Service") => core::service(call, object, &mut sheet)?,
        ("", "ConfigMap") => core::config_map(object, &mut sheet),
        ("", "Secret") => core::secret(object, &mut sheet),
        ("", "Namespace") => core::namespace(call, object, &mut sheet)?,
        ("", "ServiceAccount") => core::service_account(object, &mut sheet),
        ("", "PersistentVolumeClaim") => core::claim(call, object, &mut sheet)?,
        ("", "Node") => node::describe(call, object, &mut sheet)?,
        ("apps", "Deployment") => workload::deployment(call, object, &mut sheet)?,
        ("apps", "ReplicaSet") => workload::replica_set(call, object, &mut sheet)?,
        ("apps", "StatefulSet") => workload::stateful_set(call, object, &mut sheet)?,
        ("apps", "DaemonSet") => workload::daemon_set(call, object, &mut sheet)?,
        ("batch", "CronJob") => other_kinds::cron_job(object, &mut sheet),
        ("", "ResourceQuota") => other_kinds::quota(object, &mut sheet),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            other_kinds::role(object, &mut sheet);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            other_kinds::binding(object, &mut sheet);
        }
        ("policy", "PodDisruptionBudget") => other_kinds::disruption_budget(object, &mut sheet),
        ("scheduling.k8s.io", "PriorityClass") => other_kinds::priority_class(object, &mut sheet),
        ("storage.k8s.io", "StorageClass") => other_kinds::storage_class(object, &mut sheet),
        ("batch", "Job") => workload::job(object, &mut sheet),
        ("", "ReplicationController") => {
            workload::replication_controller(call, object, &mut sheet)?;
        }
        ("", "PersistentVolume") => storage::volume(call, object, &mut sheet),
        ("storage.k8s.io", "CSINode") => storage::csi_node(object, &mut sheet),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            storage::attributes_class(object, &mut sheet);
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            request::describe(object, &mut sheet)?;
        }
        ("", "LimitRange") => other_kinds::limit_range(object, &mut sheet),
        ("", "Endpoints") => network::endpoints(object, &mut sheet),
        ("discovery.k8s.io", "EndpointSlice") => network::slice(object, &mut sheet),
        ("networking.k8s.io", "Ingress") => network::ingress(call, object, &mut sheet),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(object, &mut sheet),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object, &mut sheet),
        ("networking.k8s.io", "ServiceCIDR") => network::service_cidr(object, &mut sheet),
        ("networking.k8s.io", "IPAddress") => network::ip_address(object, &mut sheet),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let object = match info.resource.version.as_str() {
                "v2" => object.clone(),
                _ => call.server()?.get(&info.path().replace("/v1/", "/v2/"))?,
            };
            autoscaler::describe(&object, &mut sheet);
        }
        _ => generic(object, &mut sheet),
    }
    let without_events = [
        "Secret",
        "Namespace",
        "ResourceQuota",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "LimitRange",
        "NetworkPolicy",
    ];
    if events_too && !without_events.contains(&info.resource.kind.as_str()) {
        events(call, info, &mut sheet)?;
    }
    Ok(sheet.text())
}

/// Describes a pod template, with tabs unexpanded.
pub(crate) fn pod_template(template: &Value) -> String {
    let mut sheet = DescribeWriter::default();
    workload::template(template, &mut sheet);
    sheet.raw()
}

/// Describes any object: its fields, with readable names.
fn generic(object: &Value, sheet: &mut DescribeWriter) {
    sheet.field("Name", text(&object["metadata"]["name"]));
    sheet.field("Namespace", text(&object["metadata"]["namespace"]));
    sheet.labels("Labels", &object["metadata"]["labels"]);
    sheet.annotations("Annotations", &object["metadata"]["annotations"]);
    fields(object, 0, "", sheet);
}

fn fields(object: &Value, level: usize, path: &str, sheet: &mut DescribeWriter) {
    const SKIPPED: &[&str] = &[
        ".metadata.managedFields",
        ".metadata.name",
        ".metadata.namespace",
        ".metadata.labels",
        ".metadata.annotations",
    ];
    for (name, value) in object.entries() {
        let path = format!("{path}.{name}");
        if SKIPPED.contains(&path.as_str()) {
            continue;
        }
        let label = readable(name);
        match value {
            Value::Object(_) | Value::Map(_) => {
                sheet.line(level, &format!("{label}:"));
                fields(value, level + 1, &path, sheet);
            }
            Value::List(items) => {
                sheet.line(level, &format!("{label}:"));
                for item in items {
                    match item {
                        Value::Object(_) | Value::Map(_) => fields(item, level + 1, &path, sheet),
                        item => sheet.line(level + 1, &format_go_value(item)),
                    }
                }
            }
            value => sheet.line(level, &format!("{label}:\t{}", format_go_value(value))),
        }
    }
}

fn format_go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::List(items) => {
            format!("[{}]", items.iter().map(format_go_value).collect::<Vec<_>>().join(" "))
        }
        value => jsonpath::format_value(value),
    }
}

/// Makes a field name readable: `apiVersion` becomes `API Version`.
fn readable(field: &str) -> String {
    if field.chars().any(|c| !c.is_alphabetic() && c != '-') {
        return field.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let chars: Vec<char> = field.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1);
        let starts = match before {
            None => true,
            Some(before) if c.is_alphabetic() != before.is_alphabetic() => true,
            Some(before) => {
                c.is_uppercase()
                    && (before.is_lowercase()
                        || after.is_some_and(|after| after.is_lowercase() && before.is_uppercase()))
            }
        };
        if starts {
            parts.push(String::new());
        }
        parts.last_mut().expect("the first starts one").push(*c);
    }
    let mut merged: Vec<String> = Vec::new();
    let mut parts = parts.into_iter().peekable();
    while let Some(mut part) = parts.next() {
        let all_upper = part.chars().all(|c| !c.is_alphabetic() || c.is_uppercase());
        if part.len() >= 2
            && all_upper
            && let Some(next) = parts.next_if(|next| next.starts_with(char::is_uppercase))
        {
            part += &next;
        }
        merged.push(part);
    }
    let shown = merged.into_iter().map(|part| {
        if ["API", "URL", "UID", "GUID"].contains(&part.to_uppercase().as_str()) {
            part.to_uppercase()
        } else if part.to_lowercase() == part {
            let mut chars = part.chars();
            chars.next().map_or(String::new(), |first| {
                first.to_uppercase().collect::<String>() + chars.as_str()
            })
        } else {
            part
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Appends the recent events of the object.
fn events(call: &Invocation<'_>, info: &Info, sheet: &mut DescribeWriter) -> Result {
    let meta = &info.object["metadata"];
    let mut all = Vec::new();
    let mut uids = vec![meta["uid"].as_str().unwrap_or_default()];
    if info.resource.kind == "Node" {
        uids.push(&info.name); // kubelets use the node's name as its uid in events
    }
    let path = match info.namespace.as_str() {
        "" => "/api/v1/events".to_owned(),
        namespace => format!("/api/v1/namespaces/{namespace}/events"),
    };
    for uid in uids {
        let mut selector = vec![format!("involvedObject.name={}", info.name)];
        if info.resource.namespaced {
            selector.push(format!("involvedObject.namespace={}", info.namespace));
        }
        selector.push(format!("involvedObject.kind={}", info.resource.kind));
        selector.push(format!("involvedObject.uid={uid}"));
        let query = escape(&selector.join(","));
        let list = call.server()?.get(&format!("{path}?fieldSelector={query}&limit=500"))?;
        all.extend_from_slice(list["items"].items());
    }
    if all.is_empty() {
        sheet.line(0, "Events:\t<none>");
        return Ok(());
    }
    all.sort_by(|a, b| text(&a["lastTimestamp"]).cmp(text(&b["lastTimestamp"])));
    sheet.flush();
    sheet.line(0, "Events:");
    sheet.line(1, "Type\tReason\tAge\tFrom\tMessage");
    sheet.line(1, "----\t------\t----\t----\t-------");
    for event in &all {
        let (kind, reason) = (text(&event["type"]), text(&event["reason"]));
        let source = match text(&event["source"]["component"]) {
            "" => text(&event["reportingComponent"]),
            source => source,
        };
        let mut message = text(&event["message"]).trim().to_owned();
        let field = text(&event["involvedObject"]["fieldPath"]);
        if !field.is_empty() {
            message = format!("{field}: {message}");
        }
        sheet.line(
            1,
            &format!("{kind}\t{reason}\t{}\t{source}\t{message}", event_age(event, call.now())),
        );
    }
    Ok(())
}

/// The age of an event: `5m`, or `5m (x3 over 10m)`.
pub(crate) fn event_age(event: &Value, now: i64) -> String {
    let since = |value: &Value| match value.as_str() {
        None => "<unknown>".to_owned(),
        Some(moment) => age::age_since(moment, now),
    };
    let first = if event["eventTime"].is_null() {
        since(&event["firstTimestamp"])
    } else {
        since(&event["eventTime"])
    };
    if !event["series"].is_null() {
        let count = event["series"]["count"].as_i64().unwrap_or(0);
        return format!("{} (x{count} over {first})", since(&event["series"]["lastObservedTime"]));
    }
    match event["count"].as_i64().unwrap_or(0) {
        count @ 2.. => format!("{} (x{count} over {first})", since(&event["lastTimestamp"])),
        _ => first,
    }
}

/// Formats a timestamp as `Mon, 02 Jan 2006 15:04:05 +0000`.
pub(crate) fn format_time(value: &Value) -> String {
    let Some(moment) = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()) else {
        return "Mon, 01 Jan 0001 00:00:00 +0000".to_owned();
    };
    moment.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Formats a value that may be a number or a string.
fn either(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => jsonpath::format_value(value),
    }
}

/// The controller of the object: `ReplicaSet/web`.
fn controller(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].items();
    let owner = owners.iter().find(|owner| owner["controller"].as_bool() == Some(true))?;
    Some(format!("{}/{}", text(&owner["kind"]), text(&owner["name"])))
}

#[test]
fn names_become_readable() {
    for (name, shown) in [
        ("apiVersion", "API Version"),
        ("podIP", "Pod IP"),
        ("uid", "UID"),
        ("a.b", "a.b"),
        ("maxSurge", "Max Surge"),
        ("observedGeneration", "Observed Generation"),
    ] {
        assert_eq!(readable(name), shown);
    }
}
