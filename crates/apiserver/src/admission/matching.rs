//! Matching of requests to webhooks, policies and bindings: selectors and resource rules.

use std::sync::Arc;

use object::{Object, Status, Value, View, selector::Selector};
use server::{AdmissionAttributes, ServedResource};

/// Whether `namespaceSelector` and `objectSelector` match the request.
pub(super) fn matches_selectors(
    by: &Value,
    admission: &AdmissionAttributes<'_>,
) -> Result<bool, Status> {
    Ok(selects_namespace(by, admission)? && selects_object(by, admission))
}

/// The version of the resource that the rules match: the request's own if possible; with
/// `matchPolicy: Equivalent` (`equivalent`) also another version of the same resource.
pub(super) fn matching_version(
    rules: &[Value],
    equivalent: bool,
    admission: &AdmissionAttributes<'_>,
) -> Option<ServedResource> {
    let own = admission.served;
    let is = |rule: &Value, served: &ServedResource| {
        let listed = rule.get("resourceNames").items();
        let named = |name: &Value| name.as_str() == Some(&*admission.name);
        names(rule, admission, served) && (listed.is_empty() || listed.iter().any(named))
    };
    if rules.iter().any(|rule| is(rule, own)) {
        return Some(own.clone());
    }
    if !equivalent || rules.is_empty() {
        return None;
    }
    let all = admission.registry.kinds().all();
    let other = |other: &&ServedResource| {
        other.internal.storage.prefix == own.internal.storage.prefix
            && !other.internal.storage.prefix.is_empty()
            && !Arc::ptr_eq(&other.definition, &own.definition)
    };
    let others: Vec<_> = all.iter().filter(other).collect();
    rules.iter().find_map(|rule| others.iter().find(|other| is(rule, other)).copied().cloned())
}

fn selects_namespace(
    resources: &Value,
    admission: &AdmissionAttributes<'_>,
) -> Result<bool, Status> {
    let Some(selector) = selector(resources.get("namespaceSelector")) else { return Ok(true) };
    let definition = &admission.served.definition;
    if definition.names.group.is_empty() && definition.names.plural == "namespaces" {
        let object = if admission.object.is_null() {
            admission.old.unwrap_or(&object::NULL)
        } else {
            &admission.object
        };
        return Ok(selector.matches(Object::view(object).metadata().labels()));
    } else if admission.namespace.is_empty() {
        return Ok(true);
    }
    let kind = admission.registry.kind("", "namespaces")?;
    let found = admission.registry.get(&kind, "", &admission.namespace)?;
    Ok(selector.matches(Object::view(&found.object).metadata().labels()))
}

fn selects_object(resources: &Value, admission: &AdmissionAttributes<'_>) -> bool {
    let Some(selector) = selector(resources.get("objectSelector")) else { return true };
    let is = |object: &Value| {
        object.is_object() && selector.matches(Object::view(object).metadata().labels())
    };
    is(&admission.object) || admission.old.is_some_and(is)
}

/// Parses a label selector; `None` if it is invalid or matches everything.
fn selector(tree: &Value) -> Option<Selector> {
    if tree.entries().len() == 0 {
        return None;
    }
    Selector::from_label_selector(tree).ok().filter(|selector| !selector.is_empty())
}

/// Whether a rule matches this operation, resource version, scope and subresource.
fn names(rule: &Value, admission: &AdmissionAttributes<'_>, served: &ServedResource) -> bool {
    let any = |field: &str, is: &dyn Fn(&str) -> bool| {
        rule.get(field).items().iter().filter_map(Value::as_str).any(is)
    };
    let definition = &served.definition;
    let operation = admission.operation.name();
    let is_namespace = definition.names.group.is_empty() && definition.names.plural == "namespaces";
    let scope = if definition.is_namespaced() && !is_namespace { "Namespaced" } else { "Cluster" };
    let is = |own: &str, value: &str| own == "*" || own == value;
    let part = admission.subresource;
    let resource = |own: &str| match own.split_once('/') {
        None => is(own, definition.names.plural) && part.is_empty(),
        Some((resource, own)) => is(resource, definition.names.plural) && is(own, part),
    };
    any("operations", &|own| is(own, operation))
        && any("apiGroups", &|own| is(own, definition.names.group))
        && any("apiVersions", &|own| is(own, definition.names.version))
        && any("resources", &resource)
        && is(rule.get("scope").as_str().unwrap_or("*"), scope)
}
