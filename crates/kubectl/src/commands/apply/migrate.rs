//! Migration from client-side to server-side apply: moves fields that an earlier client-side `apply` wrote to the
//! server-side field manager in managedFields, so that a later apply can remove them.

use std::collections::BTreeSet;

use object::Value;

use super::{LAST_APPLIED, PatchType, describe};
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    select::Info,
    workload::{items_mut, list},
};

/// The field manager that owns the last-applied annotation.
const LAST_APPLIED_FIELD_MANAGER: &str = "kubectl-last-applied";
/// Number of attempts in case of conflicts.
const TRIES: usize = 5;

/// Migrates the ownership of the annotation, then of the fields. Returns the object afterwards, and whether the
/// configuration must be applied again.
pub(super) fn migrate(
    call: &Invocation<'_>,
    info: &Info,
    mut object: Value,
    manager: &str,
    query: &str,
) -> Result<(Value, bool)> {
    if manager == "kubectl" {
        object = keep_annotation(call, info, object, query).map_err(|fail| {
            CommandError::error(format!(
                "Warning: failed to re-apply configuration after performing Server-Side Apply migration. This is non-fatal and will be retried next time you apply. Error: {}",
                fail.message()
            ))
        })?;
    }
    let old: BTreeSet<String> = owners(&object, "Update")
        .map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned())
        .collect();
    for _ in 0..TRIES {
        let there = &object["metadata"]["managedFields"];
        let wanted = old
            .iter()
            .fold(there.clone(), |all, name| migrated_managed_fields(&all, name, manager));
        if wanted == *there {
            return Ok((object, false));
        }
        let change = |path: &str, value: &Value| {
            let mut change = Value::object();
            change["op"] = "replace".into();
            change["path"] = path.into();
            change["value"] = value.clone();
            change
        };
        let patch = list(vec![
            change("/metadata/managedFields", &wanted),
            change("/metadata/resourceVersion", &object["metadata"]["resourceVersion"]),
        ]);
        // `force` is valid for apply patches only.
        let query = query.split("&force=").next().unwrap_or_default();
        match call.server()?.patch(&(info.path() + query), PatchType::Json, &patch) {
            Ok(object) => return Ok((object, true)),
            Err(CommandError::Server { status, .. }) if status.has_reason("Conflict") => {
                object = call.server()?.get(&info.path())?;
            }
            Err(fail) => return Err(fail),
        }
    }
    Err(CommandError::error(format!("the object keeps changing:\n{}", describe(info))))
}

/// The managedFields entries that own the last-applied annotation by this operation (Apply or Update).
fn owners<'a>(object: &'a Value, operation: &'a str) -> impl Iterator<Item = &'a Value> {
    let owns = |entry: &&Value| {
        let annotations = &entry["fieldsV1"]["f:metadata"]["f:annotations"];
        !annotations[&*format!("f:{LAST_APPLIED}")].is_null()
    };
    let entries = object["metadata"]["managedFields"].items().iter();
    entries.filter(move |entry| entry["operation"].as_str() == Some(operation)).filter(owns)
}

/// Gives the last-applied annotation a field manager of its own.
fn keep_annotation(
    call: &Invocation<'_>,
    info: &Info,
    object: Value,
    query: &str,
) -> Result<Value> {
    let there = object["metadata"]["annotations"][LAST_APPLIED].clone();
    if there.is_null() || owners(&object, "Apply").next().is_some() {
        return Ok(object);
    }
    let mut only = Value::object();
    only["apiVersion"] = info.resource.api_version().into();
    only["kind"] = info.resource.kind.as_str().into();
    only["metadata"]["name"] = info.name.as_str().into();
    if !info.namespace.is_empty() {
        only["metadata"]["namespace"] = info.namespace.as_str().into();
    }
    only["metadata"]["annotations"][LAST_APPLIED] = there;
    let query = query.split_once("fieldManager=").map_or(String::new(), |(before, rest)| {
        let rest = rest.split_once('&').map_or(String::new(), |(_, rest)| format!("&{rest}"));
        format!("{before}fieldManager={LAST_APPLIED_FIELD_MANAGER}{rest}")
    });
    call.server()?.patch(&(info.path() + &query), PatchType::Apply, &only)
}

/// The managedFields with the fields of the manager `old` moved to the server-side manager `new`.
fn migrated_managed_fields(managers: &Value, old: &str, new: &str) -> Value {
    let mut entries = managers.clone();
    let is = |entry: &Value, name: &str, operation: &str| {
        entry["manager"].as_str() == Some(name)
            && entry["operation"].as_str() == Some(operation)
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    let find = |name: &str, operation: &str| {
        managers.items().iter().position(|entry| is(entry, name, operation))
    };
    let source = managers.items().iter().find(|entry| is(entry, old, "Update")).cloned();
    let target = if let Some(at) = find(new, "Apply") {
        at
    } else if let Some(at) = find(old, "Update") {
        let entry = &mut items_mut(&mut entries)[at];
        entry["operation"] = "Apply".into();
        entry["manager"] = new.into();
        at
    } else {
        return entries;
    };
    if let Some(source) = source {
        let entry = &mut items_mut(&mut entries)[target];
        union(&mut entry["fieldsV1"], &source["fieldsV1"]);
    }
    list(entries.items().iter().filter(|entry| !is(entry, old, "Update")).cloned().collect())
}

/// Adds the fields of `more` to `fields`.
fn union(fields: &mut Value, more: &Value) {
    for (name, inner) in more.entries() {
        if fields.get(name).is_null() {
            fields[name] = inner.clone();
        } else {
            union(fields.get_mut(name), inner);
        }
    }
}

#[test]
fn fields_go_over() {
    let read = |text: &str| object::yaml::from_yaml(text).expect("YAML");
    let there = read(
        "[{manager: kubectl, operation: Apply, fieldsV1: {'f:data': {'f:a': {}}}}, {manager: old, operation: Update, fieldsV1: {'f:data': {'f:b': {}}}}]",
    );
    let wanted = read(
        "[{manager: kubectl, operation: Apply, fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}]",
    );
    assert_eq!(migrated_managed_fields(&there, "old", "kubectl"), wanted);
    assert_eq!(migrated_managed_fields(&there, "nobody", "kubectl"), there);
}
