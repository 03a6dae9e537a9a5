//! Tables: the response format that `kubectl get` prints.

use object::Value;
use schema::ResourceDefinition;

use crate::{
    ServedResource,
    negotiate::MediaTypeOptions,
    respond::{partial, to_response_object, with_resource_version},
};

/// What a row includes in addition to its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObjectPolicy {
    Nothing,
    Metadata,
    Object,
}

/// Builds the table of stored objects.
pub(crate) fn table(
    served: &ServedResource,
    objects: &[(u64, &Value)],
    form: MediaTypeOptions,
    now: i64,
) -> Value {
    let kind = served.presentation();
    let mut objects = objects.to_vec();
    objects.sort_by_key(|(_, stored)| kind.strategy.table_sort_key(stored));
    let rows =
        objects.iter().map(|(revision, stored)| list_row(served, (*revision, stored), form, now));
    // Like upstream, an empty table of a kind with default columns has null rows.
    let plain = served.internal.columns.iter().any(|column| column.name == "Created At");
    let rows = if objects.is_empty() && plain { Value::Null } else { rows.collect() };
    let mut head = Value::object();
    if let [(revision @ 1.., _)] = &*objects {
        head["resourceVersion"] = revision.to_string().into();
    }
    build(kind, rows, head, form)
}

/// Builds the table of a list without its rows.
pub(crate) fn empty_table(served: &ServedResource, head: Value, form: MediaTypeOptions) -> Value {
    build(served.presentation(), std::iter::empty::<Value>().collect(), head, form)
}

/// Builds the row of an object of a list, given with its revision.
pub(crate) fn list_row(
    served: &ServedResource,
    (revision, stored): (u64, &Value),
    form: MediaTypeOptions,
    now: i64,
) -> Value {
    let object = match form.include {
        IncludeObjectPolicy::Object => to_response_object(served, revision, stored),
        _ => with_resource_version(revision, stored.clone()),
    };
    row(served.presentation(), stored, object, form, now)
}

/// Builds the table of a subresource.
pub(crate) fn subresource_table(
    kind: &ResourceDefinition,
    object: &Value,
    form: MediaTypeOptions,
    now: i64,
) -> Value {
    let rows = [row(kind, object, object.clone(), form, now)].into_iter().collect();
    let mut head = Value::object();
    head["resourceVersion"] = object.get("metadata").get("resourceVersion").clone();
    build(kind, rows, head, form)
}

fn row(
    kind: &ResourceDefinition,
    stored: &Value,
    shown: Value,
    form: MediaTypeOptions,
    now: i64,
) -> Value {
    let mut row = Value::object();
    row["cells"] = kind.strategy.table_cells(stored, now).into_iter().collect();
    if let Some((reason, message)) = kind.strategy.completed_condition(stored) {
        let mut condition = Value::object();
        condition["type"] = "Completed".into();
        condition["status"] = "True".into();
        condition["reason"] = reason.into();
        condition["message"] = message.into();
        row["conditions"] = [condition].into_iter().collect();
    }
    row["object"] = match form.include {
        IncludeObjectPolicy::Nothing => Value::Null,
        IncludeObjectPolicy::Metadata => partial(&shown, form),
        IncludeObjectPolicy::Object => shown,
    };
    row
}

fn build(kind: &ResourceDefinition, rows: Value, head: Value, form: MediaTypeOptions) -> Value {
    let columns = kind.columns.iter().map(|column| {
        let mut definition = Value::object();
        definition["name"] = column.name.clone().into();
        definition["type"] = column.ty.clone().into();
        definition["format"] = column.format.clone().into();
        definition["description"] = match &*column.description {
            "" => describe(&column.name).into(),
            told => told.into(),
        };
        definition["priority"] = column.priority.into();
        definition
    });
    let mut table = Value::object();
    table["kind"] = "Table".into();
    table["apiVersion"] = form.version.into();
    table["columnDefinitions"] = columns.collect();
    table["rows"] = rows;
    table["metadata"] = head;
    table
}

/// The default description of a column.
fn describe(column: &str) -> String {
    match column {
        "Name" => "The name, unique among the objects of this kind in a namespace.".to_owned(),
        "Age" => "How long ago the object was created.".to_owned(),
        other => format!("{other} of the object."),
    }
}
