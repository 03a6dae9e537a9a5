//! Describes nodes, and the pods on them.

use object::{Value, quantity::Quantity};

use super::{
    core::{conditions_below, joined},
    describe_writer::DescribeWriter,
    either, format_time, text,
};
use crate::{error::Result, invocation::Invocation, print::age};

pub(super) fn describe(call: &Invocation<'_>, node: &Value, sheet: &mut DescribeWriter) -> Result {
    let (meta, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
    let name = text(&meta["name"]);
    sheet.field("Name", name);
    let mut roles: Vec<&str> = meta["labels"]
        .entries()
        .filter_map(|(label, value)| {
            label
                .strip_prefix("node-role.kubernetes.io/")
                .or((label == "kubernetes.io/role").then(|| text(value)))
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    sheet.field("Roles", if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") });
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.field("CreationTimestamp", format_time(&meta["creationTimestamp"]));
    let mut taints: Vec<String> = spec["taints"]
        .items()
        .iter()
        .map(|taint| {
            let (key, value, effect) =
                (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
            if value.is_empty() {
                format!("{key}:{effect}")
            } else {
                format!("{key}={value}:{effect}")
            }
        })
        .collect();
    taints.sort_by_key(|taint| {
        (taint.rsplit(':').next().unwrap_or_default().to_owned(), taint.clone())
    });
    sheet.column("Taints", &taints);
    sheet.field("Unschedulable", spec["unschedulable"].as_bool().unwrap_or(false));
    lease(call, name, sheet)?;
    let conditions = status["conditions"].items();
    if !conditions.is_empty() {
        sheet.line(
            0,
            "Conditions:\n  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage",
        );
        conditions_below(sheet, conditions, "lastHeartbeatTime");
    }
    sheet.line(0, "Addresses:");
    for address in status["addresses"].items() {
        sheet.line(1, &format!("{}:\t{}", text(&address["type"]), text(&address["address"])));
    }
    for (field, title) in [("capacity", "Capacity:"), ("allocatable", "Allocatable:")] {
        if status[field].entries().len() > 0 {
            sheet.line(0, title);
        }
        for (name, value) in status[field].entries() {
            sheet.line(1, &format!("{name}:\t{}", either(value)));
        }
    }
    sheet.line(0, "System Info:");
    for (title, field) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ] {
        sheet.line(1, &format!("{title}:\t{}", text(&status["nodeInfo"][field])));
    }
    sheet.optional_field("PodCIDR", &spec["podCIDR"]);
    if !spec["podCIDRs"].items().is_empty() {
        sheet.field("PodCIDRs", joined(&spec["podCIDRs"], ""));
    }
    sheet.optional_field("ProviderID", &spec["providerID"]);
    pods(call, node, sheet)
}

fn lease(call: &Invocation<'_>, name: &str, sheet: &mut DescribeWriter) -> Result {
    match call
        .server()?
        .get(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"))
    {
        Err(fail) => sheet.field("Lease", format!("Failed to get lease: {}", fail.message())),
        Ok(lease) => {
            sheet.line(0, "Lease:");
            let spec = &lease["spec"];
            let time = |value: &Value| {
                if value.is_null() { "<unset>".to_owned() } else { format_time(value) }
            };
            sheet.line(
                1,
                &format!(
                    "HolderIdentity:\t{}",
                    spec["holderIdentity"].as_str().unwrap_or("<unset>")
                ),
            );
            sheet.line(1, &format!("AcquireTime:\t{}", time(&spec["acquireTime"])));
            sheet.line(1, &format!("RenewTime:\t{}", time(&spec["renewTime"])));
        }
    }
    Ok(())
}

fn pods(call: &Invocation<'_>, node: &Value, sheet: &mut DescribeWriter) -> Result {
    let name = text(&node["metadata"]["name"]);
    let selector = crate::resources::escape(&format!(
        "spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    ));
    let list = call.server()?.get(&format!("/api/v1/pods?fieldSelector={selector}&limit=500"))?;
    let all = list["items"].items();
    let status = &node["status"];
    let allocatable = if status["allocatable"].entries().len() > 0 {
        &status["allocatable"]
    } else {
        &status["capacity"]
    };
    sheet.field("Non-terminated Pods", format!("({} in total)", all.len()));
    sheet.line(
        1,
        "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge",
    );
    sheet.line(
        1,
        "---------\t----\t\t------------\t----------\t---------------\t-------------\t---",
    );
    let part = |sum: &Quantity, name: &str| {
        format!("{sum} ({}%)", percent(sum, &quantity(&allocatable[name])))
    };
    for pod in all {
        let of = |kind: &str, name: &str| pod_share(&total(pod, kind, name), &allocatable[name]);
        let meta = &pod["metadata"];
        let age = age::age_since(text(&meta["creationTimestamp"]), call.now());
        sheet.line(
            1,
            &format!(
                "{}\t{}\t\t{}\t{}\t{}\t{}\t{age}",
                text(&meta["namespace"]),
                text(&meta["name"]),
                of("requests", "cpu"),
                of("limits", "cpu"),
                of("requests", "memory"),
                of("limits", "memory")
            ),
        );
    }
    sheet.line(
        0,
        "Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)",
    );
    sheet.line(1, "Resource\tRequests\tLimits");
    sheet.line(1, "--------\t--------\t------");
    let sum = |kind: &str, name: &str| {
        all.iter().fold(Quantity::default(), |sum, pod| sum + &total(pod, kind, name))
    };
    let standard = ["cpu", "memory", "ephemeral-storage"];
    for name in standard {
        sheet.line(
            1,
            &format!(
                "{name}\t{}\t{}",
                part(&sum("requests", name), name),
                part(&sum("limits", name), name)
            ),
        );
    }
    let others = |huge: bool| {
        allocatable.entries().map(|entry| entry.0).filter(move |name| {
            name.starts_with("hugepages-") == huge && !standard.contains(name) && *name != "pods"
        })
    };
    for name in others(true) {
        sheet.line(
            1,
            &format!(
                "{name}\t{}\t{}",
                part(&sum("requests", name), name),
                part(&sum("limits", name), name)
            ),
        );
    }
    for name in others(false) {
        sheet.line(1, &format!("{name}\t{}\t{}", sum("requests", name), sum("limits", name)));
    }
    Ok(())
}

/// The share that a pod takes. Go makes the smallest number of a share of nothing; upstream checks for it in the sums
/// only.
fn pod_share(sum: &Quantity, allocatable: &Value) -> String {
    match quantity(allocatable) {
        none if none.milli_value() == 0 => format!("{sum} ({}%)", i64::MIN),
        whole => format!("{sum} ({}%)", percent(sum, &whole)),
    }
}

fn quantity(value: &Value) -> Quantity {
    <Quantity as object::View>::view(value)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a share, in percent"
)]
fn percent(part: &Quantity, whole: &Quantity) -> i64 {
    match whole.milli_value() {
        0 => 0,
        whole => (part.milli_value() as f64 / whole as f64 * 100.0) as i64,
    }
}

/// The requests or limits of a pod: the sum of its containers, or the largest init container.
fn total(pod: &Value, kind: &str, name: &str) -> Quantity {
    let spec = &pod["spec"];
    let of = |container: &Value| quantity(&container["resources"][kind][name]);
    if !spec["resources"][kind][name].is_null() {
        return quantity(&spec["resources"][kind][name]);
    }
    let mut sum = spec["containers"]
        .items()
        .iter()
        .fold(Quantity::default(), |sum, container| sum + &of(container));
    let mut sidecars = Quantity::default();
    let mut largest = Quantity::default();
    for container in spec["initContainers"].items() {
        if text(&container["restartPolicy"]) == "Always" {
            sidecars += &of(container);
            largest = largest.max(sidecars.clone());
        } else {
            largest = largest.max(of(container) + &sidecars);
        }
    }
    sum += &sidecars;
    let mut sum = sum.max(largest);
    if !sum.is_zero() && !spec["overhead"][name].is_null() {
        sum += &quantity(&spec["overhead"][name]);
    }
    sum
}
