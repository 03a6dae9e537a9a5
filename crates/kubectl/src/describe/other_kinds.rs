//! Describes cron jobs, quotas, limit ranges, RBAC roles and bindings, PodDisruptionBudgets, priority classes and
//! storage classes.

use object::Value;

use super::{
    core::begin, describe_writer::DescribeWriter, either, format_time, number, text, workload,
};

fn or_unset(value: &Value) -> String {
    if value.is_null() { "<unset>".to_owned() } else { either(value) }
}

pub(super) fn cron_job(object: &Value, sheet: &mut DescribeWriter) {
    let (spec, status) = (&object["spec"], &object["status"]);
    begin(object, sheet);
    sheet.field("Schedule", text(&spec["schedule"]));
    sheet.field("Concurrency Policy", text(&spec["concurrencyPolicy"]));
    sheet.field(
        "Suspend",
        match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        },
    );
    sheet.field("Time Zone", or_unset(&spec["timeZone"]));
    sheet.field("Successful Job History Limit", or_unset(&spec["successfulJobsHistoryLimit"]));
    sheet.field("Failed Job History Limit", or_unset(&spec["failedJobsHistoryLimit"]));
    let deadline = &spec["startingDeadlineSeconds"];
    sheet.field(
        "Starting Deadline Seconds",
        deadline.as_i64().map_or("<unset>".to_owned(), |n| format!("{n}s")),
    );
    let job = &spec["jobTemplate"]["spec"];
    sheet.field(
        "Selector",
        if job["selector"].is_null() {
            "<unset>".to_owned()
        } else {
            workload::selector(&job["selector"])
        },
    );
    sheet.field("Parallelism", or_unset(&job["parallelism"]));
    sheet.field("Completions", or_unset(&job["completions"]));
    if let Some(seconds) = job["activeDeadlineSeconds"].as_i64() {
        sheet.field("Active Deadline Seconds", format!("{seconds}s"));
    }
    workload::template(&job["template"], sheet);
    let last = &status["lastScheduleTime"];
    sheet.field(
        "Last Schedule Time",
        if last.is_null() { "<unset>".to_owned() } else { format_time(last) },
    );
    let active: Vec<&str> = status["active"].items().iter().map(|job| text(&job["name"])).collect();
    sheet.field(
        "Active Jobs",
        if active.is_empty() { "<none>".to_owned() } else { active.join(", ") },
    );
}

pub(super) fn quota(object: &Value, sheet: &mut DescribeWriter) {
    let meta = &object["metadata"];
    sheet.field("Name", text(&meta["name"]));
    sheet.field("Namespace", text(&meta["namespace"]));
    let mut scopes: Vec<&str> = object["spec"]["scopes"].items().iter().map(text).collect();
    scopes.sort_unstable();
    if !scopes.is_empty() {
        sheet.field("Scopes", scopes.join(", "));
    }
    for help in scopes.iter().filter_map(|scope| super::core::scope_help(scope)) {
        sheet.line(0, &format!(" * {help}"));
    }
    sheet.line(0, "Resource\tUsed\tHard");
    sheet.line(0, "--------\t----\t----");
    for (name, hard) in object["status"]["hard"].entries() {
        let used = &object["status"]["used"][name];
        let used = if used.is_null() { "0".to_owned() } else { either(used) };
        sheet.line(0, &format!("{name}\t{used}\t{}", either(hard)));
    }
}

pub(super) fn limit_range(object: &Value, sheet: &mut DescribeWriter) {
    const FIELDS: [&str; 5] = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
    sheet.field("Name", text(&object["metadata"]["name"]));
    sheet.field("Namespace", text(&object["metadata"]["namespace"]));
    sheet.line(
        0,
        "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio",
    );
    sheet.line(
        0,
        "----\t--------\t---\t---\t---------------\t-------------\t-----------------------",
    );
    for limit in object["spec"]["limits"].items() {
        let names: std::collections::BTreeSet<&str> =
            FIELDS.iter().flat_map(|field| limit[*field].entries().map(|(name, _)| name)).collect();
        for name in names {
            let cells = FIELDS.map(|field| match either(&limit[field][name]).as_str() {
                "" => "-".to_owned(),
                amount => amount.to_owned(),
            });
            sheet.line(0, &format!("{}\t{name}\t{}", text(&limit["type"]), cells.join("\t")));
        }
    }
}

pub(super) fn role(object: &Value, sheet: &mut DescribeWriter) {
    let meta = &object["metadata"];
    sheet.field("Name", text(&meta["name"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.line(0, "PolicyRule:");
    sheet.line(1, "Resources\tNon-Resource URLs\tResource Names\tVerbs");
    sheet.line(1, "---------\t-----------------\t--------------\t-----");
    for (_, row) in rows(object["rules"].items()) {
        sheet.line(1, &row);
    }
}

/// One row for each resource and each non-resource URL, with all verbs that the rules grant.
pub(crate) fn rows(rules: &[Value]) -> Vec<(String, String)> {
    let texts =
        |list: &Value| -> Vec<String> { list.items().iter().map(|t| text(t).to_owned()).collect() };
    // Group, resource, resource name and URL, and the verbs for it.
    let mut found: Vec<([String; 4], Vec<String>)> = Vec::new();
    let mut add = |what: [String; 4], verbs: &[String]| match found
        .iter_mut()
        .find(|(other, _)| *other == what)
    {
        Some((_, all)) => {
            let more: Vec<String> =
                verbs.iter().filter(|verb| !all.contains(verb)).cloned().collect();
            all.extend(more);
        }
        None => found.push((what, verbs.to_vec())),
    };
    let mut addresses = Vec::new();
    for rule in rules {
        let verbs = texts(&rule["verbs"]);
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![String::new()],
            names => names,
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in &names {
                    add([group.clone(), resource.clone(), name.clone(), String::new()], &verbs);
                }
            }
        }
        // Non-resource URLs are not merged, and keep their order.
        for url in texts(&rule["nonResourceURLs"]) {
            for verb in &verbs {
                let what = [String::new(), String::new(), String::new(), url.clone()];
                addresses.push((what, vec![verb.clone()]));
            }
        }
    }
    found.extend(addresses);
    let line = |([group, resource, name, url], verbs): ([String; 4], Vec<String>)| {
        let verbs = verbs.join(" ");
        let (plural, sub) =
            resource.split_once('/').map_or((resource.as_str(), String::new()), |(plural, sub)| {
                (plural, format!("/{sub}"))
            });
        let dot = if group.is_empty() { "" } else { "." };
        let full = format!("{plural}{dot}{group}{sub}");
        let key = format!("[{verbs}],[{group}],[{resource}],[{name}],[{url}]");
        (key, format!("{full}\t[{url}]\t[{name}]\t[{verbs}]"))
    };
    let mut lines: Vec<(String, String)> = found.into_iter().map(line).collect();
    lines.sort();
    lines
}

pub(super) fn disruption_budget(object: &Value, sheet: &mut DescribeWriter) {
    let (spec, status) = (&object["spec"], &object["status"]);
    sheet.field("Name", text(&object["metadata"]["name"]));
    sheet.field("Namespace", text(&object["metadata"]["namespace"]));
    if !spec["minAvailable"].is_null() {
        sheet.field("Min available", either(&spec["minAvailable"]));
    } else if !spec["maxUnavailable"].is_null() {
        sheet.field("Max unavailable", either(&spec["maxUnavailable"]));
    }
    let selects = !spec["selector"].is_null();
    sheet.field(
        "Selector",
        if selects { workload::selector_or_none(&spec["selector"]) } else { "<unset>".to_owned() },
    );
    sheet.line(0, "Status:");
    for (title, field) in [
        ("Allowed disruptions", "disruptionsAllowed"),
        ("Current", "currentHealthy"),
        ("Desired", "desiredHealthy"),
        ("Total", "expectedPods"),
    ] {
        sheet.line(2, &format!("{title}:\t{}", number(&status[field])));
    }
}

pub(super) fn priority_class(object: &Value, sheet: &mut DescribeWriter) {
    sheet.field("Name", text(&object["metadata"]["name"]));
    sheet.field("Value", either(&object["value"]));
    sheet.field("GlobalDefault", object["globalDefault"].as_bool().unwrap_or(false));
    sheet.field("PreemptionPolicy", text(&object["preemptionPolicy"]));
    sheet.field("Description", text(&object["description"]));
    // Upstream formats them as it formats labels.
    let annotations = object["metadata"]["annotations"]
        .entries()
        .map(|(name, value)| format!("{name}={}", text(value)))
        .collect::<Vec<_>>();
    let none = "<none>".to_owned();
    sheet.field("Annotations", if annotations.is_empty() { none } else { annotations.join(",") });
}

pub(super) fn binding(object: &Value, sheet: &mut DescribeWriter) {
    let meta = &object["metadata"];
    sheet.field("Name", text(&meta["name"]));
    sheet.labels("Labels", &meta["labels"]);
    sheet.annotations("Annotations", &meta["annotations"]);
    sheet.line(0, "Role:");
    sheet.line(1, &format!("Kind:\t{}", text(&object["roleRef"]["kind"])));
    sheet.line(1, &format!("Name:\t{}", text(&object["roleRef"]["name"])));
    sheet.line(0, "Subjects:");
    sheet.line(1, "Kind\tName\tNamespace");
    sheet.line(1, "----\t----\t---------");
    for subject in object["subjects"].items() {
        sheet.line(
            1,
            &format!(
                "{}\t{}\t{}",
                text(&subject["kind"]),
                text(&subject["name"]),
                text(&subject["namespace"])
            ),
        );
    }
}

pub(super) fn storage_class(object: &Value, sheet: &mut DescribeWriter) {
    let meta = &object["metadata"];
    sheet.field("Name", text(&meta["name"]));
    let default = &meta["annotations"]["storageclass.kubernetes.io/is-default-class"];
    sheet.field("IsDefaultClass", if default.as_str() == Some("true") { "Yes" } else { "No" });
    let pairs = |map: &Value| -> String {
        let all: Vec<String> =
            map.entries().map(|(name, value)| format!("{name}={}", text(value))).collect();
        if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
    };
    sheet.field("Annotations", pairs(&meta["annotations"]));
    sheet.field("Provisioner", text(&object["provisioner"]));
    sheet.field("Parameters", pairs(&object["parameters"]));
    sheet.field(
        "AllowVolumeExpansion",
        object["allowVolumeExpansion"]
            .as_bool()
            .map_or("<unset>", |on| if on { "True" } else { "False" }),
    );
    let options: Vec<&str> = object["mountOptions"].items().iter().map(text).collect();
    if options.is_empty() {
        sheet.field("MountOptions", "<none>");
    } else {
        sheet.line(0, "MountOptions:");
        for option in options {
            sheet.line(1, option);
        }
    }
    sheet.optional_field("ReclaimPolicy", &object["reclaimPolicy"]);
    sheet.optional_field("VolumeBindingMode", &object["volumeBindingMode"]);
    super::storage::topologies(&object["allowedTopologies"], sheet);
}
