//! The fields that contain labels, selectors, annotations and images.

use object::Value;

use crate::workload::items_mut;

/// A field of objects of a kind (of any kind if that is empty).
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    /// Whether it is created if it is missing.
    pub(super) create: bool,
}

const fn field(kind: &'static str, path: &'static str, create: bool) -> Field {
    Field { kind, path, create }
}

/// Labels of the object itself.
pub(super) const OWN_LABELS: &[Field] = &[field("", "metadata/labels", true)];

pub(super) const TEMPLATE_LABELS: &[Field] = &[
    field("ReplicationController", "spec/template/metadata/labels", true),
    field("Deployment", "spec/template/metadata/labels", true),
    field("ReplicaSet", "spec/template/metadata/labels", true),
    field("DaemonSet", "spec/template/metadata/labels", true),
    field("StatefulSet", "spec/template/metadata/labels", true),
    field("StatefulSet", "spec/volumeClaimTemplates/metadata/labels", true),
    field("Job", "spec/template/metadata/labels", true),
    field("CronJob", "spec/jobTemplate/metadata/labels", true),
    field("CronJob", "spec/jobTemplate/spec/template/metadata/labels", true),
];

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm";

pub(super) const SELECTORS: &[Field] = &[
    field("Service", "spec/selector", true),
    field("ReplicationController", "spec/selector", true),
    field("Deployment", "spec/selector/matchLabels", true),
    field("ReplicaSet", "spec/selector/matchLabels", true),
    field("DaemonSet", "spec/selector/matchLabels", true),
    field("StatefulSet", "spec/selector/matchLabels", true),
    field("Job", "spec/selector/matchLabels", false),
    field("CronJob", "spec/jobTemplate/spec/selector/matchLabels", false),
    field("PodDisruptionBudget", "spec/selector/matchLabels", false),
    field("NetworkPolicy", "spec/podSelector/matchLabels", false),
    field("NetworkPolicy", "spec/ingress/from/podSelector/matchLabels", false),
    field("NetworkPolicy", "spec/egress/to/podSelector/matchLabels", false),
];

/// Fields with selectors inside the pod templates of deployments and stateful sets.
pub(super) fn affinities() -> Vec<String> {
    let mut all = vec!["spec/template/spec/topologySpreadConstraints".to_owned()];
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in [PREFERRED, "requiredDuringSchedulingIgnoredDuringExecution"] {
            all.push(format!("spec/template/spec/affinity/{kind}/{term}"));
        }
    }
    all.into_iter().map(|path| path + "/labelSelector/matchLabels").collect()
}

pub(super) const ANNOTATIONS: &[Field] = &[
    field("", "metadata/annotations", true),
    field("ReplicationController", "spec/template/metadata/annotations", true),
    field("Deployment", "spec/template/metadata/annotations", true),
    field("ReplicaSet", "spec/template/metadata/annotations", true),
    field("DaemonSet", "spec/template/metadata/annotations", true),
    field("StatefulSet", "spec/template/metadata/annotations", true),
    field("Job", "spec/template/metadata/annotations", true),
    field("CronJob", "spec/jobTemplate/metadata/annotations", true),
    field("CronJob", "spec/jobTemplate/spec/template/metadata/annotations", true),
];

/// Calls `change` with every value at a path; lists on the way stand for each of their items.
pub(super) fn each(
    tree: &mut Value,
    path: &[&str],
    create: bool,
    change: &mut dyn FnMut(&mut Value),
) {
    let Some((name, rest)) = path.split_first() else {
        change(tree);
        return;
    };
    if matches!(tree, Value::List(_)) {
        for item in items_mut(tree) {
            each(item, path, create, change);
        }
    } else if !tree.get(name).is_null() || create && (tree.is_object() || tree.is_null()) {
        each(tree.get_mut(name), rest, create, change);
    }
}

/// Sets the pairs in the map at each of the fields.
pub(super) fn put(object: &mut Value, fields: &[Field], pairs: &Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    for field in fields.iter().filter(|field| field.kind.is_empty() || field.kind == kind) {
        put_at(object, field.path, field.create, pairs);
    }
}

pub(super) fn put_at(object: &mut Value, path: &str, create: bool, pairs: &Value) {
    if pairs.entries().len() == 0 {
        return;
    }
    let parts: Vec<&str> = path.split('/').collect();
    // Lists are never created: they would have no items to set the pairs in.
    let create = create
        && (!parts.contains(&"volumeClaimTemplates")
            || !object["spec"]["volumeClaimTemplates"].items().is_empty());
    each(object, &parts, create, &mut |map| {
        for (name, value) in pairs.entries() {
            map[name] = match value {
                Value::Text(_) => value.clone(),
                other => crate::print::jsonpath::format_value(other).into(),
            };
        }
    });
}
