//! Depth and size of values that an expression creates. A value that is nested too deeply could not even be dropped
//! without a stack overflow, and one with shared parts can be far larger, when compared or encoded, than the memory it
//! uses.

use std::ops::Deref;

use super::{List, Map, Value};

/// Number of parts of an object that are inspected to estimate its size.
const LOOKED_AT: usize = 256;
/// The size of a scalar in bytes.
const SIMPLE: u64 = 16;

/// Depth and size of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The maximum nesting depth.
    pub(crate) deepest: u16,
    /// The total size in bytes; a shared part counts each time.
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

/// The parts of a created value, with their depth and size.
#[derive(Clone, Debug)]
pub struct Made<T> {
    parts: T,
    extent: Extent,
}

impl<T> Made<T> {
    pub(crate) fn new(parts: T, extent: Extent) -> Self {
        Self { parts, extent }
    }

    /// Changes the parts; `extent` is that of the added ones.
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
    /// The nesting depth of a created value. A part of an object counts as one level: its depth is limited already.
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

    /// Approximate size of the encoded value in bytes.
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

/// Approximate size of parts of an object in bytes; of large ones only the beginning is inspected.
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
