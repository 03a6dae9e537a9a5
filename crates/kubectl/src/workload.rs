//! Where an object keeps its pod, and what its containers are.

use object::Value;

use crate::fail::{Fail, Result};

/// The fields of a list's items, to be changed.
pub(crate) fn items_mut(list: &mut Value) -> &mut [Value] {
    if let Value::List(items) = list { items.make_mut() } else { &mut [] }
}

/// Adds to the end of a list, which is made if need be.
pub(crate) fn push(list: &mut Value, item: Value) {
    if let Value::List(items) = list {
        items.push(item);
    } else {
        *list = Value::List([item].into_iter().collect());
    }
}

/// Items as a list.
pub(crate) fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

/// The fields that lead from an object of this kind to the spec of its pods.
pub(crate) fn pod_spec_path(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "Pod" => &["spec"],
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        "ReplicationController"
        | "Deployment"
        | "DaemonSet"
        | "ReplicaSet"
        | "StatefulSet"
        | "Job" => &["spec", "template", "spec"],
        _ => return None,
    })
}

/// The spec of the pods of an object.
pub(crate) fn pod_spec(object: &mut Value) -> Result<&mut Value> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(path) = pod_spec_path(&kind) else {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        return Err(Fail::error(format!(
            "the object is not a pod or does not have a pod template: *{version}.{kind}"
        )));
    };
    Ok(path.iter().fold(object, |tree, name| tree.get_mut(name)))
}

/// Whether `name` fits a pattern in which `*` stands for anything.
pub(crate) fn fits(name: &str, pattern: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    while let Some((part, more)) = rest.split_once('*') {
        let Some(at) = name.find(part) else { return false };
        (name, rest) = (&name[at + part.len()..], more);
    }
    name.ends_with(rest)
}

/// Calls `change` with each container that fits: first the containers, then the initial
/// ones; how many there were.
pub(crate) fn each_container(
    spec: &mut Value,
    pattern: &str,
    mut change: impl FnMut(&mut Value) -> Result,
) -> Result<usize> {
    let mut count = 0;
    for field in ["containers", "initContainers"] {
        if spec[field].is_null() {
            continue;
        }
        for container in items_mut(&mut spec[field]) {
            if fits(container["name"].as_str().unwrap_or_default(), pattern) {
                count += 1;
                change(container)?;
            }
        }
    }
    Ok(count)
}

#[test]
fn stars_stand_for_anything() {
    for (name, pattern, expected) in [
        ("web", "*", true),
        ("web", "web", true),
        ("web", "we", false),
        ("web-1", "web*", true),
        ("my-web-1", "*web*", true),
        ("web", "*b", true),
        ("web", "x*", false),
        ("aba", "a*a", true),
    ] {
        assert_eq!(fits(name, pattern), expected, "{name} {pattern}");
    }
}
