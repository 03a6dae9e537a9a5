//! Maps: borrowed from an object, or created.

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

use super::{Extent, Made, Text, Value, equal, from_tree};
use crate::{decl_type::DeclType, error::Error};

/// A map, borrowed from an object or created by an expression.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    Tree {
        tree: &'a object::Value,
        node: Option<&'a DeclType>,
    },
    Made(Arc<Made<BTreeMap<Key<'a>, Value<'a>>>>),
    /// A map in which every missing key is an empty map.
    EmptyByDefault(Arc<Made<BTreeMap<Key<'a>, Value<'a>>>>),
}

/// The key of an entry. Equal numbers of different types are the same key.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Number { value: i128, unsigned: bool },
    Text(Text<'a>),
}

impl<'a> Key<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(Self::Bool(*b)),
            Value::Int(n) => Some(Self::Number { value: (*n).into(), unsigned: false }),
            Value::Uint(n) => Some(Self::Number { value: (*n).into(), unsigned: true }),
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            Value::Double(n) if n.fract() == 0.0 && n.abs() < 1e19 => {
                Some(Self::Number { value: *n as i128, unsigned: false })
            }
            Value::Text(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Number { value, unsigned: true } => {
                Value::Uint(u64::try_from(*value).unwrap_or_default())
            }
            Self::Number { value, .. } => Value::Int(i64::try_from(*value).unwrap_or_default()),
            Self::Text(text) => Value::Text(text.clone()),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Bool(_) => 0,
            Self::Number { .. } => 1,
            Self::Text(_) => 2,
        };
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Number { value: a, .. }, Self::Number { value: b, .. }) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => (**a).cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}
impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Key<'_> {}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => b.fmt(f),
            Self::Number { value, .. } => value.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl<'a> From<BTreeMap<Key<'a>, Value<'a>>> for Map<'a> {
    fn from(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        let extent = Extent::of(entries.values());
        Self::Made(Arc::new(Made::new(entries, extent)))
    }
}

impl<'a> Map<'a> {
    /// A map in which every missing key is an empty map.
    pub(crate) fn open(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        let extent = Extent::of(entries.values());
        Self::EmptyByDefault(Arc::new(Made::new(entries, extent)))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tree { tree, .. } => tree.entries().len(),
            Self::Made(entries) | Self::EmptyByDefault(entries) => entries.len(),
        }
    }

    /// The value of `key`, if any.
    pub(crate) fn get(&self, key: &Key<'a>) -> Option<Result<Value<'a>, Error>> {
        match (self, key) {
            (Self::Made(entries), key) => entries.get(key).cloned().map(Ok),
            (Self::EmptyByDefault(entries), key) => {
                Some(Ok(entries.get(key).cloned().unwrap_or_else(empty)))
            }
            (Self::Tree { .. }, Key::Text(name)) => self.field(name),
            _ => None,
        }
    }

    /// The value of a field; in an object the name is escaped.
    pub(crate) fn field(&self, name: &str) -> Option<Result<Value<'a>, Error>> {
        let (tree, node) = match self {
            Self::Tree { tree, node } => (*tree, *node),
            made => return made.get(&Key::Text(Text::from(name.to_owned()))),
        };
        match node {
            None => find(tree, name).map(|value| from_tree(value, None)),
            Some(node) => {
                let (own, of) = node.entry(name)?;
                // A null field is absent.
                let absent = |value: &object::Value| node.is_object() && value.is_null();
                let value = find(tree, own.unwrap_or(name)).filter(|value| !absent(value))?;
                Some(from_tree(value, Some(of)))
            }
        }
    }

    pub(crate) fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Tree { tree, node } => {
                let escaped = |name: &'a str| match node {
                    Some(node) => node.escaped(name),
                    None => Text::Borrowed(name),
                };
                tree.entries().map(|(name, _)| Key::Text(escaped(name))).collect()
            }
            Self::Made(entries) | Self::EmptyByDefault(entries) => {
                entries.keys().cloned().collect()
            }
        }
    }

    pub(crate) fn insert(self, key: Key<'a>, value: Value<'a>) -> Result<Self, Error> {
        let mut entries = match self {
            Self::Made(entries) | Self::EmptyByDefault(entries) => entries,
            tree @ Self::Tree { .. } => {
                let mut entries = BTreeMap::new();
                for key in tree.keys() {
                    if let Some(value) = tree.get(&key) {
                        entries.insert(key, value?);
                    }
                }
                let extent = Extent::of(entries.values());
                Arc::new(Made::new(entries, extent))
            }
        };
        if entries.contains_key(&key) {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        let extent = Extent::of(std::iter::once(&value));
        Arc::make_mut(&mut entries).change(extent, |entries| drop(entries.insert(key, value)));
        Ok(Self::Made(entries))
    }

    pub(crate) fn equal(&self, other: &Map<'a>) -> Result<bool, Error> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let (Self::Tree { tree: a, node: Some(node) }, Self::Tree { tree: b, .. }) =
            (self, other)
        {
            // Fields that the schema does not declare are compared as JSON.
            let unknown = |name: &str| node.described(name).is_none();
            let differs = |(name, value): (&str, &object::Value)| {
                unknown(name) && find(b, name).is_some_and(|other| other != value)
            };
            if a.entries().any(differs) {
                return Ok(false);
            }
        }
        for key in self.keys() {
            let same = match (self.get(&key), other.get(&key)) {
                (Some(value), Some(found)) => equal(&value?, &found?)?,
                (value, found) => value.is_none() && found.is_none(),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn empty<'a>() -> Value<'a> {
    Value::Map(Map::from(BTreeMap::new()))
}

/// An entry of an object, which may be null.
fn find<'a>(tree: &'a object::Value, name: &str) -> Option<&'a object::Value> {
    let value = tree.get(name);
    let present = !value.is_null() || tree.entries().any(|(other, _)| other == name);
    present.then_some(value)
}
