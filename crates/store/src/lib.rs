//! Durable writes, and everything that is read from memory.
//!
//! ```text
//!  write ──► Engine ──append──► Log              judged, in one order, durable
//!              └─────apply────► Mirror           per resource: an index and a ring of events
//!  list  ◄── Pinned, a root of the index         never blocks a writer
//!  watch ◄── Cursor, a position in the ring      jumps from one of its events to the next
//! ```
//!
//! `store` knows neither kinds nor encodings: an engine keeps opaque bytes, a
//! mirror keeps whatever value its owner wants resident.

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

/// An object as it was from one write to the next. The object does not contain
/// its revision: that is known only once the write is ordered, and stored bytes
/// have none. Whoever shows the object to a client puts it on.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<V> {
    pub revision: u64,
    pub object: V,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum Error {
    /// Somebody was faster: read again.
    #[error("the key is at revision {have}, not {want}")]
    Conflict { want: u64, have: u64 },
    /// List again.
    #[error("nothing is known from before revision {floor}")]
    Compacted { floor: u64 },
    /// Ask again, or another server.
    #[error("revision {revision} is still to come")]
    FutureRevision { revision: u64 },
    /// The resource is served anew: watch again.
    #[error("the resource is no longer served in this form")]
    Closed,
    /// Delete something, or give the disk more room; then it goes on by itself.
    #[error("the disk is full: only deletions are taken")]
    Full,
    /// Split it.
    #[error("a write of {bytes} bytes is too large; at most {limit} are taken")]
    TooLarge { bytes: usize, limit: usize },
    /// Ask again. A write may have been done all the same.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The log has failed, and what it holds is unknown: restart.
    #[error("the log takes no more writes")]
    Broken,
    /// Delete the key by its revision, or write it anew.
    #[error("{key} cannot be decoded: {why}")]
    Corrupt { key: String, revision: u64, why: String },
    /// Restore a snapshot: what was acknowledged cannot be read any more.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged { file: String, offset: u64, what: &'static str },
    /// Stop the other process first.
    #[error("another process uses this folder")]
    InUse,
    /// See to the disk.
    #[error("cannot {0}")]
    Disk(String),
}
