//! Tables: what `kubectl get` prints.

use object::Value;
use schema::Definition;

use crate::{
    Served,
    negotiate::Form,
    respond::{numbered, partial, shown},
};

/// What a row holds besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

pub(crate) fn table(served: &Served, objects: &[(u64, &Value)], form: Form, now: i64) -> Value {
    let kind = served.reader();
    let mut objects = objects.to_vec();
    objects.sort_by_key(|(_, stored)| kind.hooks.rank(stored));
    let rows = objects.iter().map(|(revision, stored)| {
        let object = match form.include {
            Include::Object => shown(served, *revision, stored),
            _ => numbered(*revision, (*stored).clone()),
        };
        row(kind, stored, object, form, now)
    });
    // Kinds without columns of their own have no rows rather than none.
    let plain = served.hub.columns.iter().any(|column| column.name == "Created At");
    let rows = if objects.is_empty() && plain { Value::Null } else { rows.collect() };
    let mut head = Value::object();
    if let [(revision @ 1.., _)] = &*objects {
        head["resourceVersion"] = revision.to_string().into();
    }
    build(kind, rows, head, form)
}

/// A table of what a subresource gives.
pub(crate) fn of_part(kind: &Definition, object: &Value, form: Form, now: i64) -> Value {
    let rows = [row(kind, object, object.clone(), form, now)].into_iter().collect();
    let mut head = Value::object();
    head["resourceVersion"] = object.get("metadata").get("resourceVersion").clone();
    build(kind, rows, head, form)
}

fn row(kind: &Definition, stored: &Value, shown: Value, form: Form, now: i64) -> Value {
    let mut row = Value::object();
    row["cells"] = kind.hooks.row(stored, now).into_iter().collect();
    if let Some((reason, message)) = kind.hooks.ended(stored) {
        let mut condition = Value::object();
        condition["type"] = "Completed".into();
        condition["status"] = "True".into();
        condition["reason"] = reason.into();
        condition["message"] = message.into();
        row["conditions"] = [condition].into_iter().collect();
    }
    row["object"] = match form.include {
        Include::Nothing => Value::Null,
        Include::Metadata => partial(&shown, form),
        Include::Object => shown,
    };
    row
}

fn build(kind: &Definition, rows: Value, head: Value, form: Form) -> Value {
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

/// What every kind has is described once; the other columns speak for themselves.
fn describe(column: &str) -> String {
    match column {
        "Name" => "The name, unique among the objects of this kind in a namespace.".to_owned(),
        "Age" => "How long ago the object was created.".to_owned(),
        other => format!("{other} of the object."),
    }
}
