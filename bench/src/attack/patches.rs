//! Generates patches of all four types, valid and hostile.

use serde_json::{Value, json};

use super::{
    expand::many,
    generate::Target,
    request::{Body, Caller, Request},
    values,
};
use crate::random::Random;

/// A patch that turns the valid object into the damaged one, or a hostile one.
pub(crate) fn patch(
    target: &Target<'_>,
    valid: &Value,
    path: &str,
    user: Caller,
    random: &mut Random,
) -> Request {
    let parts = target.kind.definition.subresources;
    let at = match parts.is_empty() || !random.one_in(3) {
        true => path.to_owned(),
        false => format!("{path}/{}", parts[random.below(parts.len())].name),
    };
    let (ty, text) = match random.below(4) {
        0 => ("application/json-patch+json", operations(valid, &target.object, random)),
        1 => ("application/merge-patch+json", target.object.to_string()),
        2 => ("application/strategic-merge-patch+json", target.object.to_string()),
        _ => ("application/apply-patch+yaml", target.object.to_string()),
    };
    let query = match ty {
        "application/apply-patch+yaml" => [
            "?fieldManager=m",
            "?fieldManager=m&force=true",
            "?fieldManager=n&force=true",
            "",
            "?fieldManager=%00",
            "?fieldManager=é",
        ][random.below(6)],
        _ => "",
    };
    Request::new(user, "PATCH", at + query).header("content-type", ty).body(Body::Text(text))
}

/// JSON patch operations for the differences, mixed with hostile ones.
fn operations(valid: &Value, damaged: &Value, random: &mut Random) -> String {
    let mut all = Vec::new();
    differences("", valid, damaged, &mut all);
    for _ in 0..random.below(3) {
        all.push(hostile(random));
    }
    if random.one_in(12) {
        let one = json!({"op": "add", "path": "/metadata/annotations/k#", "value": "v"});
        return format!(
            "\"{}\"",
            many([1000, 9999, 10_001, 100_000][random.below(4)], &one.to_string())
        );
    }
    if random.one_in(12) {
        // each copy doubles the size of the object
        let copies = (0..[20, 40][random.below(2)])
            .map(|n| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/x{n}")}));
        all.extend(copies);
    }
    Value::Array(all).to_string()
}

fn differences(at: &str, old: &Value, new: &Value, out: &mut Vec<Value>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in new {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match old.get(name) {
                    Some(old) => differences(&at, old, value, out),
                    None => out.push(json!({"op": "add", "path": at, "value": value})),
                }
            }
        }
        (old, new) if old != new => out.push(json!({"op": "replace", "path": at, "value": new})),
        _ => {}
    }
}

/// A JSON patch operation with arbitrary values.
pub(crate) fn hostile(random: &mut Random) -> Value {
    let paths = [
        "",
        "/",
        "/metadata",
        "/metadata/name",
        "/metadata/labels/a~1b",
        "/metadata/~",
        "/spec/containers/-",
        "/spec/containers/-1",
        "/spec/containers/99999999999999999999",
        "/spec/containers/0",
        "/metadata/managedFields",
        "/metadata/managedFields/0",
        "/metadata/finalizers/-",
        "/spec",
        "/status",
        "a",
        "/é",
        "/metadata/deletionTimestamp",
        "⟦long 5000 /a⟧",
        "/metadata/ownerReferences/-",
    ];
    let op = ["add", "remove", "replace", "move", "copy", "test", "x", ""][random.below(8)];
    let value = if random.one_in(2) { values::tree(random) } else { values::text("", random) };
    let (path, from) = (paths[random.below(paths.len())], paths[random.below(paths.len())]);
    json!({"op": op, "path": path, "from": from, "value": value})
}

/// Puts a directive of strategic merge patches into the object.
pub(crate) fn direct(object: &mut Value, random: &mut Random) {
    let directives = [
        ("$patch", json!("replace")),
        ("$patch", json!("delete")),
        ("$patch", json!("merge")),
        ("$patch", json!("x")),
        ("$patch", json!(5)),
        ("$retainKeys", json!(["name"])),
        ("$retainKeys", json!([5])),
        ("$setElementOrder/containers", json!([{"name": "c"}, {"name": "x"}])),
        ("$setElementOrder/containers", json!([5, null])),
        ("$deleteFromPrimitiveList/finalizers", json!(["example.com/f"])),
        ("$deleteFromPrimitiveList/containers", json!([{"a": "b"}])),
        ("$setElementOrder/", json!([])),
    ];
    let (name, value) = directives[random.below(directives.len())].clone();
    let mut at = object;
    // at a random depth
    for _ in 0..random.below(6) {
        let count = match at {
            Value::Object(map) => map.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        let which = random.below(count);
        at = match at {
            Value::Object(map) if count > 0 => match map.iter_mut().nth(which) {
                Some((_, inner)) if inner.is_object() || inner.is_array() => inner,
                _ => return,
            },
            Value::Array(items) if count > 0 => &mut items[which],
            _ => return,
        };
    }
    if let Value::Object(map) = at {
        map.insert(name.to_owned(), value);
    }
}
