//! What an expression made, with how deep it nests: a value that nests deeper than any stack
//! bears could not even be dropped.

use std::ops::Deref;

use super::{List, Map, Value};

/// Parts of a made value, and the depth of the deepest of them.
#[derive(Clone, Debug)]
pub struct Made<T> {
    parts: T,
    pub(crate) deepest: u16,
}

impl<T> Made<T> {
    pub(crate) fn new(parts: T, deepest: u16) -> Self {
        Self { parts, deepest }
    }

    /// Changes the parts; what is added nests as deep as `deepest`.
    pub(crate) fn change(&mut self, deepest: u16, change: impl FnOnce(&mut T)) {
        self.deepest = self.deepest.max(deepest);
        change(&mut self.parts);
    }
}

impl<T> Deref for Made<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.parts
    }
}

impl Value<'_> {
    /// How deep what an expression has made of values nests. A part of an object counts as one
    /// value: it is not deeper than objects may be.
    pub(crate) fn height(&self) -> u16 {
        match self {
            Self::List(List::Made(items)) => items.deepest + 1,
            Self::Map(Map::Made(entries) | Map::Open(entries)) => entries.deepest + 1,
            Self::Message(message) => message.deepest + 1,
            Self::Optional(Some(held)) => held.height().saturating_add(1),
            _ => 0,
        }
    }
}

/// The depth of the deepest of some values.
pub(crate) fn deepest<'v, 'a: 'v>(values: impl Iterator<Item = &'v Value<'a>>) -> u16 {
    values.map(Value::height).max().unwrap_or(0)
}
