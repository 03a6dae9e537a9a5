//! Tables: what `kubectl get` prints.

use object::Value;

use crate::{
    Served,
    negotiate::Form,
    respond::{partial, shown},
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
    let rows = objects.iter().map(|(revision, stored)| {
        let mut row = Value::object();
        row["cells"] = kind.hooks.row(stored, now).into_iter().collect();
        let object = shown(served, *revision, stored);
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
            Include::Metadata => partial(&object, form),
            Include::Object => object,
        };
        row
    });
    let mut table = Value::object();
    table["kind"] = "Table".into();
    table["apiVersion"] = form.version.into();
    table["columnDefinitions"] = columns.collect();
    // Kinds without columns of their own have no rows rather than none.
    let plain = served.hub.columns.iter().any(|column| column.name == "Created At");
    table["rows"] = if objects.is_empty() && plain { Value::Null } else { rows.collect() };
    let mut head = Value::object();
    if let [(revision, _)] = objects {
        head["resourceVersion"] = revision.to_string().into();
    }
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
