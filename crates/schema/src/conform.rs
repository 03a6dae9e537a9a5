//! Makes a decoded tree fit a shape: types are right, what is unknown is told.
//!
//! Nothing becomes a lens before it has passed here, since a lens reads a value
//! of the wrong type as absent. Messages are those of Go's decoder.

use object::{Bytes, Duration, MicroTime, Quantity, QuantityError, Struct, Time, Type, Value};

use crate::Path;

/// The paths of fields that the shape does not know.
pub type Unknown = Vec<String>;

/// Checks all types, drops `null`s and unknown fields. The error is Go's text.
pub fn conform(shape: &Struct, object: &mut Value, unknown: &mut Unknown) -> Result<(), String> {
    if !object.is_object() {
        return Err(mismatch(object, "", &shape.name, "", "Object"));
    }
    fields(shape, object, &Path::Root, unknown)
}

/// Whether the shape is that of whole objects, which say what they are even within
/// another object: the claim templates of a StatefulSet do.
pub(crate) fn is_kind(shape: &Struct) -> bool {
    ["metadata", "spec", "status"].iter().all(|name| shape.field(name).is_some())
}

fn fields(
    shape: &Struct,
    object: &mut Value,
    at: &Path,
    unknown: &mut Unknown,
) -> Result<(), String> {
    let typed = matches!(at, Path::Root) || is_kind(shape);
    let mut failed = None;
    object.retain(|name, value| {
        let Some(field) = shape.field(name) else {
            if typed && matches!(name, "apiVersion" | "kind") {
                return value.as_str().is_some();
            }
            unknown.push(at.field(name).to_string());
            return false;
        };
        if value.is_null() || failed.is_some() {
            return false;
        }
        let here = at.field(name);
        if let Err(error) = fit(&field.ty, value, &here, unknown, &shape.name) {
            failed = Some(error);
        }
        true
    });
    failed.map_or(Ok(()), Err)
}

fn fit(
    ty: &Type,
    value: &mut Value,
    at: &Path,
    unknown: &mut Unknown,
    owner: &str,
) -> Result<(), String> {
    let go = match (ty, &mut *value) {
        (Type::Any, _)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int64, Value::Int(_))
        | (Type::UInt64, Value::Int(0..) | Value::UInt(_))
        | (Type::Float, Value::Int(_) | Value::UInt(_) | Value::Float(_))
        | (Type::Text | Type::Enum(_) | Type::IntOrString, Value::Text(_)) => return Ok(()),
        (Type::Int32 | Type::IntOrString, Value::Int(n)) if i32::try_from(*n).is_ok() => {
            return Ok(());
        }
        // Go takes 3.0 for a whole number nowhere: it is a mismatch as well.
        (Type::Object(shape), Value::Object(_) | Value::Map(_)) => {
            return fields(shape, value, at, unknown);
        }
        (Type::List(item), Value::List(items)) => {
            for (i, value) in items.make_mut().iter_mut().enumerate() {
                if value.is_null() {
                    *value = zero(item);
                    continue;
                }
                fit(item, value, &at.index(i), unknown, owner)?;
            }
            return Ok(());
        }
        (Type::Map(item), Value::Object(_) | Value::Map(_)) => {
            let mut failed = None;
            value.retain(|name, value| {
                if value.is_null() {
                    *value = zero(item);
                } else if let (None, Err(error)) =
                    (&failed, fit(item, value, &at.key(name), unknown, owner))
                {
                    failed = Some(error);
                }
                true
            });
            return failed.map_or(Ok(()), Err);
        }
        (Type::Quantity, Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Text(_)) => {
            return quantity(value);
        }
        (Type::Time, Value::Text(text)) => return moment(text, Time::seconds(text).is_some()),
        (Type::MicroTime, Value::Text(text)) => {
            return moment(text, MicroTime::micros(text).is_some());
        }
        (Type::Duration, Value::Text(text)) => return Duration::nanos(text).map(drop),
        (Type::Bytes, Value::Text(text)) => {
            return match Bytes::decode(text) {
                Some(_) => Ok(()),
                None => Err(format!("illegal base64 data at input byte {}", bad_base64(text))),
            };
        }
        (ty, _) => go_type(ty),
    };
    Err(mismatch(value, owner, "", &at.to_string(), &go))
}

/// What a `null` in a list or map stands for.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::Bool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::IntOrString => Value::Int(0),
        Type::Text | Type::Enum(_) | Type::Bytes => "".into(),
        Type::Quantity => "0".into(),
        Type::Object(_) | Type::Map(_) => Value::object(),
        _ => Value::Null,
    }
}

fn quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::Text(text) => text.clone(),
        other => String::from_utf8_lossy(&object::to_json(other)).as_ref().into(),
    };
    let parsed: Quantity = text.parse().map_err(|error: QuantityError| error.to_string())?;
    *value = parsed.into();
    Ok(())
}

fn moment(text: &str, ok: bool) -> Result<(), String> {
    if ok {
        return Ok(());
    }
    Err(format!(
        "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
    ))
}

fn bad_base64(text: &str) -> usize {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/');
    text.bytes().position(|c| !good(c)).unwrap_or(text.len() - text.len() % 4)
}

fn mismatch(value: &Value, owner: &str, root: &str, path: &str, go: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => "number",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) | Value::Map(_) => "object",
    };
    let found = match value {
        Value::Int(_) | Value::UInt(_) | Value::Float(_) if go.contains("int") => {
            format!("number {}", String::from_utf8_lossy(&object::to_json(value)))
        }
        _ => found.to_owned(),
    };
    if path.is_empty() {
        format!("json: cannot unmarshal {found} into Go value of type {root}")
    } else {
        let path = plain(path);
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}")
    }
}

/// A path as Go names it: without the places in lists.
fn plain(path: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    for c in path.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

fn go_type(ty: &Type) -> String {
    match ty {
        Type::Any => "interface {}".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 | Type::IntOrString => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::UInt64 => "uint64".to_owned(),
        Type::Float => "float64".to_owned(),
        Type::Text | Type::Enum(_) => "string".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Duration => "v1.Duration".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::List(item) => format!("[]{}", go_type(item)),
        Type::Map(item) => format!("map[string]{}", go_type(item)),
        Type::Object(shape) => format!("v1.{}", shape.name),
    }
}
