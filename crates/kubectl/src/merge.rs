//! The patch for client-side apply: a three-way diff of the last applied configuration, the new configuration and the
//! live object. It makes the object match the manifest, and leaves fields alone that the manifest never set.

use object::Value;
use schema::{ResourceDefinition, patch};

use crate::{
    error::{CommandError, Result},
    server::PatchType,
};

/// The annotation that stores the last applied configuration.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The definition of an object's kind, if it is built-in.
pub(crate) fn built_in_kind(object: &Value) -> Option<ResourceDefinition> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let same = |it: &ResourceDefinition| it.names.kind == kind && it.names.api_version() == version;
    api::builtin_resources().into_iter().find(same)
}

/// Computes the patch and its type; an empty object if nothing is to be changed. Lists of built-in kinds are merged,
/// those of other kinds replaced.
pub(crate) fn three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<(Value, PatchType)> {
    let kind = built_in_kind(modified);
    let sent = if kind.is_some() { PatchType::Strategic } else { PatchType::Merge };
    let shape = kind.as_ref().map(|kind| &*kind.schema);
    let patch = patch::create_three_way_patch(shape, original, modified, current)?;
    Ok((patch, sent))
}

/// The patch that turns one object into another.
pub(crate) fn two_way(old: &Value, new: &Value) -> Result<(Value, PatchType)> {
    three_way(old, new, old)
}

/// Applies a strategic merge patch.
pub(crate) fn strategic(target: &mut Value, patch: &Value) -> Result {
    let Some(kind) = built_in_kind(target) else {
        let text = |field: &str| target[field].as_str().unwrap_or_default();
        return Err(CommandError::error(format!(
            "strategic merge patch is not supported for {}, Kind={} locally, try --type merge",
            text("apiVersion"),
            text("kind")
        )));
    };
    *target = patch::apply_strategic_merge_patch(&kind.schema, target, &mut patch.clone())?;
    Ok(())
}

impl From<patch::PatchError> for CommandError {
    fn from(error: patch::PatchError) -> Self {
        CommandError::error(error.to_string())
    }
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

    fn patch(original: &str, modified: &str, current: &str) -> (String, PatchType) {
        let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
        let (patch, sent) =
            three_way(&read(original), &read(modified), &read(current)).expect("a patch");
        (crate::print::json::compact(&patch), sent)
    }

    #[test]
    fn leaves_alone_what_the_file_never_spoke_of() {
        assert_eq!(patch("a: 1", "a: 1", "{a: 1, b: 2}"), ("{}".into(), PatchType::Merge));
        assert_eq!(
            patch("{a: 1, b: 2}", "a: 3", "{a: 1, b: 2, c: 4}"),
            (r#"{"a":3,"b":null}"#.into(), PatchType::Merge)
        );
    }

    #[test]
    fn merges_the_lists_of_known_kinds_alone() {
        let of = |kind: &str, containers: &str| {
            format!("{{{kind}, spec: {{containers: [{containers}]}}}}")
        };
        let three = |kind: &str| {
            let last = of(kind, "{name: x, image: i}, {name: w, image: j}");
            let there = of(kind, "{name: x, image: i, tty: true}, {name: w, image: j}");
            patch(&last, &of(kind, "{name: x, image: k}"), &there)
        };
        let merged = r#"{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"image":"k","name":"x"},{"$patch":"delete","name":"w"}]}}"#;
        assert_eq!(three("apiVersion: v1, kind: Pod"), (merged.into(), PatchType::Strategic));
        let replaced = r#"{"spec":{"containers":[{"image":"k","name":"x"}]}}"#;
        assert_eq!(three("apiVersion: a.io/v1, kind: Pod"), (replaced.into(), PatchType::Merge));
    }
}
