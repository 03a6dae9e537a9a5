//! Describes services, config maps, secrets, namespaces, service accounts and persistent volume claims.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::Value;

use super::{
    describe_writer::DescribeWriter, either, format_time, number, text, volumes::access_modes,
};
use crate::{error::Result, invocation::Invocation, print::table, resources::escape};

/// Name, namespace, labels and annotations, with which every description begins.
pub(super) fn begin(object: &Value, sheet: &mut DescribeWriter) {
    let meta = &object["metadata"];
    sheet.field("Name", text(&meta["name"]));
    if !meta["namespace"].is_null() {
        sheet.field("Namespace", text(&meta["namespace"]));
    }
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
}

/// The rows of a table of conditions. `seen` is the field with the time of the last probe or heartbeat.
pub(super) fn conditions_below(sheet: &mut DescribeWriter, conditions: &[Value], seen: &str) {
    sheet.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
    for c in conditions {
        let (kind, status) = (text(&c["type"]), text(&c["status"]));
        let (seen, turned) = (format_time(&c[seen]), format_time(&c["lastTransitionTime"]));
        let (reason, message) = (text(&c["reason"]), text(&c["message"]));
        sheet.line(1, &format!("{kind} \t{status} \t{seen} \t{turned} \t{reason} \t{message}"));
    }
}

pub(super) fn service(
    call: &Invocation<'_>,
    service: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec) = (&service["metadata"], &service["spec"]);
    begin(service, sheet);
    sheet.field("Selector", table::labels(&spec["selector"]));
    sheet.field("Type", text(&spec["type"]));
    sheet.optional_field("IP Family Policy", &spec["ipFamilyPolicy"]);
    sheet.field("IP Families", joined(&spec["ipFamilies"], "<none>"));
    sheet.field("IP", text(&spec["clusterIP"]));
    sheet.field("IPs", joined(&spec["clusterIPs"], "<none>"));
    if !spec["externalIPs"].items().is_empty() {
        sheet.field("External IPs", joined(&spec["externalIPs"], ""));
    }
    sheet.optional_field("Desired LoadBalancer IP", &spec["loadBalancerIP"]);
    sheet.optional_field("External Name", &spec["externalName"]);
    let ingress = service["status"]["loadBalancer"]["ingress"].items();
    if !ingress.is_empty() {
        let shown: Vec<String> = ingress
            .iter()
            .map(|entry| {
                let mode = text(&entry["ipMode"]);
                match (text(&entry["ip"]), mode) {
                    ("", _) => text(&entry["hostname"]).to_owned(),
                    (ip, "") => ip.to_owned(),
                    (ip, mode) => format!("{ip} ({mode})"),
                }
            })
            .collect();
        sheet.field("LoadBalancer Ingress", shown.join(", "));
    }
    let selector = escape(&format!("kubernetes.io/service-name={}", text(&meta["name"])));
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector={selector}&limit=500",
        text(&meta["namespace"])
    );
    let slices = call.server()?.get(&path)?;
    for port in spec["ports"].items() {
        let name = port["name"].as_str().unwrap_or("<unset>");
        let protocol = text(&port["protocol"]);
        sheet.field("Port", format!("{name}\t{}/{protocol}", number(&port["port"])));
        sheet.field("TargetPort", format!("{}/{protocol}", either(&port["targetPort"])));
        sheet.optional_field("AppProtocol", &port["appProtocol"]);
        if number(&port["nodePort"]) != 0 {
            sheet.field("NodePort", format!("{name}\t{}/{protocol}", number(&port["nodePort"])));
        }
        sheet.field("Endpoints", endpoints_of(slices["items"].items(), text(&port["name"])));
    }
    sheet.field("Session Affinity", text(&spec["sessionAffinity"]));
    sheet.optional_field("External Traffic Policy", &spec["externalTrafficPolicy"]);
    sheet.optional_field("Internal Traffic Policy", &spec["internalTrafficPolicy"]);
    if number(&spec["healthCheckNodePort"]) != 0 {
        sheet.field("HealthCheck NodePort", number(&spec["healthCheckNodePort"]));
    }
    if !spec["loadBalancerSourceRanges"].items().is_empty() {
        sheet.field("LoadBalancer Source Ranges", joined(&spec["loadBalancerSourceRanges"], ""));
    }
    sheet.optional_field("Traffic Distribution", &spec["trafficDistribution"]);
    Ok(())
}

/// Formats the ready endpoints for the port of this name, at most three: `10.0.0.5:80,10.0.0.6:80 + 2 more...`.
pub(super) fn endpoints_of(slices: &[Value], name: &str) -> String {
    if slices.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for slice in slices {
        let ports: Vec<Option<i64>> = match slice["ports"].items() {
            [] => vec![None],
            ports => ports
                .iter()
                .filter(|port| text(&port["name"]) == name)
                .map(|port| port["port"].as_i64())
                .collect(),
        };
        for port in ports {
            for endpoint in slice["endpoints"].items() {
                if endpoint["conditions"]["ready"].as_bool() == Some(false) {
                    continue;
                }
                let address = endpoint["addresses"].items().first().map_or("", text);
                all.push(match port {
                    None => address.to_owned(),
                    Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                    Some(port) => format!("{address}:{port}"),
                });
            }
        }
    }
    let shown = all.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    if all.len() > 3 { format!("{shown} + {} more...", all.len() - 3) } else { shown }
}

/// The items of a list, separated by commas; `none` if it is empty.
pub(super) fn joined(list: &Value, none: &str) -> String {
    let texts: Vec<String> = list.items().iter().map(either).collect();
    if texts.is_empty() { none.to_owned() } else { texts.join(",") }
}

pub(super) fn config_map(map: &Value, sheet: &mut DescribeWriter) {
    begin(map, sheet);
    sheet.line(0, "\nData\n====");
    for (name, value) in map["data"].entries() {
        sheet.line(0, &format!("{name}:\n----\n{}\n", text(value)));
    }
    sheet.line(0, "\nBinaryData\n====");
    for (name, value) in map["binaryData"].entries() {
        sheet.line(0, &format!("{name}: {} bytes", size(value)));
    }
    sheet.line(0, "");
}

fn size(value: &Value) -> usize {
    BASE64_STANDARD.decode(text(value)).map_or(0, |bytes| bytes.len())
}

pub(super) fn secret(secret: &Value, sheet: &mut DescribeWriter) {
    begin(secret, sheet);
    sheet.line(0, &format!("\nType:\t{}", text(&secret["type"])));
    sheet.line(0, "\nData\n====");
    for (name, value) in secret["data"].entries() {
        if name == "token" && text(&secret["type"]) == "kubernetes.io/service-account-token" {
            let token = BASE64_STANDARD.decode(text(value)).unwrap_or_default();
            sheet.line(0, &format!("{name}:\t{}", String::from_utf8_lossy(&token)));
        } else {
            sheet.line(0, &format!("{name}:\t{} bytes", size(value)));
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one sheet, from top to bottom")]
pub(super) fn namespace(
    call: &Invocation<'_>,
    namespace: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    begin(namespace, sheet);
    sheet.field("Status", text(&namespace["status"]["phase"]));
    let conditions = namespace["status"]["conditions"].items();
    if !conditions.is_empty() {
        sheet.line(0, "Conditions:");
        sheet.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
        sheet.line(1, "----\t------\t------------------\t------\t-------");
        for c in conditions {
            sheet.line(
                1,
                &format!(
                    "{}\t{}\t{}\t{}\t{}",
                    text(&c["type"]),
                    text(&c["status"]),
                    format_time(&c["lastTransitionTime"]),
                    text(&c["reason"]),
                    text(&c["message"])
                ),
            );
        }
    }
    let name = text(&namespace["metadata"]["name"]);
    let quotas =
        call.server()?.get(&format!("/api/v1/namespaces/{name}/resourcequotas?limit=500"))?;
    sheet.line(0, "");
    if quotas["items"].items().is_empty() {
        sheet.line(0, "No resource quota.");
    } else {
        sheet.line(0, "Resource Quotas");
    }
    for quota in quotas["items"].items() {
        sheet.line(1, &format!("Name:\t{}", text(&quota["metadata"]["name"])));
        let mut scopes: Vec<&str> = quota["spec"]["scopes"].items().iter().map(text).collect();
        scopes.sort_unstable();
        if !scopes.is_empty() {
            sheet.line(1, &format!("Scopes:\t{}", scopes.join(", ")));
        }
        for scope in scopes {
            let Some(help) = scope_help(scope) else { continue };
            sheet.line(1, &format!("* {help}"));
        }
        sheet.line(1, "Resource\tUsed\tHard");
        sheet.line(1, "--------\t---\t---");
        for (name, hard) in quota["status"]["hard"].entries() {
            let used = &quota["status"]["used"][name];
            let used = if used.is_null() { "0".to_owned() } else { either(used) };
            sheet.line(1, &format!("{name}\t{used}\t{}", either(hard)));
        }
    }
    let ranges = call.server()?.get(&format!("/api/v1/namespaces/{name}/limitranges?limit=500"))?;
    sheet.line(0, "");
    if ranges["items"].items().is_empty() {
        sheet.line(0, "No LimitRange resource.");
        return Ok(());
    }
    sheet.line(0, "Resource Limits\n Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio");
    sheet.line(
        0,
        " ----\t--------\t---\t---\t---------------\t-------------\t-----------------------",
    );
    for range in ranges["items"].items() {
        for item in range["spec"]["limits"].items() {
            let fields = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
            let mut names: Vec<&str> = fields
                .iter()
                .flat_map(|field| item[*field].entries().map(|entry| entry.0))
                .collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let cells: Vec<String> = fields
                    .iter()
                    .map(|field| match &item[*field][name] {
                        Value::Null => "-".to_owned(),
                        value => either(value),
                    })
                    .collect();
                sheet.line(0, &format!(" {}\t{name}\t{}", text(&item["type"]), cells.join("\t")));
            }
        }
    }
    Ok(())
}

/// The explanation of a quota scope.
pub(super) fn scope_help(scope: &str) -> Option<&'static str> {
    Some(match scope {
        "Terminating" => {
            "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the system."
        }
        "NotTerminating" => {
            "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate."
        }
        "BestEffort" => {
            "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service."
        }
        "NotBestEffort" => {
            "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service."
        }
        _ => return None,
    })
}

pub(super) fn service_account(account: &Value, sheet: &mut DescribeWriter) {
    begin(account, sheet);
    let names: Vec<String> = account["imagePullSecrets"]
        .items()
        .iter()
        .map(|secret| text(&secret["name"]).to_owned())
        .collect();
    if names.is_empty() {
        sheet.line(0, "Image pull secrets:\t<none>");
    }
    for (at, name) in names.iter().enumerate() {
        let title = if at == 0 { "Image pull secrets:" } else { "                   " };
        sheet.line(0, &format!("{title}\t{name}"));
    }
}

pub(super) fn claim(call: &Invocation<'_>, claim: &Value, sheet: &mut DescribeWriter) -> Result {
    let (meta, spec, status) = (&claim["metadata"], &claim["spec"], &claim["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("StorageClass", text(&spec["storageClassName"]));
    let phase = text(&status["phase"]);
    match meta["deletionTimestamp"].as_str() {
        Some(when) => sheet.field(
            "Status",
            format!("Terminating (lasts {})", crate::print::age::age_since(when, call.now())),
        ),
        None => sheet.field("Status", phase),
    }
    sheet.field("Volume", text(&spec["volumeName"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    let finalizers: Vec<&str> = meta["finalizers"].items().iter().map(text).collect();
    sheet.field("Finalizers", format!("[{}]", finalizers.join(" ")));
    let bound = !text(&spec["volumeName"]).is_empty();
    let modes = access_modes(&status["accessModes"]);
    sheet.field(
        "Capacity",
        match &status["capacity"]["storage"] {
            _ if !bound => String::new(),
            Value::Null => "0".to_owned(),
            storage => either(storage),
        },
    );
    sheet.field("Access Modes", if bound { modes } else { String::new() });
    sheet.optional_field("VolumeMode", &spec["volumeMode"]);
    let source = &spec["dataSource"];
    if !source.is_null() {
        sheet.line(0, "DataSource:");
        sheet.optional_field("  APIGroup", &source["apiGroup"]);
        sheet.line(1, &format!("Kind:\t{}", text(&source["kind"])));
        sheet.line(1, &format!("Name:\t{}", text(&source["name"])));
    }
    let pods = call
        .server()?
        .get(&format!("/api/v1/namespaces/{}/pods?limit=500", text(&meta["namespace"])))?;
    let uses = |pod: &&Value| {
        pod["spec"]["volumes"]
            .items()
            .iter()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == meta["name"])
    };
    let users: Vec<String> = pods["items"]
        .items()
        .iter()
        .filter(uses)
        .map(|pod| text(&pod["metadata"]["name"]).to_owned())
        .collect();
    sheet.column("Used By", &users);
    let conditions = status["conditions"].items();
    if !conditions.is_empty() {
        sheet.line(0, "Conditions:");
        sheet.line(1, "Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage");
        conditions_below(sheet, conditions, "lastProbeTime");
    }
    Ok(())
}
