//! The patch that makes an object on the server what a file says, and leaves alone what
//! the file never spoke of: a comparison of three, what was applied last, what is to be
//! applied, and what is there.

use object::Value;

/// The annotation that keeps what was applied last.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether lists are merged by the keys of their items, or replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lists {
    Merge,
    /// As `Merge`; what is new comes after what is there.
    Append,
    Replace,
}

/// The patch; an empty object if nothing is to be done.
pub(crate) fn three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
    lists: Lists,
) -> Value {
    let at = Place { lists, parent: "", field: "" };
    objects(original, modified, current, at)
}

#[derive(Clone, Copy)]
struct Place<'a> {
    lists: Lists,
    parent: &'a str,
    field: &'a str,
}

impl<'a> Place<'a> {
    fn below(self, field: &'a str) -> Self {
        Place { lists: self.lists, parent: self.field, field }
    }

    /// By what field the items of this list are told apart.
    fn key(self) -> Option<&'static str> {
        if self.lists == Lists::Replace {
            return None;
        }
        Some(match self.field {
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "env"
            | "volumes"
            | "imagePullSecrets"
            | "resourceClaims"
            | "webhooks"
            | "secrets"
            | "schedulingGates"
            | "matchConditions" => "name",
            "ports" if matches!(self.parent, "spec") => "port",
            "ports" => "containerPort",
            "volumeMounts" => "mountPath",
            "volumeDevices" => "devicePath",
            "hostAliases" | "podIPs" | "hostIPs" => "ip",
            "conditions" | "addresses" => "type",
            "ownerReferences" => "uid",
            "topologySpreadConstraints" => "topologyKey",
            _ => return None,
        })
    }

    fn is_set(self) -> bool {
        self.lists != Lists::Replace && self.field == "finalizers"
    }
}

fn objects(original: &Value, modified: &Value, current: &Value, at: Place<'_>) -> Value {
    let mut patch = Value::object();
    for (name, wanted) in modified.entries() {
        let (was, is) = (original.get(name), current.get(name));
        let inner = at.below(name);
        match (wanted, is) {
            (Value::Object(_) | Value::Map(_), Value::Object(_) | Value::Map(_)) => {
                let below = objects(was, wanted, is, inner);
                if below.entries().len() > 0 {
                    patch[name] = below;
                }
            }
            (Value::List(_), Value::List(_)) if inner.key().is_some() => {
                keyed(&mut patch, was, wanted, is, inner);
            }
            (Value::List(_), Value::List(_)) if inner.is_set() => {
                set(&mut patch, was, wanted, is, inner);
            }
            _ if wanted == is || wanted.is_null() && is.is_null() => {}
            _ => patch[name] = wanted.clone(),
        }
    }
    for (name, _) in original.entries() {
        if !modified.entries().any(|(other, _)| other == name) {
            *patch.get_mut(name) = Value::Null;
        }
    }
    patch
}

/// Items told apart by a field: those that changed, and those to be dropped.
fn keyed(patch: &mut Value, was: &Value, wanted: &Value, is: &Value, at: Place<'_>) {
    let key = at.key().expect("only such lists come here");
    let find = |list: &Value, item: &Value| {
        list.items().iter().find(|other| other[key] == item[key]).cloned()
    };
    let mut changes = Vec::new();
    for item in wanted.items() {
        let Some(there) = find(is, item) else {
            changes.push(item.clone());
            continue;
        };
        let before = find(was, item).unwrap_or(Value::Null);
        let mut change = objects(&before, item, &there, at);
        if change.entries().len() > 0 {
            change[key] = item[key].clone();
            changes.push(change);
        }
    }
    for item in was.items() {
        if find(wanted, item).is_none() {
            let mut drop = Value::object();
            drop["$patch"] = "delete".into();
            drop[key] = item[key].clone();
            changes.push(drop);
        }
    }
    if changes.is_empty() {
        return;
    }
    let order = wanted.items().iter().map(|item| {
        let mut only = Value::object();
        only[key] = item[key].clone();
        only
    });
    patch[&*format!("$setElementOrder/{}", at.field)] = Value::List(order.collect());
    patch[at.field] = Value::List(changes.into());
}

fn set(patch: &mut Value, was: &Value, wanted: &Value, is: &Value, at: Place<'_>) {
    let without = |list: &Value, other: &Value| -> Vec<Value> {
        list.items().iter().filter(|item| !other.items().contains(item)).cloned().collect()
    };
    let (more, fewer) = (without(wanted, is), without(was, wanted));
    if !more.is_empty() || !fewer.is_empty() {
        patch[&*format!("$setElementOrder/{}", at.field)] = wanted.clone();
    }
    if !more.is_empty() {
        patch[at.field] = Value::List(more.into());
    }
    if !fewer.is_empty() {
        patch[&*format!("$deleteFromPrimitiveList/{}", at.field)] = Value::List(fewer.into());
    }
}

/// Applies a strategic merge patch: lists whose items have a key are merged by it, and new items
/// come first.
pub(crate) fn strategic(target: &mut Value, patch: &Value) {
    merge_at(target, patch, Place { lists: Lists::Merge, parent: "", field: "" });
}

/// The same, but new items come last.
pub(crate) fn strategic_after(target: &mut Value, patch: &Value) {
    merge_at(target, patch, Place { lists: Lists::Append, parent: "", field: "" });
}

fn merge_at(target: &mut Value, patch: &Value, at: Place<'_>) {
    match patch["$patch"].as_str() {
        Some("replace") => {
            *target = patch.clone();
            target.remove("$patch");
            return;
        }
        Some("delete") => {
            *target = Value::Null;
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::object();
    }
    for (name, value) in patch.entries() {
        if name.starts_with('$') {
            drop_items(target, name, value);
            continue;
        }
        let below = at.below(name);
        match value {
            Value::Null => target.remove(name),
            Value::Object(_) | Value::Map(_) => {
                merge_at(target.get_mut(name), value, below);
                if target.get(name).is_null() {
                    target.remove(name);
                }
            }
            Value::List(items) if target.get(name).items().is_empty() => {
                let kept = items.iter().filter(|item| item["$patch"].is_null()).cloned();
                target[name] = Value::List(kept.collect());
            }
            Value::List(items) if below.key().is_some() => {
                let there = merge_items(target.get(name).items(), items, below);
                target[name] = Value::List(there.into());
            }
            Value::List(items) if below.is_set() => {
                let mut there = target.get(name).items().to_vec();
                for item in items {
                    if !there.contains(item) {
                        there.push(item.clone());
                    }
                }
                target[name] = Value::List(there.into());
            }
            other => target[name] = other.clone(),
        }
    }
}

/// What `$deleteFromPrimitiveList/FIELD` and its like say.
fn drop_items(target: &mut Value, directive: &str, value: &Value) {
    let Some(field) = directive.strip_prefix("$deleteFromPrimitiveList/") else { return };
    let kept = target.get(field).items().iter().filter(|item| !value.items().contains(item));
    let kept = Value::List(kept.cloned().collect());
    target[field] = kept;
}

/// Items of a patch merged into those that are there; new ones come first.
fn merge_items(there: &[Value], patch: &[Value], at: Place<'_>) -> Vec<Value> {
    let key = at.key().expect("only such lists come here");
    if patch.iter().any(|item| item["$patch"].as_str() == Some("replace")) {
        return patch.iter().filter(|item| item["$patch"].is_null()).cloned().collect();
    }
    let mut all = there.to_vec();
    let mut new = Vec::new();
    for item in patch {
        let found = all.iter().position(|other| other[key] == item[key]);
        match (found, item["$patch"].as_str()) {
            (Some(found), Some("delete")) => {
                all.remove(found);
            }
            (None, Some("delete")) => {}
            (Some(found), _) => merge_at(&mut all[found], item, at),
            (None, _) => new.push(item.clone()),
        }
    }
    if at.lists == Lists::Append {
        all.extend(new);
        return all;
    }
    new.extend(all);
    new
}

/// Applies a JSON merge patch.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    if !matches!(patch, Value::Object(_) | Value::Map(_)) {
        *target = patch.clone();
        return;
    }
    if !matches!(target, Value::Object(_) | Value::Map(_)) {
        *target = Value::object();
    }
    for (name, value) in patch.entries() {
        if value.is_null() {
            target.remove(name);
        } else {
            merge_patch(target.get_mut(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(original: &str, modified: &str, current: &str) -> String {
        let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
        crate::print::json::compact(&three_way(
            &read(original),
            &read(modified),
            &read(current),
            Lists::Merge,
        ))
    }

    #[test]
    fn leaves_alone_what_the_file_never_spoke_of() {
        assert_eq!(patch("a: 1", "a: 1", "{a: 1, b: 2}"), "{}");
        assert_eq!(patch("{a: 1, b: 2}", "a: 3", "{a: 1, b: 2, c: 4}"), r#"{"a":3,"b":null}"#);
        assert_eq!(
            patch(
                "containers: [{name: x, image: i}, {name: w, image: j}]",
                "containers: [{name: x, image: k}]",
                "containers: [{name: x, image: i, more: 1}, {name: w, image: j}]"
            ),
            r#"{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"image":"k","name":"x"},{"$patch":"delete","name":"w"}]}"#
        );
    }
}
