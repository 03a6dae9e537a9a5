//! A cache of encoded pages for range requests. A page holds adjacent keys that were read together and have not changed
//! since. Writing one long piece takes half the time of many short ones.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;

/// Approximate size of a page in bytes.
pub(super) const PAGE: usize = 64 << 10;
/// Maximum size of all pages in bytes, except for the last one added.
const ALL: usize = 32 << 20;
/// When this many bytes found no room, the cache is emptied: its pages may not be read any more.
const REFUSED: usize = ALL * 8;

/// One page of the cache.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CachedPage {
    /// The last key of the page.
    pub(super) last: Bytes,
    /// The revision of the page; nothing between its first key and its last has changed since.
    pub(super) at: u64,
    pub(super) count: usize,
    /// The entries as encoded in a range response.
    pub(super) entries: Bytes,
}

/// The pages by their first keys. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct RangeCache {
    pages: BTreeMap<Bytes, CachedPage>,
    size: usize,
    refused: usize,
}

impl RangeCache {
    /// The page that begins with a key, if it is valid at a revision.
    pub(super) fn get(&self, first: &[u8], at: u64) -> Option<&CachedPage> {
        self.pages.get(first).filter(|page| page.at <= at)
    }

    /// Whether there is room for another page.
    pub(super) fn has_room(&mut self) -> bool {
        if self.size >= ALL {
            self.refused += PAGE;
        }
        if self.refused > REFUSED {
            *self = Self::default();
        }
        self.size < ALL
    }

    pub(super) fn insert(&mut self, first: Bytes, page: CachedPage) {
        self.invalidate(&first);
        let within = (Bound::Included(&first), Bound::Included(&page.last));
        let met: Vec<_> =
            self.pages.range::<Bytes, _>(within).map(|(first, _)| first.clone()).collect();
        met.iter().for_each(|first| self.remove(first));
        self.size += page.entries.len();
        self.pages.insert(first, page);
    }

    /// Drops the page that contains a key, because the key was created, written or deleted.
    pub(super) fn invalidate(&mut self, key: &[u8]) {
        if self.size == 0 {
            return;
        }
        let until = (Bound::Unbounded, Bound::Included(key));
        let before = self.pages.range::<[u8], _>(until).next_back();
        if let Some((first, _)) = before.filter(|(_, page)| *page.last >= *key) {
            let first = first.clone();
            self.remove(&first);
        }
    }

    fn remove(&mut self, first: &Bytes) {
        if let Some(page) = self.pages.remove(first) {
            self.size -= page.entries.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(last: &'static str, size: usize) -> CachedPage {
        CachedPage { last: last.into(), at: 5, count: 2, entries: vec![0; size].into() }
    }

    #[test]
    fn a_change_between_its_ends_ends_a_page() {
        let mut pages = RangeCache::default();
        pages.insert("b".into(), page("d", 10));
        pages.insert("f".into(), page("h", 10));
        for outside in ["a", "e", "i"] {
            pages.invalidate(outside.as_bytes());
        }
        assert!(pages.get(b"b", 5).is_some() && pages.get(b"f", 9).is_some());
        assert!(pages.get(b"b", 4).is_none() && pages.get(b"c", 5).is_none());
        for inside in ["f", "g", "h"] {
            pages.invalidate(inside.as_bytes());
            assert!(pages.get(b"f", 5).is_none(), "{inside}");
            pages.insert("f".into(), page("h", 10));
        }
        // A page that overlaps others replaces them.
        pages.insert("c".into(), page("g", 10));
        assert!(pages.get(b"b", 5).is_none() && pages.get(b"f", 5).is_none());
        assert_eq!((pages.pages.len(), pages.size), (1, 10));
    }

    #[test]
    fn they_take_no_more_than_they_may() {
        let mut pages = RangeCache::default();
        for first in ["a", "b"] {
            assert!(pages.has_room());
            pages.insert(first.into(), page(first, ALL / 2));
        }
        let refused = (0..=REFUSED).take_while(|_| !pages.has_room()).count();
        assert_eq!((refused, pages.size), (REFUSED / PAGE, 0), "they have had their time");
    }
}
