//! The additional printer columns of a CRD.

use jsonpath::Template;
use object::{Object, Text, Time, Value, View};

use crate::{TableColumnDefinition, age, patch::go_float};

/// A column: the path and the type of its cells.
#[derive(Debug)]
pub(super) struct PrinterColumn {
    ty: Text,
    /// `None`: the name of the object.
    path: Option<Template>,
}

/// Maximum number of values that a column's path may visit in an object.
pub(super) const MOST: usize = 20_000;

/// The columns of a version and how to compute their cells. An invalid path ends the list; a
/// version without columns shows name and age.
pub(super) fn columns(version: &Value) -> (Vec<TableColumnDefinition>, Vec<PrinterColumn>) {
    let mut infos = vec![TableColumnDefinition {
        name: "Name".into(),
        ty: "string".into(),
        format: "name".into(),
        priority: 0,
        description: Text::default(),
    }];
    let mut cells = vec![PrinterColumn { ty: "string".into(), path: None }];
    let declared = version.get("additionalPrinterColumns").items();
    let age = age_column();
    let declared = if declared.is_empty() { std::slice::from_ref(&age) } else { declared };
    for column in declared {
        let text = |name: &str| column.get(name).as_str().unwrap_or_default();
        let path = text("jsonPath");
        let Ok(template) = Template::parse(&format!("{{{path}}}")) else { break };
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}").into(),
            told => told.into(),
        };
        infos.push(TableColumnDefinition {
            name: text("name").into(),
            ty: text("type").into(),
            format: text("format").into(),
            priority: column.get("priority").as_i64().and_then(|n| n.try_into().ok()).unwrap_or(0),
            description,
        });
        cells.push(PrinterColumn { ty: text("type").into(), path: Some(template) });
    }
    (infos, cells)
}

impl PrinterColumn {
    /// The cell of an object at this time (seconds since 1970).
    pub(super) fn cell(&self, object: &Value, now: i64) -> Value {
        let Some(path) = &self.path else {
            return Object::view(object).metadata().name().into();
        };
        let found = path.find_within(object, MOST).ok().and_then(|parts| parts.into_iter().next());
        let Some(value) = found.and_then(|found| found.into_iter().next()) else {
            return Value::Null;
        };
        match (&*self.ty, &value) {
            ("string", Value::Null) => "<nil>".into(),
            ("string", value) => text(value).into(),
            ("integer", Value::Int(_))
            | ("number", Value::Int(_) | Value::Float(_))
            | ("boolean", Value::Bool(_)) => value,
            #[expect(clippy::cast_possible_truncation, reason = "a cell for whole numbers")]
            ("integer", Value::Float(n)) => Value::Int(*n as i64),
            ("date", Value::Text(moment)) => match Time::parse_seconds(moment) {
                Some(_) => age(moment, now).into(),
                None => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

/// Formats a value for a cell of type string.
fn text(value: &Value) -> String {
    match value {
        Value::Float(n) => go_float(*n),
        value => jsonpath::format_value(value),
    }
}

fn age_column() -> Value {
    let mut column = Value::object();
    column["name"] = "Age".into();
    column["type"] = "date".into();
    column["jsonPath"] = ".metadata.creationTimestamp".into();
    column["description"] = "How long ago the object was created.".into();
    column
}
