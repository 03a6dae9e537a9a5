//! What keeps the bytes. Embedded here; etcd is another.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use object::Text;

use crate::{Error, WatchCache};

/// A change that somebody asks for.
#[derive(Debug)]
pub struct Write<V> {
    pub key: Text,
    /// The revision that the key must still be at; 0: absent.
    pub expected_revision: u64,
    /// The bytes to keep, and the value that they mean; `None` deletes. The engine
    /// carries the value to the mirror unread, so that nobody decodes his own write.
    pub put: Option<(Bytes, V)>,
    /// Deleted by the engine itself when this has passed, unless it is written again.
    pub ttl: Option<Duration>,
    /// Who wrote it, and why: kept beside the record, and not read here.
    pub provenance: Option<Bytes>,
}

impl<V> Write<V> {
    pub fn put(key: impl Into<Text>, expect: u64, bytes: Bytes, value: V) -> Self {
        let put = Some((bytes, value));
        Self { key: key.into(), expected_revision: expect, put, ttl: None, provenance: None }
    }

    pub fn delete(key: impl Into<Text>, expect: u64) -> Self {
        Self { key: key.into(), expected_revision: expect, put: None, ttl: None, provenance: None }
    }

    #[must_use]
    pub fn with_ttl(self, ttl: Option<Duration>) -> Self {
        Self { ttl, ..self }
    }

    #[must_use]
    pub fn with_note(self, note: Option<Bytes>) -> Self {
        Self { provenance: note, ..self }
    }
}

/// A change that has been decided: to replay it takes no clock and no condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub revision: u64,
    pub key: Text,
    /// `None`: deleted.
    pub bytes: Option<Bytes>,
    /// When it will be deleted, in seconds since 1970. It stays until a record says so.
    pub expires: Option<i64>,
    pub note: Option<Bytes>,
    pub lineage: KeyMetadata,
}

/// Keys that begin so are the engine's own: no client's key does.
pub(crate) const INTERNAL_KEY_PREFIX: char = '\u{100}';

/// By what nodes show that they live. If a full disk kept it from being renewed, all of
/// them would be given up, and with them what runs there.
const LEASE_PREFIX: &str = "/registry/leases/";

impl Record {
    /// Whether it may use what is held back for a full disk: it makes room, renews a
    /// lease, or is the engine's own.
    pub(crate) fn may_use_reserve(&self) -> bool {
        let renews = self.lineage.version > 1 && self.key.starts_with(LEASE_PREFIX);
        self.bytes.is_none() || renews || self.key.starts_with(INTERNAL_KEY_PREFIX)
    }
}

/// What a record is in the words of etcd, where a revision may be of several records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyMetadata {
    pub mod_revision: u64,
    /// The revision of the first write since the key was last absent.
    pub create_revision: u64,
    /// How many writes there have been since.
    pub version: u64,
    /// What it ends with; 0: nothing.
    pub lease: i64,
}

impl KeyMetadata {
    /// That of a key which was absent before.
    pub fn new(revision: u64) -> Self {
        Self { mod_revision: revision, create_revision: revision, version: 1, lease: 0 }
    }

    /// That of a deletion.
    pub fn tombstone(revision: u64) -> Self {
        Self { mod_revision: revision, ..Self::default() }
    }

    /// That of the next write.
    #[must_use]
    pub fn next(self, revision: u64) -> Self {
        Self { mod_revision: revision, version: self.version + 1, ..self }
    }
}

/// Where an empty engine is. Not 0: whoever lists nothing watches from there, and to
/// clients 0 means any.
pub(crate) const INITIAL_REVISION: u64 = 1;

/// What came with a write, for whoever asks later.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    pub revision: u64,
    pub key: Text,
    pub note: Bytes,
}

/// What an engine knows of the keys under a prefix.
#[derive(Debug)]
pub struct Replay<'a> {
    /// Nothing that happened up to here is among `events`.
    pub floor: u64,
    /// What there was at the floor, in order of keys where the engine can.
    pub state: Vec<&'a Record>,
    /// What happened since, oldest first.
    pub events: Vec<&'a Record>,
    /// How far this goes: nothing up to here is missing.
    pub end_revision: u64,
    /// When this was, in seconds since 1970.
    pub now: i64,
}

/// Who is told what an engine knows: it is lent, since it may be much.
pub type ReplaySink<'a> = dyn FnMut(Replay<'_>) -> Result<(), Error> + 'a;

pub type WriteFuture<'a> = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>>;

/// Keys, opaque bytes and revisions.
pub trait Engine<V>: fmt::Debug + Send + Sync {
    /// Writes, and gives the revision once the write is durable and mirrored.
    /// Dropping the future does not take the write back.
    fn write(&self, write: Write<V>) -> WriteFuture<'_>;

    /// What is known of the keys under `prefix`: what happened, newest first, as far as it
    /// takes no more than `room`, and what there was before that.
    fn replay(&self, prefix: &str, room: usize, take: &mut ReplaySink<'_>) -> Result<(), Error>;

    /// What happened under `prefix` after a revision that a replay has reached.
    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error>;

    /// What there was under `prefix` at a revision, back to where the engine remembers.
    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error>;

    /// The resource is filled up to a revision, and mirrored from now on. An engine that
    /// others write to as well shows it from here what happens.
    fn start_watch(&self, _prefix: &str, _after: u64, _resource: &Arc<WatchCache<V>>) {}

    /// Whether others write as well: then each resource is complete up to a revision of
    /// its own, and who must have the newest asks for it.
    fn has_external_writers(&self) -> bool {
        false
    }

    /// The newest revision of where the keys under `prefix` are, also of what others wrote.
    fn latest_revision(&self, _prefix: &str) -> WriteFuture<'_> {
        let durable = self.durable_revision();
        Box::pin(async move { Ok(durable) })
    }

    /// The newest durable revision.
    fn durable_revision(&self) -> u64;

    /// Whether writes are taken at all; the error says why not.
    fn health(&self) -> Result<(), Error>;

    /// Whether it answers soon enough for more to be asked of it.
    fn readiness(&self) -> Result<(), Error> {
        self.health()
    }

    /// How many bytes it keeps, where that is known.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Keys that somebody has made anew, and that the engine may use instead of its own, so that
    /// each is in memory once.
    fn share_keys(&self, _keys: &[Arc<str>]) {}

    /// The notes of the newest writes, oldest first, from behind a revision.
    fn provenance_after(&self, after: u64) -> Vec<Provenance>;
}
