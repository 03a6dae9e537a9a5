//! Which hooks there are, and which of them a write concerns.

use std::sync::Arc;

use object::{Object, Status, Text, Value, View, selector::Selector};
use server::{Admission, Operation, Served};

use super::{HookConditions, review};
use crate::admission::all;

/// One webhook of one configuration.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    /// Unique among all hooks.
    pub(super) id: Text,
    pub(super) name: String,
    pub(super) configuration: String,
    pub(super) tree: Value,
}

/// What the hook sees: the object in the version that its rule names.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) served: Served,
}

/// All hooks in the order in which they are asked: by the name of the configuration.
pub(super) fn hooks(admission: &Admission, plural: &str) -> Result<Vec<Hook>, Status> {
    const GROUP: &str = "admissionregistration.k8s.io";
    let names = &admission.served.definition.names;
    // Nobody locks themselves out of the configurations.
    if names.group == GROUP {
        return Ok(Vec::new());
    }
    let mut hooks = Vec::new();
    for configuration in all(admission, GROUP, plural, "")? {
        let meta = Object::view(&configuration.object).metadata();
        for (at, tree) in configuration.object.get("webhooks").items().iter().enumerate() {
            let name = tree.get("name").as_str().unwrap_or_default().to_owned();
            let id = format!("{}/{at}/{name}", meta.name()).into();
            let configuration = meta.name().to_owned();
            hooks.push(Hook { id, name, configuration, tree: tree.clone() });
        }
    }
    Ok(hooks)
}

impl Hook {
    /// Whether a field has this value.
    pub(super) fn is(&self, field: &str, value: &str) -> bool {
        self.tree.get(field).as_str() == Some(value)
    }

    /// How the hook is asked about this write; `None`: not at all.
    pub(super) fn matches(
        &self,
        admission: &Admission,
        conditions: &HookConditions,
    ) -> Result<Option<Invocation>, Status> {
        if !self.selects_namespace(admission)? || !self.selects_object(admission) {
            return Ok(None);
        }
        let Some(served) = self.version(admission) else { return Ok(None) };
        let invocation = Invocation { served };
        if !self.tree.get("matchConditions").items().is_empty() {
            let (_, review) = review::request(admission, &invocation);
            let matched = conditions.hold(&self.tree, admission, review.get("request"));
            if !matched.map_err(|why| admission.forbid(&why))? {
                return Ok(None);
            }
        }
        Ok(Some(invocation))
    }

    /// The version of the resource that a rule names: the request's own first.
    fn version(&self, admission: &Admission) -> Option<Served> {
        let rules = self.tree.get("rules").items();
        let own = admission.served;
        if rules.iter().any(|rule| names(rule, admission, own)) {
            return Some(own.clone());
        }
        if !self.is("matchPolicy", "Equivalent") {
            return None;
        }
        let same = |other: &&Served| {
            other.hub.storage.prefix == own.hub.storage.prefix
                && !other.hub.storage.prefix.is_empty()
                && !Arc::ptr_eq(&other.definition, &own.definition)
        };
        let all = admission.registry.kinds().all();
        let others: Vec<_> = all.iter().filter(same).collect();
        rules.iter().find_map(|rule| {
            others.iter().find(|other| names(rule, admission, other)).map(|other| (*other).clone())
        })
    }

    fn selects_namespace(&self, admission: &Admission) -> Result<bool, Status> {
        let Some(selector) = selector(self.tree.get("namespaceSelector")) else { return Ok(true) };
        let definition = &admission.served.definition;
        let is_namespace =
            definition.names.group.is_empty() && definition.names.plural == "namespaces";
        if is_namespace {
            let object = if admission.object.is_null() {
                admission.old.unwrap_or(&Value::Null)
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

    fn selects_object(&self, admission: &Admission) -> bool {
        let Some(selector) = selector(self.tree.get("objectSelector")) else { return true };
        let is = |object: &Value| {
            object.is_object() && selector.matches(Object::view(object).metadata().labels())
        };
        is(&admission.object) || admission.old.is_some_and(is)
    }
}

/// A selector that leaves anything out.
fn selector(tree: &Value) -> Option<Selector> {
    if tree.entries().len() == 0 {
        return None;
    }
    Selector::from_tree(tree).ok().filter(|selector| !selector.is_empty())
}

/// Whether a rule is about this operation on this version of the resource.
pub(crate) fn names(rule: &Value, admission: &Admission, served: &Served) -> bool {
    let any = |field: &str, is: &dyn Fn(&str) -> bool| {
        rule.get(field).items().iter().filter_map(Value::as_str).any(is)
    };
    let definition = &served.definition;
    let (group, version) = (definition.names.group, definition.names.version);
    let operation = match admission.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    };
    let is_namespace = group.is_empty() && definition.names.plural == "namespaces";
    let scope = if definition.is_namespaced() && !is_namespace { "Namespaced" } else { "Cluster" };
    let is = |own: &str, value: &str| own == "*" || own == value;
    let part = admission.subresource;
    let resource = |own: &str| match own.split_once('/') {
        None => is(own, definition.names.plural) && part.is_empty(),
        Some((resource, own)) => is(resource, definition.names.plural) && is(own, part),
    };
    any("operations", &|own| is(own, operation))
        && any("apiGroups", &|own| is(own, group))
        && any("apiVersions", &|own| is(own, version))
        && any("resources", &resource)
        && is(rule.get("scope").as_str().unwrap_or("*"), scope)
}
