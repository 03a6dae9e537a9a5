//! Where an embedded engine puts its records.

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
};

use crate::{Checkpoint, Error, LastDeletions, Provenance, Record};

/// What a log begins with: a state, and what the records in it cannot tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogBase {
    /// Records up to here are a state; those after it are all that happened.
    pub floor: u64,
    /// How far it reaches, though no record may tell.
    pub end_revision: u64,
    pub removals: LastDeletions,
    pub notes: Vec<Provenance>,
}

/// Why a batch is not in the log.
#[derive(Debug)]
pub enum AppendError {
    /// There is no room, and nothing of the batch was kept.
    Full,
    /// What was kept is unknown.
    Broken(io::Error),
}

pub trait Log: fmt::Debug + Send + Sync {
    /// Returns when the whole batch is durable. Never called by two at once. A
    /// batch of deletions alone may use what is held back for a full disk.
    fn append(&self, batch: &[Record]) -> Result<(), AppendError>;

    /// Gives everything it holds from behind a revision, oldest first.
    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error>;

    /// Everything it holds, handed over as a whole: for who opens it.
    fn load(&self) -> Result<(LogBase, Vec<Record>), Error> {
        let mut records = Vec::new();
        let base = self.read(0, &mut |record| records.push(record))?;
        Ok((base, records))
    }

    /// Gives what the state at a revision follows from: the nearest state before it, and
    /// what happened since; maybe more.
    fn read_until(&self, _revision: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        self.read(0, take)
    }

    /// Whether `append` waits for a device. Then the engine gives it a thread.
    fn is_blocking(&self) -> bool;

    /// Whether it has grown so much that it wants to begin with a newer state.
    fn needs_compaction(&self) -> bool;

    /// Begins with `image` from now on, which is exactly as of the last append, as
    /// soon as that is durable in its turn. Called only when it is due.
    fn compact(&self, image: Checkpoint);
}

/// A log that lives as long as somebody holds it.
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
