//! The multi-version index: every key with its versions back to the compaction revision. Pure: no clock, no disk.
//!
//! ```text
//!  revision      4      5      6        7              compacted at 5: earlier revisions cannot be read;
//!  a             4 ─────────── 6                       "a" at 5 still has the value written at 4
//!  b                    5 ───────────── 7 deleted      the deletion of "b" is kept while 7 > compact revision
//! ```
//!
//! Versions after the durable revision are included but hidden from readers: the next transaction is checked against
//! them, and they can be rolled back.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::{
    pages::{CachedPage, PAGE, RangeCache},
    range::Range,
};
use crate::{
    KeyMetadata,
    wire::{KeyValue, to_i64},
};

/// The state of a key from one write to the next.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Position in the log.
    pub(super) position: u64,
    /// Position among the changes of its revision.
    pub(super) sub: u32,
    pub(super) lineage: KeyMetadata,
    /// `None` for a deletion.
    pub(super) value: Option<Bytes>,
    /// The `KeyValue` message, encoded once as an entry of a range response; `value` is a slice of it.
    pub(super) encoded: Bytes,
}

/// A change of a key, in order of revisions.
#[derive(Clone, Debug)]
pub(super) struct Change {
    position: u64,
    pub(super) revision: u64,
    pub(super) sub: u32,
    pub(super) key: Bytes,
}

/// All keys with their versions.
#[derive(Debug, Default)]
pub(super) struct Keyspace {
    keys: BTreeMap<Bytes, Vec<Version>>,
    changes: VecDeque<Change>,
    pages: RangeCache,
    /// Number of existing keys, and total size of all versions in bytes.
    pub(super) count: usize,
    pub(super) bytes: u64,
    pub(super) compact_revision: u64,
    /// Position in the log of the compaction revision.
    pub(super) floor_position: u64,
}

impl Keyspace {
    /// The version of a key that is visible at a revision.
    pub(super) fn at(&self, key: &[u8], revision: u64) -> Option<&Version> {
        seen(self.keys.get(key)?, revision)
    }

    /// The keys of a range as of a revision, sorted.
    pub(super) fn range<'a>(
        &'a self,
        range: &Range,
        revision: u64,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Version)> + use<'a> {
        let under = self.keys.range::<[u8], _>(range.bounds());
        under.filter_map(move |(key, versions)| Some((key, seen(versions, revision)?)))
    }

    /// All encoded entries of a range as of the newest durable revision, in as few pieces as possible, and their
    /// number.
    pub(super) fn entries(&mut self, range: &Range, now: u64) -> (Vec<Bytes>, usize) {
        let Self { keys, pages, .. } = self;
        let (mut entries, mut count, mut draft) = (Vec::new(), 0, PageBuilder::default());
        let (from, until) = range.bounds();
        let mut rest = keys.range::<[u8], _>((from, until));
        while let Some((key, versions)) = rest.next() {
            if let Some(page) = pages.get(key, now).filter(|page| range.contains(&page.last)) {
                entries.push(page.entries.clone());
                count += page.count;
                draft = PageBuilder::after(&entries);
                rest = keys.range::<[u8], _>((Bound::Excluded(&*page.last), until));
                continue;
            }
            let settled = versions.last().is_none_or(|last| last.lineage.mod_revision <= now);
            if let Some(version) = seen(versions, now) {
                entries.push(version.encoded.clone());
                count += 1;
                draft.size += version.encoded.len();
            }
            if !settled {
                draft = PageBuilder::after(&entries); // versions that are not durable are not cached in pages
            } else if draft.size >= PAGE && (entries.len() < draft.from + 2 || !pages.has_room()) {
                draft = PageBuilder::after(&entries);
            } else if draft.size >= PAGE {
                let first = draft.first.take().unwrap_or_else(|| key.clone());
                let page = entries[draft.from..].concat();
                let (count, page) = (entries.len() - draft.from, Bytes::from(page));
                entries.truncate(draft.from);
                entries.push(page.clone());
                pages
                    .insert(first, CachedPage { last: key.clone(), at: now, count, entries: page });
                draft = PageBuilder::after(&entries);
            } else if draft.size > 0 {
                draft.first.get_or_insert_with(|| key.clone());
            }
        }
        (entries, count)
    }

    /// The keys that are attached to a lease, with its id.
    pub(super) fn leased(&self) -> impl Iterator<Item = (&Bytes, i64)> {
        let newest = self.keys.iter().filter_map(|(key, versions)| Some((key, versions.last()?)));
        newest.map(|(key, version)| (key, version.lineage.lease)).filter(|(_, lease)| *lease != 0)
    }

    /// The number of keys in a range.
    pub(super) fn count(&self, range: &Range, revision: u64) -> usize {
        self.range(range, revision).count()
    }

    /// Adds the newest version. Returns the one that it replaces.
    pub(super) fn push(&mut self, key: &Bytes, version: Version) -> Option<Version> {
        let size = weight(key, &version);
        self.pages.invalidate(key);
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

    /// Removes the newest version of all keys. Returns its key, the version, and the one that is visible again.
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

    /// Drops the versions that only revisions before `floor` can see.
    pub(super) fn compact(&mut self, floor: u64) {
        let mut touched = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(change) = self.changes.pop_front_if(|change| change.revision <= floor) {
            touched.push(change.key.clone());
            self.floor_position = self.floor_position.max(change.position);
            if change.revision == floor {
                kept.push_back(change); // a watch may start there
            }
        }
        kept.append(&mut self.changes);
        self.changes = kept;
        self.compact_revision = floor;
        touched.sort_unstable();
        touched.dedup();
        for key in &touched {
            self.forget(key, floor);
        }
    }

    fn forget(&mut self, key: &Bytes, floor: u64) {
        let Some(versions) = self.keys.get_mut(key) else { return };
        let mut from =
            versions.partition_point(|v| v.lineage.mod_revision <= floor).saturating_sub(1);
        if versions[from].value.is_none() && versions[from].lineage.mod_revision < floor {
            from += 1;
        }
        self.bytes -= versions.drain(..from).map(|gone| weight(key, &gone)).sum::<u64>();
        if versions.is_empty() {
            self.keys.remove(key);
        } else {
            versions.shrink_to_fit();
        }
    }

    /// The changes between two revisions, both included.
    pub(super) fn changes(&self, from: u64, to: u64) -> impl Iterator<Item = &Change> {
        let start = self.changes.partition_point(|change| change.revision < from);
        self.changes.range(start..).take_while(move |change| change.revision <= to)
    }

    /// The changes of one key between two revisions, both included.
    pub(super) fn changes_of(&self, key: &Bytes, from: u64, to: u64) -> Vec<Change> {
        let versions = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let start = versions.partition_point(|version| version.lineage.mod_revision < from);
        let within = versions[start..].iter().take_while(|v| v.lineage.mod_revision <= to);
        within.map(|version| change(key, version)).collect()
    }

    /// The version that a change created, and the previous one.
    pub(super) fn version_of(&self, change: &Change) -> Option<(&Version, Option<&Version>)> {
        let versions = self.keys.get(&change.key)?;
        let is = |v: &Version| (v.lineage.mod_revision, v.sub) < (change.revision, change.sub);
        let nth = versions.partition_point(is);
        let before = nth.checked_sub(1).map(|nth| &versions[nth]);
        Some((versions.get(nth)?, before.filter(|before| before.value.is_some())))
    }

    /// Every version up to a revision, in order of revisions.
    pub(super) fn versions(&self, to: u64) -> Vec<(&Bytes, &Version)> {
        let all =
            self.keys.iter().flat_map(|(key, versions)| versions.iter().map(move |v| (key, v)));
        let mut all: Vec<_> =
            all.filter(|(_, version)| version.lineage.mod_revision <= to).collect();
        all.sort_unstable_by_key(|(_, version)| (version.lineage.mod_revision, version.sub));
        all
    }
}

impl Version {
    /// Creates a version and encodes it for range responses.
    pub(super) fn new(
        key: &[u8],
        place: (u64, u32),
        lineage: KeyMetadata,
        value: Option<&[u8]>,
    ) -> Self {
        let (position, sub) = place;
        let Some(value) = value else {
            return Self { position, sub, lineage, value: None, encoded: Bytes::new() };
        };
        let encoded = Bytes::from(encode(key, lineage, value));
        let value = encoded.slice(encoded.len() - value.len()..);
        Self { position, sub, lineage, value: Some(value), encoded }
    }

    /// The `KeyValue` message. For a deletion it has only a key and a revision.
    pub(super) fn to_key_value(&self, key: &Bytes) -> KeyValue {
        let KeyMetadata { mod_revision: revision, create_revision: created, version, lease } =
            self.lineage;
        let (mod_revision, create_revision) = (to_i64(revision), to_i64(created));
        let (key, version, value) = (key.clone(), to_i64(version), self.value.clone());
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

/// A page of the range cache that is being built.
#[derive(Default)]
struct PageBuilder {
    first: Option<Bytes>,
    /// Index of its first entry, and size in bytes.
    from: usize,
    size: usize,
}

impl PageBuilder {
    fn after(entries: &[Bytes]) -> Self {
        Self { from: entries.len(), ..Self::default() }
    }
}

/// Encodes a `KeyValue` as an entry of a range response. The order of protobuf fields is free; the value comes last.
fn encode(key: &[u8], lineage: KeyMetadata, value: &[u8]) -> Vec<u8> {
    let KeyMetadata { mod_revision: revision, create_revision: created, version, lease } = lineage;
    let numbers =
        [(0x10, created), (0x18, revision), (0x20, version), (0x30, lease.cast_unsigned())];
    let numbers = numbers.into_iter().filter(|(_, number)| *number != 0);
    let text = |length: usize| 1 + encoded_len_varint(length as u64) + length;
    let value_size = if value.is_empty() { 0 } else { text(value.len()) };
    let size = numbers.clone().map(|(_, number)| 1 + encoded_len_varint(number)).sum::<usize>();
    let size = text(key.len()) + size + value_size;
    let mut out = Vec::with_capacity(text(size));
    out.push(0x12); // kvs
    encode_varint(size as u64, &mut out);
    out.push(0x0a);
    encode_varint(key.len() as u64, &mut out);
    out.extend_from_slice(key);
    for (tag, number) in numbers {
        out.push(tag);
        encode_varint(number, &mut out);
    }
    if !value.is_empty() {
        out.push(0x2a);
        encode_varint(value.len() as u64, &mut out);
        out.extend_from_slice(value);
    }
    out
}

fn change(key: &Bytes, version: &Version) -> Change {
    let Version { position, sub, lineage, .. } = *version;
    Change { position, revision: lineage.mod_revision, sub, key: key.clone() }
}

fn seen(versions: &[Version], revision: u64) -> Option<&Version> {
    let nth = match versions.last() {
        Some(last) if last.lineage.mod_revision <= revision => versions.len(),
        _ => versions.partition_point(|version| version.lineage.mod_revision <= revision),
    };
    versions.get(nth.checked_sub(1)?).filter(|version| version.value.is_some())
}

fn weight(key: &Bytes, version: &Version) -> u64 {
    (key.len() + version.value.as_ref().map_or(0, Bytes::len) + size_of::<Version>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pb::RangeResponse;

    fn put(keys: &mut Keyspace, key: &'static str, revision: u64, value: Option<&'static str>) {
        let lineage = KeyMetadata::new(revision);
        let value = value.map(str::as_bytes);
        let version = Version::new(key.as_bytes(), (revision, 0), lineage, value);
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
    fn what_is_encoded_is_what_is_shown() {
        use prost::Message as _;
        let lineages = [
            KeyMetadata::new(1),
            KeyMetadata {
                mod_revision: u64::MAX >> 1,
                create_revision: 300,
                version: 0,
                lease: -7,
            },
        ];
        for (lineage, value) in lineages.into_iter().zip(["", "value"]) {
            let version = Version::new(b"/k", (1, 0), lineage, Some(value.as_bytes()));
            let shown = version.to_key_value(&"/k".into());
            let range = RangeResponse::decode(version.encoded.clone()).unwrap();
            assert_eq!(shown.value, value.as_bytes());
            assert_eq!(range.kvs, [shown]);
        }
    }

    /// Pages show the current keys after any sequence of writes, rollbacks and deletions.
    #[test]
    fn pages_are_what_their_keys_are() {
        use prost::Message as _;
        let (mut keys, mut durable, mut dice, mut paged) = (Keyspace::default(), 1, 7_u64, 0);
        let mut next = || {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            dice >> 33
        };
        for turn in 0..3_000 {
            let revision = durable + 1;
            let key = Bytes::from(format!("/k/{:03}", next() % 400));
            let value =
                vec![u8::try_from(turn % 251).unwrap(); usize::try_from(next() % 2_000).unwrap()];
            let value = Some(&*value).filter(|_| next() % 5 > 0);
            keys.push(&key, Version::new(&key, (revision, 0), KeyMetadata::new(revision), value));
            let (from, to) = (next() % 400, next() % 500);
            let range = Range::new(format!("/k/{from:03}").into(), format!("/k/{to:03}").into());
            for look in 0..3 {
                let (entries, count) = keys.entries(&range, durable);
                let told = RangeResponse::decode(&*entries.concat()).unwrap().kvs;
                let there: Vec<_> = keys
                    .range(&range, durable)
                    .map(|(key, version)| version.to_key_value(key))
                    .collect();
                assert!(told == there && count == there.len(), "turn {turn}");
                paged += there.len() - entries.len();
                match (look, next() % 4) {
                    (0, 0) => drop(keys.pop()),
                    (0, _) => durable = revision,
                    _ => {}
                }
                if look == 0 && durable < revision {
                    break;
                }
            }
        }
        assert!(paged > 100_000, "{paged} entries were in pages");
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
