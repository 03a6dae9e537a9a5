//! The key range of a request.

use std::ops::Bound;

use bytes::Bytes;

/// A single key, or all keys from `key` to `end`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub(crate) key: Bytes,
    /// Exclusive end. Empty: only `key`. A single zero byte: all keys from `key` on.
    pub(crate) end: Bytes,
}

impl Range {
    pub(crate) fn new(key: Bytes, end: Bytes) -> Self {
        Self { key, end }
    }

    pub(crate) fn is_single(&self) -> bool {
        self.end.is_empty()
    }

    fn is_open(&self) -> bool {
        *self.end == [0]
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        if self.is_single() {
            key == self.key
        } else {
            key >= &*self.key && (self.is_open() || key < &*self.end)
        }
    }

    /// Bounds for an ordered map. A range whose end is not after its key is empty.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let from = Bound::Included(&*self.key);
        if self.is_single() {
            (from, Bound::Included(&*self.key))
        } else if self.is_open() {
            (from, Bound::Unbounded)
        } else {
            (from, Bound::Excluded((&*self.end).max(&*self.key)))
        }
    }

    /// Whether the two ranges overlap.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let before = |a: &Self, b: &Self| {
            if a.is_single() { *a.key < *b.key } else { !a.is_open() && a.end <= b.key }
        };
        !before(self, other) && !before(other, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &'static str, end: &'static str) -> Range {
        Range::new(key.into(), end.into())
    }

    #[test]
    fn one_some_or_all_from() {
        let (one, some, from) = (range("b", ""), range("b", "d"), range("b", "\0"));
        let held = |r: &Range| ["a", "b", "c", "d"].map(|key| r.contains(key.as_bytes()));
        assert_eq!(held(&one), [false, true, false, false]);
        assert_eq!(held(&some), [false, true, true, false]);
        assert_eq!(held(&from), [false, true, true, true]);
        assert_eq!(
            range("d", "b").bounds(),
            (Bound::Included(&b"d"[..]), Bound::Excluded(&b"d"[..]))
        );
        assert!(some.meets(&one) && some.meets(&from) && !some.meets(&range("d", "")));
        assert!(!range("a", "b").meets(&some) && range("a", "\0").meets(&range("z", "")));
    }
}
