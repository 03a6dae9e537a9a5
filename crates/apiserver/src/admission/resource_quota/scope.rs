//! Which objects a quota is about.

use api::core::{Pod, ResourceQuota as Quota};
use object::{Value, View};
use server::Admission;

/// Whether the object is in every scope of the quota.
pub(super) fn in_scope(admission: &Admission, quota: &Quota) -> bool {
    let plain = quota.spec().scopes().iter().all(|scope| matches(admission, scope, &Value::Null));
    let selector = quota.spec().scope_selector();
    let terms = selector.map(|selector| {
        selector.match_expressions().iter().all(|term| {
            let tree = object::Lens::tree(term);
            matches(admission, term.scope_name(), tree)
        })
    });
    plain && terms.unwrap_or(true)
}

fn matches(admission: &Admission, scope: &str, term: &Value) -> bool {
    let names = &admission.served.definition.names;
    match (names.group, names.plural, scope) {
        ("", "persistentvolumeclaims", "VolumeAttributesClass") => {
            let claim = &admission.object;
            let status = claim.get("status");
            let classes = [
                claim.get("spec").get("volumeAttributesClassName"),
                status.get("currentVolumeAttributesClassName"),
                status.get("modifyVolumeStatus").get("targetVolumeAttributesClassName"),
            ];
            let mut named = classes.iter().filter_map(|name| name.as_str()).peekable();
            match term.get("operator").as_str().unwrap_or("Exists") {
                "NotIn" | "DoesNotExist" if named.peek().is_none() => true,
                _ => named.any(|name| selects(term, name)),
            }
        }
        ("", "pods", scope) => pod(Pod::view(&admission.object), scope, term),
        _ => false,
    }
}

fn pod(pod: &Pod, scope: &str, term: &Value) -> bool {
    let ends = pod.spec().active_deadline_seconds().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => pod.qos_class() == "BestEffort",
        "NotBestEffort" => pod.qos_class() != "BestEffort",
        "PriorityClass" => selects(term, pod.spec().priority_class_name()),
        "CrossNamespacePodAffinity" => crosses(object::Lens::tree(pod.spec()).get("affinity")),
        _ => false,
    }
}

/// Whether a name is one of those that a term means; an empty one is none.
fn selects(term: &Value, name: &str) -> bool {
    let listed = term.get("values").items().iter().any(|value| value.as_str() == Some(name));
    match term.get("operator").as_str().unwrap_or("Exists") {
        "In" => !name.is_empty() && listed,
        "NotIn" => name.is_empty() || !listed,
        "DoesNotExist" => name.is_empty(),
        _ => !name.is_empty(),
    }
}

fn crosses(affinity: &Value) -> bool {
    let term = |term: &Value| {
        !term.get("namespaces").items().is_empty() || term.get("namespaceSelector").is_object()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let kind = affinity.get(kind);
        let required = kind.get("requiredDuringSchedulingIgnoredDuringExecution").items();
        let preferred = kind.get("preferredDuringSchedulingIgnoredDuringExecution").items();
        required.iter().any(term)
            || preferred.iter().any(|weighted| term(weighted.get("podAffinityTerm")))
    })
}
