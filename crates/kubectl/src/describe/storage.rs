//! Describes persistent volumes, CSI nodes, volume attributes classes and ephemeral volume claims.

use object::Value;

use super::{core::begin, describe_writer::DescribeWriter, either, format_time, text, volumes};
use crate::{
    invocation::Invocation,
    print::{age, table},
};

pub(super) fn volume(call: &Invocation<'_>, object: &Value, sheet: &mut DescribeWriter) {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    let finalizers: Vec<&str> = meta["finalizers"].items().iter().map(text).collect();
    sheet.field("Finalizers", format!("[{}]", finalizers.join(" ")));
    let old = &meta["annotations"]["volume.beta.kubernetes.io/storage-class"];
    sheet.field("StorageClass", old.as_str().unwrap_or_else(|| text(&spec["storageClassName"])));
    match meta["deletionTimestamp"].as_str() {
        Some(when) => {
            sheet.field(
                "Status",
                format!("Terminating (lasts {})", age::age_since(when, call.now())),
            );
        }
        None => sheet.field("Status", text(&status["phase"])),
    }
    let claim = &spec["claimRef"];
    sheet.field(
        "Claim",
        if claim.is_null() {
            String::new()
        } else {
            format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
        },
    );
    sheet.field("Reclaim Policy", text(&spec["persistentVolumeReclaimPolicy"]));
    sheet.field("Access Modes", volumes::access_modes(&spec["accessModes"]));
    sheet.optional_field("VolumeMode", &spec["volumeMode"]);
    sheet.field(
        "Capacity",
        match either(&spec["capacity"]["storage"]).as_str() {
            "" => "0".to_owned(),
            amount => amount.to_owned(),
        },
    );
    affinity(&spec["nodeAffinity"]["required"], sheet);
    sheet.field("Message", text(&status["message"]));
    sheet.line(0, "Source:");
    if volumes::describe_source(spec, true, sheet) {
        return;
    }
    let csi = &spec["csi"];
    if csi.is_null() {
        sheet.line(1, "<unknown>");
        return;
    }
    for (title, value) in [
        ("Type", "CSI (a Container Storage Interface (CSI) volume source)".to_owned()),
        ("Driver", either(&csi["driver"])),
        ("FSType", either(&csi["fsType"])),
        ("VolumeHandle", either(&csi["volumeHandle"])),
        ("ReadOnly", csi["readOnly"].as_bool().unwrap_or(false).to_string()),
    ] {
        sheet.line(2, &format!("{title}:\t{value}"));
    }
    attributes(&csi["volumeAttributes"], sheet);
}

/// Writes the attributes of a CSI volume, one per line.
pub(super) fn attributes(attributes: &Value, sheet: &mut DescribeWriter) {
    if attributes.entries().len() == 0 {
        sheet.line(2, "VolumeAttributes:\t<none>");
    }
    for (at, (name, value)) in attributes.entries().enumerate() {
        // As upstream, every part has the indentation of the whole.
        let title = if at == 0 { "VolumeAttributes:\t" } else { "    \t" };
        sheet.line(2, &format!("{title}    {name}={}", text(value)));
    }
}

fn affinity(required: &Value, sheet: &mut DescribeWriter) {
    if required.is_null() {
        sheet.field("Node Affinity", "<none>");
        return;
    }
    sheet.field("Node Affinity", "");
    let terms = required["nodeSelectorTerms"].items();
    sheet.line(1, if terms.is_empty() { "Required Terms:\t<none>" } else { "Required Terms:\t" });
    for (at, term) in terms.iter().enumerate() {
        let lines: Vec<String> = term["matchExpressions"]
            .items()
            .iter()
            .map(|one| expression(one, &text(&one["operator"]).to_lowercase()))
            .collect();
        terms_of(&format!("Term {at}"), 2, &lines, sheet);
    }
}

/// Formats a requirement: `zone in [a, b]`.
fn expression(requirement: &Value, operator: &str) -> String {
    let values: Vec<&str> = requirement["values"].items().iter().map(text).collect();
    let key = text(&requirement["key"]);
    if values.is_empty() {
        format!("{key} {operator}")
    } else {
        format!("{key} {operator} [{}]", values.join(", "))
    }
}

fn terms_of(title: &str, level: usize, lines: &[String], sheet: &mut DescribeWriter) {
    if lines.is_empty() {
        sheet.line(level, &format!("{title}:\t<none>"));
    }
    for (at, line) in lines.iter().enumerate() {
        let start = if at == 0 { format!("{title}:") } else { String::new() };
        sheet.line(level, &format!("{start}\t{line}"));
    }
}

/// Writes the allowed topologies of a storage class.
pub(super) fn topologies(topologies: &Value, sheet: &mut DescribeWriter) {
    if topologies.is_null() {
        return;
    }
    let terms = topologies.items();
    sheet.field("AllowedTopologies", if terms.is_empty() { "<none>" } else { "" });
    for (at, term) in terms.iter().enumerate() {
        let lines: Vec<String> =
            term["matchLabelExpressions"].items().iter().map(|one| expression(one, "in")).collect();
        terms_of(&format!("Term {at}"), 1, &lines, sheet);
    }
}

pub(super) fn csi_node(object: &Value, sheet: &mut DescribeWriter) {
    begin(object, sheet);
    sheet.field("CreationTimestamp", format_time(&object["metadata"]["creationTimestamp"]));
    sheet.line(0, "Spec:");
    if object["spec"]["drivers"].is_null() {
        return;
    }
    sheet.line(1, "Drivers:");
    for driver in object["spec"]["drivers"].items() {
        sheet.line(2, &format!("{}:", text(&driver["name"])));
        sheet.line(3, &format!("Node ID:\t{}", text(&driver["nodeID"])));
        if let Some(count) = driver["allocatable"]["count"].as_i64() {
            sheet.line(3, "Allocatables:");
            sheet.line(4, &format!("Count:\t{count}"));
        }
        if !driver["topologyKeys"].is_null() {
            let keys: Vec<&str> = driver["topologyKeys"].items().iter().map(text).collect();
            sheet.line(3, &format!("Topology Keys:\t[{}]", keys.join(" ")));
        }
    }
}

pub(super) fn attributes_class(object: &Value, sheet: &mut DescribeWriter) {
    sheet.field("Name", text(&object["metadata"]["name"]));
    sheet.field("Annotations", table::labels(&object["metadata"]["annotations"]));
    sheet.field("DriverName", text(&object["driverName"]));
    sheet.field("Parameters", table::labels(&object["parameters"]));
}

/// Describes the claim template of an ephemeral volume. Parts of its lines are indented separately.
pub(super) fn inline_claim(template: &Value, sheet: &mut DescribeWriter) {
    const INDENT: &str = "    ";
    sheet.line(
        2,
        "Type:\tEphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
    );
    if template.is_null() {
        return;
    }
    let (meta, spec) = (&template["metadata"], &template["spec"]);
    let old = &meta["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = old.as_str().unwrap_or_else(|| text(&spec["storageClassName"]));
    sheet.line(2, &format!("StorageClass:\t{class}"));
    sheet.line(2, &format!("Volume:\t{}", text(&spec["volumeName"])));
    for (title, field, between) in [("Labels", "labels", "="), ("Annotations", "annotations", ": ")]
    {
        let map = &meta[field];
        if map.entries().len() == 0 {
            sheet.line(2, &format!("{title}:\t{INDENT}<none>"));
        }
        for (at, (name, value)) in map.entries().enumerate() {
            let start = if at == 0 { format!("{title}:") } else { INDENT.to_owned() };
            sheet.line(2, &format!("{start}\t{INDENT}{name}{between}{}", text(value)));
        }
    }
    sheet.line(2, "Capacity:\t");
    sheet.line(2, "Access Modes:\t");
    if let Some(mode) = spec["volumeMode"].as_str() {
        sheet.line(2, &format!("VolumeMode:\t{mode}"));
    }
    let source = &spec["dataSource"];
    if !source.is_null() {
        sheet.line(2, "DataSource:");
        for (title, field) in [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")] {
            if !source[field].is_null() {
                sheet.line(3, &format!("{title}:\t{}", text(&source[field])));
            }
        }
    }
}
