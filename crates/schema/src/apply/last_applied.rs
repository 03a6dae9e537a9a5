//! Where `kubectl apply` was at work before: it keeps what it applied in an annotation.

use object::{Value, from_json, to_json};

use super::{
    CONFLICTS, Conflict, Write,
    check::check,
    compare::{compare, fields_of},
    form::Form,
};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations larger than this are refused.
const ANNOTATIONS: usize = 256 * 1024;

/// The conflicts over fields that are not as `kubectl apply` has left them: those that
/// are were set by the same person, who now applies on the server.
pub(super) fn not_last_applied(
    write: &Write,
    live: &Value,
    conflicts: Vec<Conflict>,
) -> Vec<Conflict> {
    if conflicts.len() >= CONFLICTS {
        return conflicts; // there may be others that nobody has looked at
    }
    let form = Form::root(write.shape);
    let text = live.get("metadata").get("annotations").get(LAST_APPLIED).as_str();
    let Some(last) = text.and_then(|text| from_json(text.as_bytes()).ok()) else {
        return conflicts;
    };
    if last.get("apiVersion").as_str() != Some(write.api_version) || check(form, &last).is_some() {
        return conflicts;
    }
    let change = compare(form, &last, live);
    let own = fields_of(form, &last).difference(&change.all());
    conflicts.into_iter().filter(|conflict| !own.has(&conflict.path)).collect()
}

/// Where `kubectl apply` has left its annotation, keeps it true.
pub(super) fn keep_last_applied(object: &mut Value, applied: &Value) {
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
    if size + LAST_APPLIED.len() + text.len() > ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations[LAST_APPLIED] = text.into();
    }
}
