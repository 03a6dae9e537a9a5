//! The param objects that a binding passes to its policy.

use std::sync::Arc;

use object::{Value, selector::Selector};
use server::{AdmissionAttributes, ListOptions, Selection, ServedResource};
use store::Version;

/// A param and its resource; `None` if the policy is evaluated without one.
pub(super) type Param = Option<(ServedResource, Arc<Version<Value>>)>;

/// The resource of a policy's `paramKind`; `None` if it has none.
pub(super) fn kind(
    policy: &Value,
    admission: &AdmissionAttributes<'_>,
) -> Result<Option<ServedResource>, String> {
    let wanted = policy.get("spec").get("paramKind");
    if !wanted.is_object() {
        return Ok(None);
    }
    let text = |name: &str| wanted.get(name).as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let all = admission.registry.kinds().all();
    let is = |served: &&ServedResource| {
        let names = &served.definition.names;
        names.group == group && names.version == version && names.kind == text("kind")
    };
    let found = all.iter().find(is).cloned();
    let shown = || format!("{group}/{version}, Kind={}", text("kind"));
    found
        .map(Some)
        .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{}'", shown()))
}

/// The params that a binding selects; the policy is evaluated once with each.
pub(super) fn collect(
    kind: Option<&ServedResource>,
    binding: &Value,
    admission: &AdmissionAttributes<'_>,
) -> Result<Vec<Param>, String> {
    let reference = binding.get("spec").get("paramRef");
    let (Some(kind), true) = (kind, reference.is_object()) else { return Ok(vec![None]) };
    let text = |name: &str| reference.get(name).as_str().unwrap_or_default();
    let namespace = match (kind.definition.is_namespaced(), text("namespace")) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                .to_owned());
        }
        (true, "") if admission.namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
        }
        (true, "") => admission.namespace.as_str(),
        (true, own) => own,
    };
    let found = match text("name") {
        "" => select(kind, reference.get("selector"), namespace, admission)?,
        name => match admission.registry.get(kind, namespace, name) {
            Ok(found) => vec![found],
            Err(status) if status.code() == 404 => Vec::new(),
            Err(status) => return Err(status.message().to_owned()),
        },
    };
    if found.is_empty() && text("parameterNotFoundAction") == "Deny" {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
        );
    }
    Ok(found.into_iter().map(|found| Some((kind.clone(), found))).collect())
}

fn select(
    kind: &ServedResource,
    selector: &Value,
    namespace: &str,
    admission: &AdmissionAttributes<'_>,
) -> Result<Vec<Arc<Version<Value>>>, String> {
    if !selector.is_object() {
        return Err("one of name or selector must be provided".to_owned());
    }
    let labels = Selector::from_label_selector(selector).map_err(|error| error.to_string())?;
    let selection = Selection { labels, ..Selection::namespace(namespace) };
    let found = admission.registry.list(kind, &selection, &ListOptions::default());
    found.map(|list| list.items).map_err(|status| status.message().to_owned())
}
