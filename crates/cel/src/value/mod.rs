//! Values at run time. A value from an object is a reference into it, with the declaration that determines its type.

mod compare;
mod extent;
mod list;
mod map;
mod text;
mod timestamp;
mod tree;

use std::sync::Arc;

pub(crate) use self::{
    compare::{compare, equal},
    extent::{Extent, Made},
    list::List,
    map::{Key, Map},
    text::Text,
    timestamp::{Civil, NANOS, Timestamp, duration_text, parse_duration},
    tree::{from_tree, to_tree},
};
use crate::library::Opaque;

/// A CEL value.
#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    /// `Name{field: value}`.
    Message(Arc<Message<'a>>),
    /// The name of a type.
    Type(Arc<str>),
    Optional(Option<Arc<Value<'a>>>),
    Opaque(Opaque<'a>),
    /// An undeclared part of an object, which can only be compared.
    Preserved(&'a object::Value),
}

/// An object that an expression created.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    pub name: Arc<str>,
    pub fields: Vec<(Arc<str>, Value<'a>)>,
    /// Depth and size of the fields.
    pub(crate) extent: Extent,
}

impl<'a> Message<'a> {
    pub(crate) fn new(name: Arc<str>, fields: Vec<(Arc<str>, Value<'a>)>) -> Self {
        let extent = Extent::of(fields.iter().map(|(_, value)| value));
        Self { name, fields, extent }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(Text::from(text.into()))
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::from(items))
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub const NONE: Self = Self::Optional(None);

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = self { Some(*b) } else { None }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        if let Self::Int(n) = self { Some(*n) } else { None }
    }

    /// The name of the type of this value.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Message(message) => &message.name,
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
            Self::Preserved(_) => "unknown",
        }
    }

    /// The Go type name of this value, for upstream's error messages.
    pub(crate) fn go_name(&self) -> &str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::Text(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            other => other.type_name(),
        }
    }

    /// Whether it is a list or map of an object, with a schema.
    fn is_described(&self) -> bool {
        matches!(
            self,
            Self::List(List::Tree { node: Some(_), .. })
                | Self::Map(Map::Tree { node: Some(_), .. })
        )
    }

    /// The result of `size()`, if defined: characters, bytes, items or entries.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.chars().count()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Whether this is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(b) => !b,
            Self::Int(n) => *n == 0,
            Self::Uint(n) => *n == 0,
            Self::Double(n) => *n == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(moment) => *moment == Timestamp::default(),
            Self::Duration(nanos) => *nanos == 0,
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            Self::Message(message) => message.fields.is_empty(),
            Self::Optional(held) => held.as_ref().is_none_or(|held| held.is_zero()),
            Self::Opaque(opaque) => opaque.is_zero(),
            Self::Type(_) | Self::Preserved(_) => false,
        }
    }
}
