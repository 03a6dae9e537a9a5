//! Workloads, and the pod templates they hold.

use object::{Value, selector::Selector};

use super::{containers, controller, either, moment, number, sheet::Sheet, text};
use crate::{
    call::Call,
    fail::Result,
    print::{age, table},
    resources::escape,
};

/// A template of pods.
pub(super) fn template(template: &Value, sheet: &mut Sheet) {
    let spec = &template["spec"];
    sheet.line(0, "Pod Template:");
    sheet.labels("  Labels", &template["metadata"]["labels"]);
    if template["metadata"]["annotations"].entries().len() > 0 {
        sheet.annotations("  Annotations", &template["metadata"]["annotations"]);
    }
    sheet.some("  Service Account", &spec["serviceAccountName"]);
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
    sheet.some("  Priority Class Name", &spec["priorityClassName"]);
    sheet.labels("  Node-Selectors", &spec["nodeSelector"]);
    sheet.column("  Tolerations", &containers::tolerations(&spec["tolerations"]));
}

pub(super) fn selector(tree: &Value) -> String {
    Selector::from_tree(tree)
        .map_or_else(|error| error.to_string(), |selector| selector.to_string())
}

fn conditions(object: &Value, sheet: &mut Sheet) {
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

/// `1 Running / 0 Waiting / …` of the pods that the object owns.
fn pods(call: &Call<'_>, object: &Value) -> Result<String> {
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

pub(super) fn deployment(call: &Call<'_>, object: &Value, sheet: &mut Sheet) -> Result {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("CreationTimestamp", moment(&meta["creationTimestamp"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.put("Selector", selector(&spec["selector"]));
    sheet.put(
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
    sheet.put("StrategyType", text(&spec["strategy"]["type"]));
    sheet.put("MinReadySeconds", number(&spec["minReadySeconds"]));
    let rolling = &spec["strategy"]["rollingUpdate"];
    if !rolling.is_null() {
        sheet.put(
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
        sheet.put("OldReplicaSets", shown(sets.iter().filter(|set| !is_new(set)).collect()));
        sheet.put("NewReplicaSet", shown(sets.iter().filter(is_new).collect()));
    }
    Ok(())
}

pub(super) fn replica_set(call: &Call<'_>, object: &Value, sheet: &mut Sheet) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    if let Some(owner) = controller(object) {
        sheet.put("Controlled By", owner);
    }
    sheet.put(
        "Replicas",
        format!(
            "{} current / {} desired",
            number(&object["status"]["replicas"]),
            number(&spec["replicas"])
        ),
    );
    sheet.put("Pods Status", pods(call, object)?);
    template(&spec["template"], sheet);
    conditions(object, sheet);
    Ok(())
}

pub(super) fn replication_controller(call: &Call<'_>, object: &Value, sheet: &mut Sheet) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("Selector", table::labels(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    let (current, desired) = (number(&object["status"]["replicas"]), number(&spec["replicas"]));
    sheet.put("Replicas", format!("{current} current / {desired} desired"));
    // Its selector is a plain map of labels.
    let mut labelled = object.clone();
    let labels = std::mem::take(&mut labelled["spec"]["selector"]);
    labelled["spec"]["selector"]["matchLabels"] = labels;
    sheet.put("Pods Status", pods(call, &labelled)?);
    template(&spec["template"], sheet);
    conditions(object, sheet);
    Ok(())
}

pub(super) fn stateful_set(call: &Call<'_>, object: &Value, sheet: &mut Sheet) -> Result {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("CreationTimestamp", moment(&meta["creationTimestamp"]));
    sheet.put("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.some("Service Name", &spec["serviceName"]);
    sheet.some("Pod Management Policy", &spec["podManagementPolicy"]);
    sheet.put(
        "Replicas",
        format!(
            "{} desired | {} total",
            number(&spec["replicas"]),
            number(&object["status"]["replicas"])
        ),
    );
    sheet.put("Update Strategy", text(&spec["updateStrategy"]["type"]));
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
    sheet.put("Pods Status", pods(call, object)?);
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

pub(super) fn daemon_set(call: &Call<'_>, object: &Value, sheet: &mut Sheet) -> Result {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("Selector", selector(&spec["selector"]));
    sheet.put("Node-Selector", table::labels(&spec["template"]["spec"]["nodeSelector"]));
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
    sheet.put("Pods Status", pods(call, object)?);
    template(&spec["template"], sheet);
    Ok(())
}

pub(super) fn job(object: &Value, sheet: &mut Sheet) {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    sheet.put("Name", text(&meta["name"]));
    sheet.put("Namespace", text(&meta["namespace"]));
    sheet.put("Selector", selector(&spec["selector"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    if let Some(owner) = controller(object) {
        sheet.put("Controlled By", owner);
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
            Value::Null if field == "completions" => sheet.put(title, "<unset>"),
            Value::Null => {}
            value => sheet.put(title, either(value)),
        }
    }
    if !status["startTime"].is_null() {
        sheet.put("Start Time", moment(&status["startTime"]));
    }
    if !status["completionTime"].is_null() {
        sheet.put("Completed At", moment(&status["completionTime"]));
        let seconds = |value: &Value| object::Time::seconds(text(value)).unwrap_or(0);
        sheet.put(
            "Duration",
            age::human(seconds(&status["completionTime"]) - seconds(&status["startTime"])),
        );
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        sheet.put("Active Deadline Seconds", format!("{seconds}s"));
    }
    let ready = status["ready"].as_i64().map_or(String::new(), |ready| format!(" ({ready} Ready)"));
    sheet.put(
        "Pods Statuses",
        format!(
            "{} Active{ready} / {} Succeeded / {} Failed",
            number(&status["active"]),
            number(&status["succeeded"]),
            number(&status["failed"])
        ),
    );
    if text(&spec["completionMode"]) == "Indexed" {
        sheet.put(
            "Completed Indexes",
            match text(&status["completedIndexes"]) {
                "" => "<none>",
                indexes => indexes,
            },
        );
    }
    template(&spec["template"], sheet);
}
