//! What an expression made, with how far it extends: a value that nests deeper than any stack
//! bears could not even be dropped, and one whose parts are shared can be far larger, when it is
//! compared or written, than the memory it takes.

use std::ops::Deref;

use super::{List, Map, Value};

/// How many parts of an object are looked at to tell how much it weighs.
const LOOKED_AT: usize = 256;
/// What a value weighs that has no bytes of its own.
const SIMPLE: u64 = 16;

/// How far some values extend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// How deep the deepest of them nests.
    pub(crate) deepest: u16,
    /// The bytes of all of them, a shared part as often as it is there.
    pub(crate) weight: u64,
}

impl Extent {
    pub(crate) fn of<'v, 'a: 'v>(values: impl Iterator<Item = &'v Value<'a>>) -> Self {
        values.fold(Self::default(), |sum, value| {
            sum.and(Self { deepest: value.height(), weight: value.weight() })
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            deepest: self.deepest.max(other.deepest),
            weight: self.weight.saturating_add(other.weight),
        }
    }
}

/// Parts of a made value, and how far they extend.
#[derive(Clone, Debug)]
pub struct Made<T> {
    parts: T,
    extent: Extent,
}

impl<T> Made<T> {
    pub(crate) fn new(parts: T, extent: Extent) -> Self {
        Self { parts, extent }
    }

    /// Changes the parts; what is added extends as far as `extent`.
    pub(crate) fn change(&mut self, extent: Extent, change: impl FnOnce(&mut T)) {
        self.extent = self.extent.and(extent);
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
            Self::List(List::Owned(items)) => items.extent.deepest + 1,
            Self::Map(Map::Made(entries) | Map::EmptyByDefault(entries)) => {
                entries.extent.deepest + 1
            }
            Self::Message(message) => message.extent.deepest + 1,
            Self::Optional(Some(held)) => held.height().saturating_add(1),
            _ => 0,
        }
    }

    /// About how many bytes the value has, written out.
    pub(crate) fn weight(&self) -> u64 {
        let bytes =
            |length: usize| SIMPLE.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        match self {
            Self::Text(text) => bytes(text.len()),
            Self::Bytes(value) => bytes(value.len()),
            Self::List(List::Owned(items)) => items.extent.weight.saturating_add(SIMPLE),
            Self::List(List::Tree { items, .. }) => weight_of_parts(items.iter()),
            Self::Map(Map::Made(entries) | Map::EmptyByDefault(entries)) => {
                entries.extent.weight.saturating_add(bytes(entries.len() * 16))
            }
            Self::Map(Map::Tree { tree, .. }) => {
                weight_of_parts(tree.entries().map(|(_, value)| value))
            }
            Self::Message(message) => message.extent.weight.saturating_add(SIMPLE),
            Self::Optional(Some(held)) => held.weight().saturating_add(SIMPLE),
            Self::Preserved(tree) => weight_of_parts(std::iter::once(*tree)),
            _ => SIMPLE,
        }
    }
}

/// About how many bytes parts of an object have; of large ones only the beginning is looked at.
fn weight_of_parts<'v>(parts: impl Iterator<Item = &'v object::Value>) -> u64 {
    let mut waiting: Vec<&object::Value> = parts.take(LOOKED_AT).collect();
    let mut weight = SIMPLE;
    for _ in 0..LOOKED_AT {
        let Some(part) = waiting.pop() else { break };
        let bytes = part.as_str().map_or(0, str::len);
        weight = weight.saturating_add(SIMPLE + u64::try_from(bytes).unwrap_or(u64::MAX));
        let room = LOOKED_AT.saturating_sub(waiting.len());
        waiting.extend(part.items().iter().take(room));
        let room = LOOKED_AT.saturating_sub(waiting.len());
        waiting.extend(part.entries().map(|(_, value)| value).take(room));
    }
    weight
}
