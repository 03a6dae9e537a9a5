//! The `Engine` trait: durable storage of keys and bytes with revisions. It has two implementations, `EmbeddedEngine`
//! and `EtcdEngine`.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use object::Text;

use crate::{Error, WatchCache};

/// A write request.
#[derive(Debug)]
pub struct Write<V> {
    pub key: Text,
    /// Precondition: the current revision of the key; 0 if it must not exist.
    pub expected_revision: u64,
    /// The encoded bytes and the decoded value; `None` deletes the key. The engine passes the value on to the watch
    /// cache, so that it need not be decoded again.
    pub put: Option<(Bytes, V)>,
    /// After this time the engine deletes the key, unless it is written again.
    pub ttl: Option<Duration>,
    /// Provenance of the write (who and why). It is stored with the record and not interpreted here.
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

/// A sequenced change. Replaying it needs neither a clock nor a precondition.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub revision: u64,
    pub key: Text,
    /// `None` for a deletion.
    pub bytes: Option<Bytes>,
    /// Expiry time in seconds since 1970. The key stays until a deletion is recorded.
    pub expires: Option<i64>,
    pub note: Option<Bytes>,
    pub lineage: KeyMetadata,
}

/// Prefix of the engine's internal keys. No client's key begins with it.
pub(crate) const INTERNAL_KEY_PREFIX: char = '\u{100}';

impl Record {
    /// Whether the record may use the space reserved for a full disk: it deletes a key, renews one below an essential
    /// prefix, or is internal to the engine.
    pub(crate) fn may_use_reserve(&self, essential_prefixes: &[&str]) -> bool {
        let is_essential = || essential_prefixes.iter().any(|prefix| self.key.starts_with(prefix));
        let renews = self.lineage.version > 1 && is_essential();
        self.bytes.is_none() || renews || self.key.starts_with(INTERNAL_KEY_PREFIX)
    }
}

/// The metadata that etcd keeps for a key. In etcd, several records may share a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KeyMetadata {
    pub mod_revision: u64,
    /// The revision of the first write since the key was last absent.
    pub create_revision: u64,
    /// The number of writes since then.
    pub version: u64,
    /// The lease that the key is attached to; 0 for none.
    pub lease: i64,
}

impl KeyMetadata {
    /// The metadata of a newly created key.
    pub fn new(revision: u64) -> Self {
        Self { mod_revision: revision, create_revision: revision, version: 1, lease: 0 }
    }

    /// The metadata of a deletion.
    pub fn tombstone(revision: u64) -> Self {
        Self { mod_revision: revision, ..Self::default() }
    }

    /// The metadata of the next write of the same key.
    #[must_use]
    pub fn next(self, revision: u64) -> Self {
        Self { mod_revision: revision, version: self.version + 1, ..self }
    }
}

/// The revision of an empty engine. It is not 0, because a client that lists nothing watches from this revision, and 0
/// means "any" to clients.
pub(crate) const INITIAL_REVISION: u64 = 1;

/// Provenance of one write, for later queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    pub revision: u64,
    pub key: Text,
    pub note: Bytes,
}

/// The records of the keys under a prefix.
#[derive(Debug)]
pub struct Replay<'a> {
    /// `events` contains no event up to this revision.
    pub floor: u64,
    /// The state at the floor, sorted by key if the engine can do so.
    pub state: Vec<&'a Record>,
    /// The events since then, oldest first.
    pub events: Vec<&'a Record>,
    /// The revision up to which `state` and `events` are complete.
    pub end_revision: u64,
    /// The time of the replay in seconds since 1970.
    pub now: i64,
}

/// Callback that receives a replay. The records are borrowed because there may be many.
pub type ReplaySink<'a> = dyn FnMut(Replay<'_>) -> Result<(), Error> + 'a;

pub type WriteFuture<'a> = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>>;

/// A durable store of keys and opaque bytes with revisions.
pub trait Engine<V>: fmt::Debug + Send + Sync {
    /// Writes a key. Resolves to the revision once the write is durable and in the watch cache. Dropping the future
    /// does not cancel the write.
    fn write(&self, write: Write<V>) -> WriteFuture<'_>;

    /// Passes on the records under `prefix`: the newest events that fit into `room` bytes, and the state before them.
    fn replay(&self, prefix: &str, room: usize, take: &mut ReplaySink<'_>) -> Result<(), Error>;

    /// The events under `prefix` after a revision that a replay has reached.
    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error>;

    /// The records under `prefix` as of a revision, unless it has been compacted.
    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error>;

    /// Called when the cache of a resource is filled up to revision `_after`. An engine with external writers watches
    /// from there and applies further events to the cache.
    fn start_watch(&self, _prefix: &str, _after: u64, _resource: &Arc<WatchCache<V>>) {}

    /// Whether other processes write to the same store. Then each cache is complete up to its own revision, and a
    /// consistent read must ask for the latest one.
    fn has_external_writers(&self) -> bool {
        false
    }

    /// The latest revision of the keys under `prefix`, including writes of other processes.
    fn latest_revision(&self, _prefix: &str) -> WriteFuture<'_> {
        let durable = self.durable_revision();
        Box::pin(async move { Ok(durable) })
    }

    /// The newest durable revision.
    fn durable_revision(&self) -> u64;

    /// Whether writes are accepted; otherwise the error says why not.
    fn health(&self) -> Result<(), Error>;

    /// Whether the store responds fast enough to be sent further requests.
    fn readiness(&self) -> Result<(), Error> {
        self.health()
    }

    /// The size of the stored data in bytes, if known.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Passes on key strings that the caller has allocated, which the engine may use in place of its own copies to save
    /// memory.
    fn share_keys(&self, _keys: &[Arc<str>]) {}

    /// The provenance of the recent writes after a revision, oldest first.
    fn provenance_after(&self, after: u64) -> Vec<Provenance>;
}
