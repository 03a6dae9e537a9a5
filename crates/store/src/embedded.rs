//! The embedded storage engine: it needs only a log.
//!
//! A write passes three steps, each in revision order. Its precondition is checked, against pending writes as well; it
//! is appended together with all waiting writes; and it is applied to the watch caches. It cannot be read until its
//! batch is durable.
//!
//! ```text
//!  sequenced          … 7 8 9 | 10 11     pending: collected while the batch is written
//!  batch                7 8 9             one append, one sync
//!  durable, cached    … 6                 visible to readers
//! ```
//!
//! There is no timer: the next batch is whatever has been collected when the previous one ends.

mod commit;
mod loaded_log;
mod writer;

use std::{collections::BTreeMap, fmt, io, sync::Arc, thread::JoinHandle, time::Duration};

use object::Clock;
use tracing::error;

use self::{commit::CommitPipeline, loaded_log::LoadedLog, writer::WriteQueue};
use crate::{
    Engine, Error, Log, MemoryLog, Provenance, Record, ReplaySink, WatchCache, WatchCacheSet,
    Write, WriteFuture,
};

/// A store whose disk takes longer than this for a batch is not ready for further requests.
const SLOW: Duration = Duration::from_secs(1);

/// Engine that stores records in a log and serves reads from memory.
pub struct EmbeddedEngine<V> {
    core: Arc<CommitPipeline<V>>,
    /// `None` if the log does not block: then each writer commits its own write.
    thread: Option<JoinHandle<()>>,
}

impl<V: fmt::Debug + Send + Sync + 'static> EmbeddedEngine<V> {
    /// Opens an engine that continues where `log` ends.
    pub fn open(
        log: Arc<dyn Log>,
        mirror: Arc<WatchCacheSet<V>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Disk(format!("start a thread: {error}"));
        let loaded = Arc::new(LoadedLog::read(&*log, clock.now())?);
        mirror.advance(loaded.through());
        let writer = WriteQueue::load(&loaded).map_err(failed)?;
        let loaded = log.is_blocking().then_some(loaded);
        let core = CommitPipeline::new(log, mirror, clock, writer, loaded);
        let thread = core.log.is_blocking().then(|| core.start()).transpose().map_err(failed)?;
        Ok(Self { core, thread })
    }

    /// An in-memory engine, for tests. It has no thread, and a write completes when it is first polled, so a paused
    /// Tokio clock stays paused.
    pub fn memory(mirror: Arc<WatchCacheSet<V>>, clock: Arc<dyn Clock>) -> Self {
        let log = Arc::new(MemoryLog::default());
        Self::open(log, mirror, clock).expect("an empty log holds nothing wrong")
    }

    /// Deletes expired keys. The engine does this once a second if it has a thread, and otherwise with every write.
    pub fn expire(&self) {
        self.core.commit_pending();
    }
}

impl<V: fmt::Debug + Send + Sync + 'static> Engine<V> for EmbeddedEngine<V> {
    fn write(&self, write: Write<V>) -> WriteFuture<'_> {
        Box::pin(async move {
            let answer = self.core.submit(write)?;
            if self.thread.is_none() {
                self.core.commit_pending();
            }
            answer.await.unwrap_or(Err(Error::Broken))
        })
    }

    fn replay(&self, prefix: &str, room: usize, take: &mut ReplaySink<'_>) -> Result<(), Error> {
        let now = self.core.clock.now();
        if let Some(loaded) = self.core.loaded() {
            return take(loaded.replay(prefix, room, now));
        }
        take(LoadedLog::read_under(&*self.core.log, prefix, now)?.replay(prefix, room, now))
    }

    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        let base = self.core.log.read(revision, &mut |record| {
            if record.revision > revision && record.key.starts_with(prefix) {
                records.push(record);
            }
        })?;
        if base.floor > revision {
            return Err(Error::Compacted { floor: base.floor });
        }
        Ok(records)
    }

    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        let mut state = BTreeMap::new();
        let base = self.core.log.read_until(revision, &mut |record| {
            let counts = record.revision <= revision && record.key.starts_with(prefix);
            if counts && record.bytes.is_some() {
                state.insert(record.key.clone(), record);
            } else if counts {
                state.remove(&record.key);
            }
        })?;
        if revision < base.floor {
            return Err(Error::Compacted { floor: base.floor });
        }
        Ok(state.into_values().collect())
    }

    fn start_watch(&self, prefix: &str, _: u64, _: &Arc<WatchCache<V>>) {
        self.core.writer().serve(prefix);
    }

    fn durable_revision(&self) -> u64 {
        self.core.writer().durable
    }

    fn health(&self) -> Result<(), Error> {
        if self.core.writer().broken { Err(Error::Broken) } else { Ok(()) }
    }

    fn readiness(&self) -> Result<(), Error> {
        self.health()?;
        match self.core.waiting_for_disk() {
            Some(waiting) if waiting > SLOW => Err(Error::Slow { seconds: waiting.as_secs() }),
            _ => Ok(()),
        }
    }

    fn share_keys(&self, keys: &[Arc<str>]) {
        self.core.writer().share_keys(keys);
    }

    fn provenance_after(&self, after: u64) -> Vec<Provenance> {
        self.core.writer().notes(after)
    }
}

impl<V> Drop for EmbeddedEngine<V> {
    /// Commits the writes that have been sequenced.
    fn drop(&mut self) {
        self.core.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("the log's thread has panicked");
        }
    }
}

impl<V> fmt::Debug for EmbeddedEngine<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedded").field(&self.core.log).finish()
    }
}
