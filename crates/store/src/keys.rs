//! The current revision of every key, which the preconditions of writes are checked against.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use imbl::OrdMap;
use object::Text;

use crate::{Error, KeyMetadata, LogBase, Provenance, Record, Write, provenance::Notes};

/// Maximum number of keys that expire in one batch.
const EXPIRE: usize = 1_000;

/// Revision and metadata of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyState {
    pub revision: u64,
    pub expires: Option<i64>,
    pub lineage: KeyMetadata,
}

pub type KeyStates = OrdMap<Arc<str>, KeyState>;

/// The metadata of a snapshot: everything as of one revision except for the values, which are in the log.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub revision: u64,
    /// Every record after this revision is kept.
    pub floor: u64,
    /// The state of the keys at the floor; `None` if it must be read from the log.
    pub heads: Option<KeyStates>,
    pub removals: LastDeletions,
    pub notes: Notes,
}

/// The last deletion under each served prefix. A snapshot does not contain deletions, and without this a rarely changed
/// resource would count as compacted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastDeletions {
    pub by_prefix: BTreeMap<Text, u64>,
    /// The last deletion under none of the prefixes.
    pub rest: u64,
}

impl LastDeletions {
    /// Counts deletions under `prefix` separately from now on.
    pub(crate) fn serve(&mut self, prefix: &str) {
        if !self.by_prefix.contains_key(prefix) {
            let last = self.last(prefix);
            self.by_prefix.insert(prefix.into(), last);
        }
    }

    /// The revision of the last deletion that may have been under `prefix`.
    pub(crate) fn last(&self, prefix: &str) -> u64 {
        if let Some(last) = self.by_prefix.get(prefix) {
            return *last;
        }
        let near = |other: &str| other.starts_with(prefix) || prefix.starts_with(other);
        let near = self.by_prefix.iter().filter(|(other, _)| near(other));
        near.map(|(_, last)| *last).max().unwrap_or_default().max(self.rest)
    }

    fn note(&mut self, key: &str, revision: u64) {
        let mut prefixes = key.rmatch_indices('/').map(|(at, _)| &key[..=at]);
        match prefixes.find(|prefix| self.by_prefix.contains_key(*prefix)) {
            Some(prefix) => self.by_prefix.insert(prefix.into(), revision),
            None => Some(std::mem::replace(&mut self.rest, revision)),
        };
    }
}

/// The keys after all sequenced writes, durable or not.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    heads: KeyStates,
    expiries: BTreeSet<(i64, Arc<str>)>,
    pub(crate) revision: u64,
}

impl KeyIndex {
    /// Builds the index from the last record of each key, sorted by key, as of a revision.
    pub(crate) fn load<'a>(records: impl Iterator<Item = &'a Record>, revision: u64) -> Self {
        let (mut heads, mut expiries) = (KeyStates::new(), BTreeSet::new());
        for record in records.filter(|record| record.bytes.is_some()) {
            let Record { revision, expires, lineage, .. } = *record;
            let key: Arc<str> = record.key.as_str().into();
            expiries.extend(expires.map(|at| (at, key.clone())));
            heads.insert(key, KeyState { revision, expires, lineage });
        }
        Self { heads, expiries, revision }
    }

    /// Checks the precondition of a write and assigns its revision.
    pub(crate) fn sequence<V>(
        &mut self,
        write: Write<V>,
        now: i64,
    ) -> Result<(Record, Option<V>), Error> {
        let head = self.heads.get(&*write.key);
        let have = head.map_or(0, |head| head.revision);
        if have != write.expected_revision || (have == 0 && write.put.is_none()) {
            return Err(Error::Conflict { want: write.expected_revision, have });
        }
        let (bytes, value) = write.put.unzip();
        let ttl = write.ttl.filter(|_| bytes.is_some());
        let expires = ttl.map(|ttl| now.saturating_add(whole_seconds(ttl)));
        let revision = self.revision + 1;
        let lineage = match (head, &bytes) {
            (_, None) => KeyMetadata::tombstone(revision),
            (Some(head), _) => head.lineage.next(revision),
            (None, _) => KeyMetadata::new(revision),
        };
        let record =
            Record { revision, key: write.key, bytes, expires, note: write.provenance, lineage };
        Ok((record, value))
    }

    /// Applies a record. Returns the key's previous state.
    pub(crate) fn apply(&mut self, record: &Record) -> Option<KeyState> {
        self.revision = record.revision;
        let Record { revision, expires, lineage, .. } = *record;
        let head = record.bytes.as_ref().map(|_| KeyState { revision, expires, lineage });
        self.set(&record.key, head)
    }

    /// Undoes the newest record.
    pub(crate) fn undo(&mut self, record: &Record, before: Option<KeyState>) {
        self.revision = record.revision - 1;
        self.set(&record.key, before);
    }

    /// The keys that have expired; the caller deletes them.
    pub(crate) fn expired(&self, now: i64) -> Vec<Text> {
        let due = self.expiries.iter().take_while(|(at, _)| *at <= now);
        due.take(EXPIRE).map(|(_, key)| (&**key).into()).collect()
    }

    pub(crate) fn expires(&self) -> bool {
        !self.expiries.is_empty()
    }

    pub(crate) fn head(&self, key: &str) -> Option<KeyState> {
        self.heads.get(key).copied()
    }

    pub(crate) fn heads(&self) -> KeyStates {
        self.heads.clone()
    }

    /// Replaces an equal key string, so that both share memory.
    pub(crate) fn share(&mut self, key: &Arc<str>) {
        let Some(head) = self.heads.get(key).copied() else { return };
        if let Some(at) = head.expires {
            self.expiries.remove(&(at, key.clone()));
            self.expiries.insert((at, key.clone()));
        }
        self.heads.insert(key.clone(), head);
    }

    fn set(&mut self, key: &str, head: Option<KeyState>) -> Option<KeyState> {
        let (shared, before) = match self.heads.get_key_value(key) {
            Some((shared, before)) => (shared.clone(), Some(*before)),
            None => (Arc::from(key), None),
        };
        if let Some(at) = before.and_then(|before| before.expires) {
            self.expiries.remove(&(at, shared.clone()));
        }
        if let Some(at) = head.and_then(|head| head.expires) {
            self.expiries.insert((at, shared.clone()));
        }
        match head {
            Some(head) => self.heads.insert(shared, head),
            None => self.heads.remove(key),
        };
        before
    }
}

/// Durable information that is not in the key states: last deletions and provenance.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) removals: LastDeletions,
    pub(crate) notes: Notes,
}

impl History {
    pub(crate) fn new(base: LogBase) -> Self {
        let mut this = Self { removals: base.removals, ..Self::default() };
        base.notes.into_iter().for_each(|note| this.notes.push(note));
        this
    }

    pub(crate) fn apply(&mut self, record: &Record) {
        let Record { revision, ref key, ref bytes, ref note, .. } = *record;
        if bytes.is_none() {
            self.removals.note(key, revision);
        }
        if let Some(note) = note.clone() {
            self.notes.push(Provenance { revision, key: key.clone(), note });
        }
    }

    /// The provenance of writes after a revision.
    pub(crate) fn notes(&self, after: u64) -> Vec<Provenance> {
        self.notes.after(after)
    }
}

/// Rounds up, so that a key expires late rather than early.
fn whole_seconds(ttl: std::time::Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX)
}
