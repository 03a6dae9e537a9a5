//! The last-applied-configuration annotation of client-side `kubectl apply`, for objects that move
//! to server-side apply.

use object::{Value, from_json, to_json};

use super::{
    CONFLICTS, Conflict, FieldManagerRequest,
    check::validate_applied,
    compare::{compare, to_field_set},
    merge_type::MergeType,
};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum size of all annotations, in bytes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Removes conflicts over fields that are still as client-side `kubectl apply` left them: the same
/// user now applies on the server.
pub(super) fn retain_unexplained_conflicts(
    write: &FieldManagerRequest,
    live: &Value,
    conflicts: Vec<Conflict>,
) -> Vec<Conflict> {
    if conflicts.len() >= CONFLICTS {
        return conflicts; // there may be more conflicts than were collected
    }
    let form = MergeType::root(write.schema);
    let text = live.get("metadata").get("annotations").get(LAST_APPLIED).as_str();
    let Some(last) = text.and_then(|text| from_json(text.as_bytes()).ok()) else {
        return conflicts;
    };
    if last.get("apiVersion").as_str() != Some(write.api_version)
        || validate_applied(form, &last).is_some()
    {
        return conflicts;
    }
    let change = compare(form, &last, live);
    let own = to_field_set(form, &last).difference(&change.changed_fields());
    conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect()
}

/// Updates the annotation, if the object has it.
pub(super) fn update_last_applied(object: &mut Value, applied: &Value) {
    if object.get("metadata").get("annotations").get(LAST_APPLIED).is_null() {
        return;
    }
    let mut applied = applied.clone();
    if applied.get("metadata").get("annotations").is_object() {
        applied["metadata"]["annotations"].remove(LAST_APPLIED);
    }
    let text = format!("{}\n", String::from_utf8_lossy(&to_json(&applied)));
    let annotations = &mut object["metadata"]["annotations"];
    let others = annotations.entries().filter(|(name, _)| *name != LAST_APPLIED);
    let size: usize =
        others.map(|(name, value)| name.len() + value.as_str().unwrap_or_default().len()).sum();
    if size + LAST_APPLIED.len() + text.len() > MAX_ANNOTATIONS_SIZE {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations[LAST_APPLIED] = text.into();
    }
}
