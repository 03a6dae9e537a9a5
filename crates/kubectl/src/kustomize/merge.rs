//! Kustomize's strategic merge: lists whose items have a merge key are merged by it, as the kind's schema says, and
//! new items come last. Lists in unknown fields are replaced.

use object::{FieldSchema, StructSchema, Type, Value};

/// Merges a patch into an object of a built-in or any other kind.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let kind = crate::merge::built_in_kind(target);
    merge_object(target, patch, kind.as_ref().map(|kind| &*kind.schema));
}

fn merge_object(target: &mut Value, patch: &Value, shape: Option<&StructSchema>) {
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
        let field = shape.and_then(|shape| shape.field(name));
        match value {
            Value::Null => target.remove(name),
            Value::Object(_) | Value::Map(_) => {
                merge_object(target.get_mut(name), value, within(field));
                if target.get(name).is_null() {
                    target.remove(name);
                }
            }
            Value::List(items) => {
                let merged = merge_list(target.get(name).items(), items, field);
                target[name] = Value::List(merged.into());
            }
            other => target[name] = other.clone(),
        }
    }
}

/// The schema of an object, or of the items of a list.
fn within(field: Option<&FieldSchema>) -> Option<&StructSchema> {
    let mut of = &*field?.ty;
    while let Type::List(item) = of {
        of = item;
    }
    if let Type::Object(shape) = of { Some(shape) } else { None }
}

/// Applies a `$deleteFromPrimitiveList/FIELD` directive.
fn drop_items(target: &mut Value, directive: &str, value: &Value) {
    let Some(field) = directive.strip_prefix("$deleteFromPrimitiveList/") else { return };
    let kept = target.get(field).items().iter().filter(|item| !value.items().contains(item));
    let kept = Value::List(kept.cloned().collect());
    target[field] = kept;
}

fn merge_list(there: &[Value], patch: &[Value], field: Option<&FieldSchema>) -> Vec<Value> {
    let plain = || patch.iter().filter(|item| item["$patch"].is_null()).cloned().collect();
    let Some(field) = field.filter(|field| field.attributes.merge && !there.is_empty()) else {
        return plain();
    };
    if patch.iter().any(|item| item["$patch"].as_str() == Some("replace")) {
        return plain();
    }
    let same = |one: &Value, other: &Value| match field.attributes.merge_key {
        Some(key) => one[key] == other[key],
        None => one == other,
    };
    let mut all = there.to_vec();
    for item in patch {
        let found = all.iter().position(|other| same(other, item));
        match (found, item["$patch"].as_str()) {
            (Some(found), Some("delete")) => drop(all.remove(found)),
            (Some(found), _) if item.is_object() => {
                merge_object(&mut all[found], item, within(Some(field)));
            }
            (None, None) => all.push(item.clone()),
            _ => {}
        }
    }
    all
}

#[test]
fn lists_are_merged_as_the_kind_says() {
    let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
    let merged = |kind: &str| {
        let mut object = read(&format!(
            "{{{kind}, metadata: {{finalizers: [a]}}, spec: {{ports: [{{port: 1, name: a}}]}}}}"
        ));
        merge(
            &mut object,
            &read(
                "{metadata: {finalizers: [b, a]}, spec: {ports: [{port: 2}, {port: 1, name: b}]}}",
            ),
        );
        object::yaml::to_kyaml(&object["spec"]["ports"])
            + &object::yaml::to_kyaml(&object["metadata"]["finalizers"])
    };
    let service = merged("apiVersion: v1, kind: Service");
    assert!(service.find("port: 1") < service.find("port: 2"), "{service}");
    assert!(service.contains("name: \"b\"") && service.find("\"a\",") < service.rfind("\"b\","));
    let other = merged("apiVersion: a.io/v1, kind: Service");
    assert!(other.find("port: 2") < other.find("port: 1"), "{other}");
}
