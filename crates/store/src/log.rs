//! The `Log` trait: where the embedded engine stores its records.

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
};

use crate::{Checkpoint, Error, LastDeletions, Provenance, Record};

/// The start of a log: what its snapshot covers, and data that its records do not contain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogBase {
    /// Records up to this revision are current values only; after it all changes are present.
    pub floor: u64,
    /// The last revision covered, which may be later than that of any record.
    pub end_revision: u64,
    pub removals: LastDeletions,
    pub notes: Vec<Provenance>,
}

/// Why a batch was not appended.
#[derive(Debug)]
pub enum AppendError {
    /// The disk is full, and nothing of the batch was written.
    Full,
    /// It is unknown what was written.
    Broken(io::Error),
}

/// An append-only log of records, with snapshots.
pub trait Log: fmt::Debug + Send + Sync {
    /// Appends a batch and returns when all of it is durable. Never called concurrently. A batch of deletions may use
    /// the space reserved for a full disk.
    fn append(&self, batch: &[Record]) -> Result<(), AppendError>;

    /// Reads all records after a revision, oldest first.
    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error>;

    /// Reads all records into a vector.
    fn load(&self) -> Result<(LogBase, Vec<Record>), Error> {
        let mut records = Vec::new();
        let base = self.read(0, &mut |record| records.push(record))?;
        Ok((base, records))
    }

    /// Reads the records that the state at a revision follows from: the nearest snapshot before it, and the changes
    /// since; possibly more.
    fn read_until(&self, _revision: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        self.read(0, take)
    }

    /// Prefixes of the keys whose renewal may use the space reserved for a full disk.
    fn essential_prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether `append` waits for a device. Then the engine calls it on a separate thread.
    fn is_blocking(&self) -> bool;

    /// Whether the log has grown enough for a new snapshot.
    fn needs_compaction(&self) -> bool;

    /// Starts a snapshot with `image`, which describes exactly the state after the last append. The snapshot takes
    /// effect once it is durable. Called only if `needs_compaction` returned true.
    fn compact(&self, image: Checkpoint);
}

/// A log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog(Mutex<Vec<Record>>);

impl Log for MemoryLog {
    fn append(&self, batch: &[Record]) -> Result<(), AppendError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(batch);
        Ok(())
    }

    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = records.partition_point(|record| record.revision <= after);
        records[from..].iter().cloned().for_each(take);
        Ok(LogBase::default())
    }

    fn is_blocking(&self) -> bool {
        false
    }

    fn needs_compaction(&self) -> bool {
        false
    }

    fn compact(&self, _: Checkpoint) {}
}
