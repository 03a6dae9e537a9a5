//! Scopes of a ResourceQuota: which objects it counts.

use api::core::{Pod, ResourceQuota as Quota};
use object::{Value, View};
use server::AdmissionAttributes;

use crate::structured::text;

/// Whether the object matches every scope of the quota.
pub(super) fn in_scope(admission: &AdmissionAttributes, object: &Value, quota: &Quota) -> bool {
    terms(quota).iter().all(|term| selects_object(admission, object, term))
}

/// The names of the quota's scopes that the object matches.
pub(super) fn selected(admission: &AdmissionAttributes, quota: &Quota) -> Vec<String> {
    let terms = terms(quota);
    let own = terms.iter().filter(|term| selects_object(admission, &admission.object, term));
    own.map(|term| text(term, "scopeName").to_owned()).collect()
}

/// Whether the object matches one scope selector term.
pub(super) fn selects_object(
    admission: &AdmissionAttributes,
    object: &Value,
    term: &Value,
) -> bool {
    matches(admission, object, text(term, "scopeName"), term)
}

/// All scopes of a quota as scope selector terms; a plain scope becomes `Exists`.
fn terms(quota: &Quota) -> Vec<Value> {
    let plain = quota.spec().scopes().iter().map(|scope| {
        let mut term = Value::object();
        term["scopeName"] = scope.into();
        term["operator"] = "Exists".into();
        term
    });
    let selector = quota.spec().scope_selector();
    let rest = selector.into_iter().flat_map(|selector| selector.match_expressions().iter());
    plain.chain(rest.map(|term| object::Lens::tree(term).clone())).collect()
}

fn matches(admission: &AdmissionAttributes, object: &Value, scope: &str, term: &Value) -> bool {
    let names = &admission.served.definition.names;
    match (names.group, names.plural, scope) {
        ("", "persistentvolumeclaims", "VolumeAttributesClass") => {
            let status = object.get("status");
            let classes = [
                object.get("spec").get("volumeAttributesClassName"),
                status.get("currentVolumeAttributesClassName"),
                status.get("modifyVolumeStatus").get("targetVolumeAttributesClassName"),
            ];
            let mut named = classes.iter().filter_map(|name| name.as_str()).peekable();
            match term.get("operator").as_str().unwrap_or("Exists") {
                "NotIn" | "DoesNotExist" if named.peek().is_none() => true,
                _ => named.any(|name| selects(term, name)),
            }
        }
        ("", "pods", scope) => pod(Pod::view(object), scope, term),
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
        "CrossNamespacePodAffinity" => {
            has_cross_namespace_affinity(object::Lens::tree(pod.spec()).get("affinity"))
        }
        _ => false,
    }
}

/// Whether a term's operator and values select the name; an empty name means that there is none.
fn selects(term: &Value, name: &str) -> bool {
    let listed = term.get("values").items().iter().any(|value| value.as_str() == Some(name));
    match term.get("operator").as_str().unwrap_or("Exists") {
        "In" => !name.is_empty() && listed,
        "NotIn" => name.is_empty() || !listed,
        "DoesNotExist" => name.is_empty(),
        _ => !name.is_empty(),
    }
}

fn has_cross_namespace_affinity(affinity: &Value) -> bool {
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
