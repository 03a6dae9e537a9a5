//! Memory size of values.

use std::sync::Arc;

use crate::{Text, Value};

/// Overhead in bytes of a list or an object.
const NODE: usize = 16;
/// Longer strings are allocated on the heap.
const INLINE: usize = size_of::<Text>();

impl Value {
    /// Approximate memory of a value in bytes.
    pub fn footprint(&self) -> usize {
        match self {
            Self::Text(text) => heap(text),
            Self::Raw(text) => NODE + text.len(),
            Self::List(items) => {
                NODE + items.iter().map(|item| size_of::<Self>() + item.footprint()).sum::<usize>()
            }
            Self::Object(fields) => {
                let field = size_of::<(crate::FieldId, Self)>();
                NODE + fields.iter().map(|(_, value)| field + value.footprint()).sum::<usize>()
            }
            Self::Map(entries) => {
                let entry = |(name, value): &(Text, Self)| {
                    size_of::<(Text, Self)>() + heap(name) + value.footprint()
                };
                NODE + entries.iter().map(entry).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// Approximate number of bytes that a value does not share with a newer version of it. Looks only at what has
    /// changed.
    pub fn unshared(&self, new: &Self) -> usize {
        match (self, new) {
            (Self::List(old), Self::List(new)) if old.as_ptr() == new.as_ptr() => 0,
            (Self::Object(old), Self::Object(new)) if old.as_ptr() == new.as_ptr() => 0,
            (Self::Map(old), Self::Map(new)) if old.as_ptr() == new.as_ptr() => 0,
            (Self::Raw(old), Self::Raw(new)) if Arc::ptr_eq(old, new) => 0,
            (Self::List(old), Self::List(new)) => {
                let gone: usize = old.iter().skip(new.len()).map(Self::footprint).sum();
                let kept: usize = old.iter().zip(new).map(|(old, new)| old.unshared(new)).sum();
                NODE + old.len() * size_of::<Self>() + gone + kept
            }
            (Self::Object(_) | Self::Map(_), Self::Object(_) | Self::Map(_)) => {
                let mut others = new.entries().peekable();
                let mut size = NODE;
                for (name, old) in self.entries() {
                    while others.next_if(|(other, _)| *other < name).is_some() {}
                    let kept = others.next_if(|(other, _)| *other == name);
                    size += 32 + kept.map_or_else(|| old.footprint(), |new| old.unshared(new.1));
                }
                size
            }
            (old, _) => old.footprint(),
        }
    }
}

fn heap(text: &Text) -> usize {
    if text.len() > INLINE { text.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_versions_share_is_counted_once() {
        let mut old = Value::object();
        old["metadata"]["name"] = "a".into();
        old["data"]["k"] = "x".repeat(100_000).into();
        assert!(old.footprint() > 100_000);
        let mut new = old.clone();
        assert_eq!(old.unshared(&new), 0);
        new["metadata"]["labels"]["a"] = "b".into();
        assert!(old.unshared(&new) < 1_000, "{}", old.unshared(&new));
        new["data"]["k"] = "y".repeat(10).into();
        assert!(old.unshared(&new) > 100_000);
        new.remove("data");
        assert!(old.unshared(&new) > 100_000);
        let list = |n: usize| (0..n).map(|_| "x".repeat(1_000)).collect::<Value>();
        assert!(list(9).unshared(&list(2)) > 9_000);
    }
}
