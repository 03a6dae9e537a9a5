//! Every key with its versions back to the compaction floor. Pure: no clock, no disk.
//!
//! ```text
//!  revision      4      5      6        7              floor 5: nothing before can be asked for;
//!  a             4 ─────────── 6                       "a" at 5 is still what it was at 4
//!  b                    5 ───────────── 7 deleted      of "b" the deletion is kept while 7 > floor
//! ```
//!
//! Versions past the durable revision are there too, and are not shown: they are
//! what the next transaction is judged by, and can be taken back.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::range::Range;
use crate::{
    Lineage,
    wire::{KeyValue, signed},
};

/// A key from one write to the next.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Where it is in the log.
    pub(super) position: u64,
    /// Its place among the changes of its revision.
    pub(super) sub: u32,
    pub(super) lineage: Lineage,
    /// `None`: deleted.
    pub(super) value: Option<Bytes>,
}

/// That something happened, in order.
#[derive(Clone, Debug)]
pub(super) struct Change {
    position: u64,
    pub(super) revision: u64,
    pub(super) sub: u32,
    pub(super) key: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Keyspace {
    keys: BTreeMap<Bytes, Vec<Version>>,
    changes: VecDeque<Change>,
    /// Keys that are there, and the bytes of all versions.
    pub(super) count: usize,
    pub(super) bytes: u64,
    pub(super) floor: u64,
    /// Where in the log that is.
    pub(super) floor_position: u64,
}

impl Keyspace {
    /// The version of a key that can be seen at a revision.
    pub(super) fn at(&self, key: &[u8], revision: u64) -> Option<&Version> {
        seen(self.keys.get(key)?, revision)
    }

    /// The keys of a range as of a revision, in order.
    pub(super) fn range<'a>(
        &'a self,
        range: &'a Range,
        revision: u64,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Version)> {
        let under = self.keys.range::<[u8], _>(range.bounds());
        under.filter_map(move |(key, versions)| Some((key, seen(versions, revision)?)))
    }

    /// How many keys a range has.
    pub(super) fn count(&self, range: &Range, revision: u64) -> usize {
        self.range(range, revision).count()
    }

    /// Takes in a version, the newest of all. Gives the one that it replaces.
    pub(super) fn push(&mut self, key: &Bytes, version: Version) -> Option<Version> {
        let size = weight(key, &version);
        let there = version.value.is_some();
        let change = change(key, &version);
        let versions = match self.keys.get_mut(key) {
            Some(versions) => versions,
            None => self.keys.entry(key.clone()).or_default(),
        };
        let before = versions.last().filter(|before| before.value.is_some()).cloned();
        versions.push(version);
        self.changes.push_back(change);
        self.bytes += size;
        self.count = (self.count + usize::from(there)) - usize::from(before.is_some());
        before
    }

    /// Takes back the newest version of all. Gives its key, itself, and what is seen again.
    pub(super) fn pop(&mut self) -> Option<(Bytes, Version, Option<Version>)> {
        let Change { key, .. } = self.changes.pop_back()?;
        let versions = self.keys.get_mut(&key)?;
        let gone = versions.pop()?;
        let back = versions.last().filter(|back| back.value.is_some()).cloned();
        if versions.is_empty() {
            self.keys.remove(&key);
        }
        self.bytes -= weight(&key, &gone);
        self.count = (self.count + usize::from(back.is_some())) - usize::from(gone.value.is_some());
        Some((key, gone, back))
    }

    /// Forgets what only revisions before `floor` can see.
    pub(super) fn compact(&mut self, floor: u64) {
        let mut touched = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(change) = self.changes.pop_front_if(|change| change.revision <= floor) {
            touched.push(change.key.clone());
            self.floor_position = self.floor_position.max(change.position);
            if change.revision == floor {
                kept.push_back(change); // a watch may begin there
            }
        }
        kept.append(&mut self.changes);
        self.changes = kept;
        self.floor = floor;
        touched.sort_unstable();
        touched.dedup();
        for key in &touched {
            self.forget(key, floor);
        }
    }

    fn forget(&mut self, key: &Bytes, floor: u64) {
        let Some(versions) = self.keys.get_mut(key) else { return };
        let mut from = versions.partition_point(|v| v.lineage.revision <= floor).saturating_sub(1);
        if versions[from].value.is_none() && versions[from].lineage.revision < floor {
            from += 1;
        }
        self.bytes -= versions.drain(..from).map(|gone| weight(key, &gone)).sum::<u64>();
        if versions.is_empty() {
            self.keys.remove(key);
        } else {
            versions.shrink_to_fit();
        }
    }

    /// What happened from a revision to another, both included.
    pub(super) fn changes(&self, from: u64, to: u64) -> impl Iterator<Item = &Change> {
        let start = self.changes.partition_point(|change| change.revision < from);
        self.changes.range(start..).take_while(move |change| change.revision <= to)
    }

    /// The changes of one key.
    pub(super) fn changes_of(&self, key: &Bytes, from: u64, to: u64) -> Vec<Change> {
        let versions = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let start = versions.partition_point(|version| version.lineage.revision < from);
        let within = versions[start..].iter().take_while(|v| v.lineage.revision <= to);
        within.map(|version| change(key, version)).collect()
    }

    /// The version that a change made, and the one before it.
    pub(super) fn made(&self, change: &Change) -> Option<(&Version, Option<&Version>)> {
        let versions = self.keys.get(&change.key)?;
        let is = |v: &Version| (v.lineage.revision, v.sub) < (change.revision, change.sub);
        let nth = versions.partition_point(is);
        let before = nth.checked_sub(1).map(|nth| &versions[nth]);
        Some((versions.get(nth)?, before.filter(|before| before.value.is_some())))
    }

    /// Every version, in order of revisions, up to one.
    pub(super) fn versions(&self, to: u64) -> Vec<(&Bytes, &Version)> {
        let all =
            self.keys.iter().flat_map(|(key, versions)| versions.iter().map(move |v| (key, v)));
        let mut all: Vec<_> = all.filter(|(_, version)| version.lineage.revision <= to).collect();
        all.sort_unstable_by_key(|(_, version)| (version.lineage.revision, version.sub));
        all
    }
}

impl Version {
    /// As clients see it; a deletion is a key and a revision.
    pub(super) fn shown(&self, key: &Bytes) -> KeyValue {
        let Lineage { revision, created, version, lease } = self.lineage;
        let (mod_revision, create_revision) = (signed(revision), signed(created));
        let (key, version, value) = (key.clone(), signed(version), self.value.clone());
        KeyValue {
            key,
            create_revision,
            mod_revision,
            version,
            value: value.unwrap_or_default(),
            lease,
        }
    }
}

fn change(key: &Bytes, version: &Version) -> Change {
    let Version { position, sub, lineage, .. } = *version;
    Change { position, revision: lineage.revision, sub, key: key.clone() }
}

fn seen(versions: &[Version], revision: u64) -> Option<&Version> {
    let nth = match versions.last() {
        Some(last) if last.lineage.revision <= revision => versions.len(),
        _ => versions.partition_point(|version| version.lineage.revision <= revision),
    };
    versions.get(nth.checked_sub(1)?).filter(|version| version.value.is_some())
}

fn weight(key: &Bytes, version: &Version) -> u64 {
    (key.len() + version.value.as_ref().map_or(0, Bytes::len) + size_of::<Version>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(keys: &mut Keyspace, key: &'static str, revision: u64, value: Option<&'static str>) {
        let lineage = Lineage::new(revision);
        let version =
            Version { position: revision, sub: 0, lineage, value: value.map(Bytes::from) };
        keys.push(&key.into(), version);
    }

    fn at(keys: &Keyspace, revision: u64) -> Vec<(Bytes, Bytes)> {
        let all = Range::new(Bytes::from_static(&[0]), Bytes::from_static(&[0]));
        let all = keys.range(&all, revision);
        all.map(|(key, version)| (key.clone(), version.value.clone().unwrap())).collect()
    }

    #[test]
    fn every_revision_down_to_the_floor_is_exact() {
        let mut keys = Keyspace::default();
        put(&mut keys, "a", 2, Some("1"));
        put(&mut keys, "b", 3, Some("1"));
        put(&mut keys, "a", 4, Some("2"));
        put(&mut keys, "b", 5, None);
        put(&mut keys, "c", 6, Some("1"));
        assert_eq!(at(&keys, 3), [("a".into(), "1".into()), ("b".into(), "1".into())]);
        let states: Vec<_> = (4..=6).map(|revision| at(&keys, revision)).collect();
        keys.compact(4);
        assert_eq!((4..=6).map(|revision| at(&keys, revision)).collect::<Vec<_>>(), states);
        assert_eq!(keys.changes(4, 6).count(), 3);
        keys.compact(6);
        assert_eq!((at(&keys, 6), keys.count, keys.floor_position), (states[2].clone(), 2, 6));
        assert!(!keys.keys.contains_key(&b"b"[..]), "nothing is left of what is gone");
    }

    #[test]
    fn what_was_not_durable_is_taken_back() {
        let mut keys = Keyspace::default();
        put(&mut keys, "a", 2, Some("1"));
        let (before, bytes) = (at(&keys, 9), keys.bytes);
        put(&mut keys, "a", 3, None);
        put(&mut keys, "b", 4, Some("1"));
        assert_eq!(
            keys.pop().map(|(key, _, back)| (key, back.is_some())),
            Some(("b".into(), false))
        );
        assert_eq!(
            keys.pop().map(|(key, _, back)| (key, back.is_some())),
            Some(("a".into(), true))
        );
        assert_eq!((at(&keys, 9), keys.bytes, keys.count), (before, bytes, 1));
    }
}
