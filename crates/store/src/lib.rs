//! Durable storage with an in-memory watch cache.
//!
//! ```text
//!  write ──► Engine ──append──► Log              preconditions are checked, revisions assigned, durable
//!              └─────apply────► WatchCacheSet    per resource: an index and a ring of recent events
//!  list  ◄── CacheSnapshot, a root of the index  immutable; never blocks writers
//!  watch ◄── Cursor, a position in the ring      skips events of other topics
//! ```
//!
//! This crate knows neither kinds nor encodings: an engine stores opaque bytes, and a watch cache holds values of any
//! type.

pub mod archive;
pub mod bolt;
mod compressed;
mod cursor;
mod disk;
mod disk_log;
mod embedded;
mod engine;
pub mod engine_suite;
pub mod etcd;
pub mod etcd_server;
mod keys;
mod log;
mod parallel;
mod progress;
mod provenance;
mod resource;
mod ring;
mod split;
mod watch_cache_set;
pub mod wire;

pub use self::{
    compressed::Found,
    cursor::Cursor,
    disk::{Directory, Disk, FailAction, Failpoints, File, POINTS, SimulatedDisk},
    disk_log::{DiskLog, DiskLogOptions},
    embedded::EmbeddedEngine,
    engine::{Engine, KeyMetadata, Provenance, Record, Replay, ReplaySink, Write, WriteFuture},
    etcd::{DialFuture, Dialer, EtcdConfig, EtcdEngine},
    keys::{Checkpoint, KeyState, KeyStates, LastDeletions},
    log::{AppendError, Log, LogBase, MemoryLog},
    provenance::Notes,
    resource::{CacheSnapshot, WatchCache},
    ring::{Event, RingLimits, Topic},
    split::RoutedEngine,
    watch_cache_set::{CacheCodec, Held, WatchCacheSet},
};

/// A version of an object, from one write to the next. The object does not contain its revision, which is known only
/// once the write is sequenced; stored bytes have none. It is set when the object is encoded for a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<V> {
    pub revision: u64,
    pub object: V,
}

/// Errors of the store. Each comment says what the caller can do.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum Error {
    /// Another write came first: read again and retry.
    #[error("the key is at revision {have}, not {want}")]
    Conflict { want: u64, have: u64 },
    /// The revision is compacted: list again.
    #[error("revisions before {floor} have been compacted")]
    Compacted { floor: u64 },
    /// Retry later, or at another server.
    #[error("revision {revision} is in the future")]
    FutureRevision { revision: u64 },
    /// The resource is served anew: start a new watch.
    #[error("the resource is no longer served in this form")]
    Closed,
    /// Delete something, or enlarge the disk; then writes succeed again.
    #[error("the disk is full: only deletions are taken")]
    Full,
    /// Split the write.
    #[error("a write of {bytes} bytes is too large; at most {limit} are taken")]
    TooLarge { bytes: usize, limit: usize },
    /// Retry. A write may have taken effect all the same.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// Wait, or send further requests to another server. Writes are still taken.
    #[error("the disk is slow: writes have been waiting for it for more than {seconds} s")]
    Slow { seconds: u64 },
    /// The log has failed and its content is unknown: restart the process.
    #[error("the log takes no more writes")]
    Broken,
    /// Delete the key by its revision, or overwrite it.
    #[error("{key} cannot be decoded: {why}")]
    Corrupt { key: String, revision: u64, why: String },
    /// Restore a snapshot: acknowledged writes cannot be read any more.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: &'static str },
    /// Stop the other process first.
    #[error("another process uses this directory")]
    InUse,
    /// Check the disk.
    #[error("cannot {0}")]
    Disk(String),
}
