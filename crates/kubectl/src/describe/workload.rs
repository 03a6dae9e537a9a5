//! Describes workloads, and their pod templates.

use object::{Value, selector::Selector};

use super::{
    containers, controller, describe_writer::DescribeWriter, either, format_time, number, text,
};
use crate::{
    error::Result,
    invocation::Invocation,
    print::{age, table},
    resources::escape,
};

/// Describes a pod template.
pub(super) fn template(template: &Value, sheet: &mut DescribeWriter) {
    let spec = &template["spec"];
    sheet.line(0, "Pod Template:");
    sheet.labels("  Labels", &template["metadata"]["labels"]);
    if template["metadata"]["annotations"].entries().len() > 0 {
        sheet.annotations("  Annotations", &template["metadata"]["annotations"]);
    }
    sheet.optional_field("  Service Account", &spec["serviceAccountName"]);
    if !spec["initContainers"].items().is_empty() {
        containers::containers(
            "Init Containers",
            &spec["initContainers"],
            None,
            &object::NULL,
            sheet,
        );
    }
    containers::containers("Containers", &spec["containers"], None, &object::NULL, sheet);
    containers::volumes(&spec["volumes"], "  ", sheet);
    super::pod::topology_spread("  Topology Spread Constraints", spec, sheet);
    sheet.optional_field("  Priority Class Name", &spec["priorityClassName"]);
    sheet.labels("  Node-Selectors", &spec["nodeSelector"]);
    sheet.column("  Tolerations", &containers::tolerations(&spec["tolerations"]));
}

/// Formats a LabelSelector.
/// A label selector; `<none>` if it selects everything.
pub(super) fn selector_or_none(tree: &Value) -> String {
    match selector(tree).as_str() {
        "" => "<none>".to_owned(),
        selector => selector.to_owned(),
    }
}

pub(super) fn selector(tree: &Value) -> String {
    Selector::from_label_selector(tree)
        .map_or_else(|error| error.to_string(), |selector| selector.to_string())
}

fn conditions(object: &Value, sheet: &mut DescribeWriter) {
    let all = object["status"]["conditions"].items();
    if all.is_empty() {
        return;
    }
    sheet.line(0, "Conditions:\n  Type\tStatus\tReason");
    sheet.line(1, "----\t------\t------");
    for c in all {
        sheet.line(
            1,
            &format!("{} \t{}\t{}", text(&c["type"]), text(&c["status"]), text(&c["reason"])),
        );
    }
}

/// Counts the pods that the object owns: `1 Running / 0 Waiting / …`.
fn pods(call: &Invocation<'_>, object: &Value) -> Result<String> {
    let selector = escape(&selector(&object["spec"]["selector"]));
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={selector}",
        text(&object["metadata"]["namespace"])
    );
    let list = call.server()?.get(&path)?;
    let uid = &object["metadata"]["uid"];
    let mut counts = [0; 4];
    for pod in list["items"].items() {
        let owned = pod["metadata"]["ownerReferences"]
            .items()
            .iter()
            .any(|o| o["uid"] == *uid && o["controller"].as_bool() == Some(true));
        let phases = ["Running", "Pending", "Succeeded", "Failed"];
        if let Some(at) =
            phases.iter().position(|phase| owned && pod["status"]["phase"].as_str() == Some(phase))
        {
            counts[at] += 1;
        }
    }
    let [running, waiting, succeeded, failed] = counts;
    Ok(format!("{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed"))
}

pub(super) fn deployment(
    call: &Invocation<'_>,
    object: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("CreationTimestamp", format_time(&meta["creationTimestamp"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.field("Selector", selector(&spec["selector"]));
    sheet.field(
        "Replicas",
        format!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            number(&spec["replicas"]),
            number(&status["updatedReplicas"]),
            number(&status["replicas"]),
            number(&status["availableReplicas"]),
            number(&status["unavailableReplicas"])
        ),
    );
    sheet.field("StrategyType", text(&spec["strategy"]["type"]));
    sheet.field("MinReadySeconds", number(&spec["minReadySeconds"]));
    let rolling = &spec["strategy"]["rollingUpdate"];
    if !rolling.is_null() {
        sheet.field(
            "RollingUpdateStrategy",
            format!(
                "{} max unavailable, {} max surge",
                either(&rolling["maxUnavailable"]),
                either(&rolling["maxSurge"])
            ),
        );
    }
    template(&spec["template"], sheet);
    conditions(object, sheet);
    let path = format!(
        "/apis/apps/v1/namespaces/{}/replicasets?labelSelector={}",
        text(&meta["namespace"]),
        escape(&selector(&spec["selector"]))
    );
    let sets = call.server()?.get(&path)?;
    let owned = |set: &&Value| {
        set["metadata"]["ownerReferences"]
            .items()
            .iter()
            .any(|o| o["uid"] == meta["uid"] && o["controller"].as_bool() == Some(true))
    };
    let mut sets: Vec<&Value> = sets["items"].items().iter().filter(owned).collect();
    sets.sort_by_key(|set| text(&set["metadata"]["creationTimestamp"]).to_owned());
    let same = |set: &&&Value| {
        let mut there = set["spec"]["template"].clone();
        there["metadata"]["labels"].remove("pod-template-hash");
        there == spec["template"]
    };
    let new = sets.iter().find(same).copied();
    let shown = |sets: Vec<&&Value>| {
        let texts: Vec<String> = sets
            .iter()
            .map(|set| {
                format!(
                    "{} ({}/{} replicas created)",
                    text(&set["metadata"]["name"]),
                    number(&set["status"]["replicas"]),
                    number(&set["spec"]["replicas"])
                )
            })
            .collect();
        if texts.is_empty() { "<none>".to_owned() } else { texts.join(", ") }
    };
    if !sets.is_empty() {
        let is_new =
            |set: &&&Value| new.is_some_and(|new| new["metadata"]["uid"] == set["metadata"]["uid"]);
        sheet.field("OldReplicaSets", shown(sets.iter().filter(|set| !is_new(set)).collect()));
        sheet.field("NewReplicaSet", shown(sets.iter().filter(is_new).collect()));
    }
    Ok(())
}

pub(super) fn replica_set(
    call: &Invocation<'_>,
    object: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    if let Some(owner) = controller(object) {
        sheet.field("Controlled By", owner);
    }
    sheet.field(
        "Replicas",
        format!(
            "{} current / {} desired",
            number(&object["status"]["replicas"]),
            number(&spec["replicas"])
        ),
    );
    sheet.field("Pods Status", pods(call, object)?);
    template(&spec["template"], sheet);
    conditions(object, sheet);
    Ok(())
}

pub(super) fn replication_controller(
    call: &Invocation<'_>,
    object: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("Selector", table::labels(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    let (current, desired) = (number(&object["status"]["replicas"]), number(&spec["replicas"]));
    sheet.field("Replicas", format!("{current} current / {desired} desired"));
    // A ReplicationController's selector is a plain map of labels.
    let mut labelled = object.clone();
    let labels = std::mem::take(&mut labelled["spec"]["selector"]);
    labelled["spec"]["selector"]["matchLabels"] = labels;
    sheet.field("Pods Status", pods(call, &labelled)?);
    template(&spec["template"], sheet);
    conditions(object, sheet);
    Ok(())
}

pub(super) fn stateful_set(
    call: &Invocation<'_>,
    object: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("CreationTimestamp", format_time(&meta["creationTimestamp"]));
    sheet.field("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.optional_field("Service Name", &spec["serviceName"]);
    sheet.optional_field("Pod Management Policy", &spec["podManagementPolicy"]);
    sheet.field(
        "Replicas",
        format!(
            "{} desired | {} total",
            number(&spec["replicas"]),
            number(&object["status"]["replicas"])
        ),
    );
    sheet.field("Update Strategy", text(&spec["updateStrategy"]["type"]));
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    if !rolling["partition"].is_null() {
        sheet.line(1, &format!("Partition:\t{}", number(&rolling["partition"])));
        if !rolling["maxUnavailable"].is_null() {
            sheet.line(1, &format!("MaxUnavailable:\t{}", either(&rolling["maxUnavailable"])));
        }
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    if !retention.is_null() {
        sheet.line(0, "Persistent Volume Claim Retention Policy:");
        sheet.line(1, &format!("WhenDeleted:\t{}", text(&retention["whenDeleted"])));
        sheet.line(1, &format!("WhenScaled:\t{}", text(&retention["whenScaled"])));
    }
    sheet.field("Pods Status", pods(call, object)?);
    template(&spec["template"], sheet);
    let claims = spec["volumeClaimTemplates"].items();
    sheet.line(0, if claims.is_empty() { "Volume Claims:\t<none>" } else { "Volume Claims:" });
    for claim in claims {
        sheet.line(1, &format!("Name:\t{}", text(&claim["metadata"]["name"])));
        sheet.line(1, &format!("StorageClass:\t{}", text(&claim["spec"]["storageClassName"])));
        sheet.labels("  Labels", &claim["metadata"]["labels"]);
        sheet.labels("  Annotations", &claim["metadata"]["annotations"]);
        let capacity = &claim["spec"]["resources"]["requests"]["storage"];
        sheet.line(
            1,
            &format!(
                "Capacity:\t{}",
                if capacity.is_null() { "<default>".to_owned() } else { either(capacity) }
            ),
        );
        let modes: Vec<&str> = claim["spec"]["accessModes"].items().iter().map(text).collect();
        sheet.line(1, &format!("Access Modes:\t[{}]", modes.join(" ")));
    }
    Ok(())
}

pub(super) fn daemon_set(
    call: &Invocation<'_>,
    object: &Value,
    sheet: &mut DescribeWriter,
) -> Result {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("Selector", selector(&spec["selector"]));
    sheet.field("Node-Selector", table::labels(&spec["template"]["spec"]["nodeSelector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    for (title, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        sheet.line(0, &format!("{title}: {}", number(&status[field])));
    }
    sheet.field("Pods Status", pods(call, object)?);
    template(&spec["template"], sheet);
    Ok(())
}

pub(super) fn job(object: &Value, sheet: &mut DescribeWriter) {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    sheet.field("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    if let Some(owner) = controller(object) {
        sheet.field("Controlled By", owner);
    }
    for (title, field) in [
        ("Parallelism", "parallelism"),
        ("Completions", "completions"),
        ("Completion Mode", "completionMode"),
        ("Suspend", "suspend"),
        ("Backoff Limit", "backoffLimit"),
        ("TTL Seconds After Finished", "ttlSecondsAfterFinished"),
    ] {
        match &spec[field] {
            Value::Null if field == "completions" => sheet.field(title, "<unset>"),
            Value::Null => {}
            value => sheet.field(title, either(value)),
        }
    }
    if !status["startTime"].is_null() {
        sheet.field("Start Time", format_time(&status["startTime"]));
    }
    if !status["completionTime"].is_null() {
        sheet.field("Completed At", format_time(&status["completionTime"]));
        let seconds = |value: &Value| object::Time::parse_seconds(text(value)).unwrap_or(0);
        sheet.field(
            "Duration",
            age::human_duration(seconds(&status["completionTime"]) - seconds(&status["startTime"])),
        );
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        sheet.field("Active Deadline Seconds", format!("{seconds}s"));
    }
    let ready = status["ready"].as_i64().map_or(String::new(), |ready| format!(" ({ready} Ready)"));
    sheet.field(
        "Pods Statuses",
        format!(
            "{} Active{ready} / {} Succeeded / {} Failed",
            number(&status["active"]),
            number(&status["succeeded"]),
            number(&status["failed"])
        ),
    );
    if text(&spec["completionMode"]) == "Indexed" {
        sheet.field(
            "Completed Indexes",
            match text(&status["completedIndexes"]) {
                "" => "<none>",
                indexes => indexes,
            },
        );
    }
    template(&spec["template"], sheet);
}
