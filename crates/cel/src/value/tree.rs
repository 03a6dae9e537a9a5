//! Conversion between objects and CEL values.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use base64::{
    DecodeError, Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

use object::quote::quote;

use super::{List, Map, Text, Timestamp, Value, map::Key};
use crate::{
    decl_type::{DeclKind, DeclType, ListType},
    error::Error,
    library::parse_openapi_duration,
};

/// A part of an object as a CEL value; without a declaration it has the type of its JSON.
pub(crate) fn from_tree<'a>(
    tree: &'a object::Value,
    node: Option<&'a DeclType>,
) -> Result<Value<'a>, Error> {
    let Some(node) = node else { return Ok(plain(tree)) };
    let mismatch = |wanted: &str| {
        Err(Error::new(format!("invalid data, expected {wanted}, got {}", go_type(tree))))
    };
    if tree.is_null() {
        return if node.nullable {
            Ok(Value::Null)
        } else {
            Err(Error::new("invalid data, got null for schema with nullable=false"))
        };
    }
    match (&node.kind, tree) {
        (DeclKind::IntOrText, object::Value::Int(_) | object::Value::Text(_)) => Ok(plain(tree)),
        (DeclKind::IntOrText, _) => Err(Error::new(
            "invalid data, expected XIntOrString value to be either a string or integer",
        )),
        (DeclKind::Plain, tree) => Ok(plain(tree)),
        (DeclKind::Object { .. } | DeclKind::Map(_) | DeclKind::Raw(_), tree)
            if tree.is_object() =>
        {
            Ok(Value::Map(Map::Tree { tree, node: Some(node) }))
        }
        (DeclKind::Object { .. } | DeclKind::Map(_) | DeclKind::Raw(_), _) => {
            Err(Error::new("invalid data, expected a map for the provided schema with type=object"))
        }
        (DeclKind::List { items, merge }, object::Value::List(list)) => {
            Ok(Value::List(List::Tree { items: list, node: items.as_deref(), merge }))
        }
        (DeclKind::List { .. }, _) => Err(Error::new(
            "invalid data, expected an array for the provided schema with type=array",
        )),
        (DeclKind::Text, object::Value::Text(text)) => Ok(Value::Text(Text::Borrowed(text))),
        (DeclKind::Bytes, object::Value::Text(text)) => bytes(text).map(Value::Bytes),
        (DeclKind::Duration, object::Value::Text(text)) => {
            parse_openapi_duration(text).map(Value::Duration).ok_or_else(|| {
                let why = format!("unable to parse {text} as duration");
                Error::new(format!("Invalid duration {text}: {why}"))
            })
        }
        (DeclKind::Date, object::Value::Text(text)) => date(text).map(Value::Timestamp),
        (DeclKind::DateTime, object::Value::Text(text)) => date_time(text).map(Value::Timestamp),
        (
            DeclKind::Text
            | DeclKind::Bytes
            | DeclKind::Duration
            | DeclKind::Date
            | DeclKind::DateTime,
            _,
        ) => mismatch("string"),
        (DeclKind::Double, tree) => {
            tree.as_f64().map_or_else(|| mismatch("float"), |n| Ok(Value::Double(n)))
        }
        (DeclKind::Int, tree) => {
            tree.as_i64().map_or_else(|| mismatch("int"), |n| Ok(Value::Int(n)))
        }
        (DeclKind::Bool, tree) => {
            tree.as_bool().map_or_else(|| mismatch("bool"), |b| Ok(Value::Bool(b)))
        }
        (DeclKind::Preserved, tree) => Ok(Value::Preserved(tree)),
    }
}

fn date(text: &str) -> Result<Timestamp, Error> {
    Timestamp::parse_date(text).ok_or_else(|| {
        let begins = text.get(..10).is_some_and(|date| Timestamp::parse_date(date).is_some());
        let why = unreadable(text, "2006-01-02", text.get(10..).filter(|_| begins));
        Error::new(format!("Invalid date formatted string {text}: {why}"))
    })
}

/// Parses a date-time with or without a zone; an empty string is the zero time.
fn date_time(text: &str) -> Result<Timestamp, Error> {
    let begins = |end: usize| {
        text.get(..end).is_some_and(|part| Timestamp::parse(&format!("{part}Z")).is_some())
    };
    if text.is_empty() {
        return Ok(Timestamp::default());
    }
    let local = || Timestamp::parse(&format!("{text}Z"));
    Timestamp::parse(text).or_else(local).ok_or_else(|| {
        let rest = text.get(19..).filter(|_| begins(19));
        let why = unreadable(text, "2006-01-02T15:04:05", rest);
        Error::new(format!("Invalid date-time formatted string {text}: {why}"))
    })
}

/// Go's error message for a time that does not match a layout, or has extra text.
fn unreadable(text: &str, layout: &str, rest: Option<&str>) -> String {
    if let Some(rest) = rest {
        return format!("parsing time {}: extra text: {}", quote(text), quote(rest));
    }
    let why = object::Time::canonicalize(text).err().unwrap_or_default();
    why.replace("2006-01-02T15:04:05Z07:00", layout)
}

/// Decodes URL-safe base64, as upstream does.
fn bytes(text: &str) -> Result<Arc<[u8]>, Error> {
    URL_SAFE.decode(text.as_bytes()).map(Arc::from).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            // The start of the last group of four characters.
            _ => text.len() / 4 * 4,
        };
        let why = format!("illegal base64 data at input byte {at}");
        Error::new(format!("Invalid byte formatted string {text}: {why}"))
    })
}

/// Converts a value to JSON, where that is possible.
pub(crate) fn to_tree(value: &Value<'_>) -> Result<object::Value, Error> {
    Ok(match value {
        Value::Null | Value::Optional(None) => object::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(n) => (*n).into(),
        Value::Uint(n) => (*n).into(),
        Value::Double(n) => object::Value::Float(*n),
        Value::Text(text) => object::Value::from(&**text),
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Value::Timestamp(moment) => moment.to_string().into(),
        Value::Duration(nanos) => super::duration_text(*nanos).into(),
        Value::Preserved(tree) | Value::Map(Map::Tree { tree, .. }) => (*tree).clone(),
        Value::List(list) => {
            let items = list.values()?;
            let items: Result<Vec<_>, _> = items.iter().map(to_tree).collect();
            items?.into_iter().collect()
        }
        Value::Map(map) => {
            let mut tree = object::Value::object();
            for key in map.keys() {
                let Key::Text(name) = &key else {
                    return Err(Error::new(format!("unsupported map key type {key}")));
                };
                if let Some(value) = map.get(&key) {
                    tree[name] = to_tree(&value?)?;
                }
            }
            tree
        }
        Value::Message(message) => {
            let mut tree = object::Value::object();
            for (name, value) in &message.fields {
                tree[name] = to_tree(value)?;
            }
            tree
        }
        Value::Optional(Some(value)) => to_tree(value)?,
        Value::Opaque(opaque) => opaque.to_string().into(),
        Value::Type(name) => object::Value::from(&**name),
    })
}

static ATOMIC: ListType = ListType::Atomic;

fn plain(tree: &object::Value) -> Value<'_> {
    match tree {
        object::Value::Null => Value::Null,
        object::Value::Bool(b) => Value::Bool(*b),
        object::Value::Int(n) => Value::Int(*n),
        object::Value::UInt(n) => Value::Uint(*n),
        object::Value::Float(n) => Value::Double(*n),
        object::Value::Text(text) => Value::Text(Text::Borrowed(text)),
        object::Value::List(items) => Value::List(List::Tree { items, node: None, merge: &ATOMIC }),
        tree => Value::Map(Map::Tree { tree, node: None }),
    }
}

/// The Go type name of a JSON value.
fn go_type(tree: &object::Value) -> &'static str {
    match tree {
        object::Value::Null => "<nil>",
        object::Value::Bool(_) => "bool",
        object::Value::Int(_) => "int64",
        object::Value::UInt(_) => "uint64",
        object::Value::Float(_) => "float64",
        object::Value::Text(_) => "string",
        object::Value::List(_) => "[]interface {}",
        _ => "map[string]interface {}",
    }
}

impl From<&Arc<str>> for Text<'_> {
    fn from(text: &Arc<str>) -> Self {
        Self::Made(text.clone())
    }
}
