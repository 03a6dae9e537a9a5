//! `apply --overwrite=false`: fails instead of reverting fields that were changed since the last `apply`.

use object::{Value, quote::quote, yaml};

use super::{describe, original};
use crate::{
    error::{CommandError, Result},
    merge::{LAST_APPLIED, two_way},
    print::json,
    select::Info,
};

/// Fields that identify the elements of a list.
const KEYS: &[&str] = &[
    "name",
    "containerPort",
    "port",
    "mountPath",
    "devicePath",
    "key",
    "ip",
    "topologyKey",
    "type",
    "uid",
];

/// Fails if `patch` changes fields that differ between the last applied configuration and `current`.
pub(super) fn check(patch: &Value, modified: &Value, current: &Value, info: &Info) -> Result {
    let original = original(current);
    if original.is_null() {
        return Ok(());
    }
    let (mut changed, _) = two_way(&original, current)?;
    // The last-applied annotation itself is not a change.
    if !changed["metadata"]["annotations"].is_null() {
        changed["metadata"]["annotations"].remove(LAST_APPLIED);
    }
    if !conflict(patch, &changed) {
        return Ok(());
    }
    Err(CommandError::error(format!(
        "error when applying patch:\n\nto:\n{}\nfor: {}: creating patch with:\noriginal:\n{}\nmodified:\n{}\ncurrent:\n{}\nfor: patch:\n{}\nconflicts with changes made from original to current:\n{}\n",
        describe(info),
        quote(&info.source),
        json::compact(&original),
        json::compact(modified),
        json::compact(current),
        yaml::to_yaml(patch),
        yaml::to_yaml(&changed)
    )))
}

/// Whether two patches set the same field to different values.
fn conflict(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(_) | Value::Map(_), Value::Object(_) | Value::Map(_)) => {
            one.entries().any(|(name, value)| {
                let known = other.entries().find(|(other, _)| *other == name);
                !name.starts_with('$') && known.is_some_and(|(_, other)| conflict(value, other))
            })
        }
        (Value::List(ours), Value::List(theirs)) => {
            let Some(key) = KEYS.iter().find(|key| {
                ours.iter().chain(theirs.iter()).all(|element| !element[**key].is_null())
            }) else {
                return one != other;
            };
            ours.iter().any(|element| {
                theirs.iter().any(|other| other[*key] == element[*key] && conflict(element, other))
            })
        }
        _ => one != other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_field_conflicts() {
        let is = |one: &str, other: &str| {
            let read = |text: &str| yaml::from_yaml(text).expect("YAML");
            conflict(&read(one), &read(other))
        };
        assert!(is("{spec: {replicas: 2}}", "{spec: {replicas: 3}}"));
        assert!(!is("{spec: {replicas: 2}}", "{spec: {replicas: 2, paused: true}}"));
        assert!(is("{data: {a: x}}", "{data: {a: null}}"));
        let list =
            |image: &str| format!("{{c: [{{name: a, image: {image}}}, {{name: b, tty: true}}]}}");
        assert!(is(&list("i"), &list("j")) && !is(&list("i"), &list("i")));
        assert!(!is("{c: [{name: a, image: i}]}", "{c: [{name: b, image: j}]}"));
        assert!(is("{args: [a]}", "{args: [b]}"));
    }
}
