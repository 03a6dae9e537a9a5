//! Subresources that change one part of an object and nothing else.

use object::{Status, Subject, Value};

/// The old object with that part of the new one.
pub(super) fn with_part(
    old: &Value,
    new: &Value,
    part: &str,
    subject: Subject<'_>,
) -> Result<Value, Status> {
    let mut object = old.clone();
    match part {
        "finalize" => put(&mut object, "spec", "finalizers", new),
        "approval" => put(&mut object, "status", "conditions", new),
        "ephemeralcontainers" => {
            let had = old.get("spec").get("ephemeralContainers").items();
            let has = new.get("spec").get("ephemeralContainers").items();
            if had.iter().any(|one| !has.contains(one)) {
                let why = "existing ephemeral containers may not be changed or removed";
                return Err(Status::forbidden(subject, why));
            }
            put(&mut object, "spec", "ephemeralContainers", new);
        }
        _ => {
            for list in ["containers", "initContainers"] {
                resize(&mut object, list, new);
            }
        }
    }
    Ok(object)
}

fn put(object: &mut Value, parent: &str, field: &str, new: &Value) {
    match new.get(parent).get(field) {
        Value::Null => {
            if object.get(parent).is_object() {
                object[parent].remove(field);
            }
        }
        value => object[parent][field] = value.clone(),
    }
}

/// Containers keep everything but what they may use.
fn resize(object: &mut Value, list: &str, new: &Value) {
    let wanted = new.get("spec").get(list).items();
    let sized = object.get("spec").get(list).items().iter().map(|container| {
        let mut container = container.clone();
        let name = |tree: &Value| tree.get("name").as_str().map(str::to_owned);
        if let Some(new) = wanted.iter().find(|new| name(new) == name(&container)) {
            for field in ["resources", "resizePolicy"] {
                match new.get(field) {
                    Value::Null => container.remove(field),
                    value => container[field] = value.clone(),
                }
            }
        }
        container
    });
    let sized: Vec<Value> = sized.collect();
    if !sized.is_empty() {
        object["spec"][list] = sized.into_iter().collect();
    }
}
