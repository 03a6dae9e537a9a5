//! The pod spec and the containers of a workload object.

use object::Value;

use crate::error::{CommandError, Result};

/// The items of a list, mutable; empty if the value is not a list.
pub(crate) fn items_mut(list: &mut Value) -> &mut [Value] {
    if let Value::List(items) = list { items.make_mut() } else { &mut [] }
}

/// Appends to a list, which is created if necessary.
pub(crate) fn push(list: &mut Value, item: Value) {
    if let Value::List(items) = list {
        items.push(item);
    } else {
        *list = Value::List([item].into_iter().collect());
    }
}

/// Creates a list.
pub(crate) fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

/// The field path from an object of this kind to the spec of its pods.
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

/// The pod spec of an object.
pub(crate) fn pod_spec(object: &mut Value) -> Result<&mut Value> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(path) = pod_spec_path(&kind) else {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        return Err(CommandError::error(format!(
            "the object is not a pod or does not have a pod template: *{version}.{kind}"
        )));
    };
    Ok(path.iter().fold(object, |tree, name| tree.get_mut(name)))
}

/// Whether a container's name matches a pattern in which `*` stands for anything. As upstream, each part is searched
/// from the end of the previous match, so `o*` matches `two` as well.
pub(crate) fn matches_pattern(name: &str, pattern: &str) -> bool {
    if pattern == "*" || !pattern.contains('*') {
        return pattern == "*" || name == pattern;
    }
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut from = 0;
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        let found = name.get(from..).and_then(|rest| rest.find(part));
        let Some(found) = found.filter(|found| *found >= from) else { return false };
        let last = at == parts.len() - 1;
        if last && name.len() != part.len() + found {
            return false;
        }
        from = found;
    }
    true
}

/// Calls `change` with each container for which `meant` returns true, first the containers, then the init containers;
/// returns how many there were.
pub(crate) fn each_container(
    spec: &mut Value,
    meant: impl Fn(&str) -> bool,
    mut change: impl FnMut(&mut Value) -> Result,
) -> Result<usize> {
    let mut count = 0;
    for field in ["containers", "initContainers"] {
        if spec[field].is_null() {
            continue;
        }
        for container in items_mut(&mut spec[field]) {
            if meant(container["name"].as_str().unwrap_or_default()) {
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
        ("web", "*b", true),
        ("web", "x*", false),
        ("two", "o*", true),
    ] {
        assert_eq!(matches_pattern(name, pattern), expected, "{name} {pattern}");
    }
}
