//! The commit pipeline: makes a batch durable, applies it to the watch caches, and answers its writers.

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bytes::Bytes;
use object::Clock;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::{
    loaded_log::LoadedLog,
    writer::{Batch, WriteQueue},
};
use crate::{AppendError, Error, KeyStates, Log, Record, WatchCacheSet, Write};

/// Maximum size of one write in bytes.
const LARGEST: usize = 8 << 20;

/// Interval of the expiry check, while any key has a TTL.
const TICK: Duration = Duration::from_secs(1);

/// The state that writers and the commit thread share.
pub(super) struct CommitPipeline<V> {
    pub(super) log: Arc<dyn Log>,
    pub(super) clock: Arc<dyn Clock>,
    mirror: Arc<WatchCacheSet<V>>,
    writer: Mutex<WriteQueue<V>>,
    /// Notified when there is something to commit.
    work: Condvar,
    /// Held while committing.
    turn: Mutex<()>,
    /// Since when the log has been writing and syncing a batch.
    appending: Mutex<Option<Instant>>,
    /// The records loaded from the log, until all resources are served.
    loaded: Mutex<Option<Arc<LoadedLog>>>,
}

impl<V> CommitPipeline<V> {
    pub(super) fn new(
        log: Arc<dyn Log>,
        mirror: Arc<WatchCacheSet<V>>,
        clock: Arc<dyn Clock>,
        writer: WriteQueue<V>,
        loaded: Option<Arc<LoadedLog>>,
    ) -> Arc<Self> {
        let (writer, work, turn) = (Mutex::new(writer), Condvar::new(), Mutex::default());
        let (loaded, appending) = (Mutex::new(loaded), Mutex::default());
        Arc::new(Self { log, clock, mirror, writer, work, turn, appending, loaded })
    }

    /// Locks the write queue. A panic while it is locked aborts the process: the log has the truth.
    pub(super) fn writer(&self) -> MutexGuard<'_, WriteQueue<V>> {
        let mut writer = panics::lock_or_abort(&self.writer);
        writer.ready();
        writer
    }

    /// The records read on opening, while they are still worth their memory.
    pub(super) fn loaded(&self) -> Option<Arc<LoadedLog>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stale) = loaded.take_if(|loaded| loaded.stale(self.clock.now())) {
            // Freeing a million records takes a while, and no caller should wait for that.
            let _ = thread::Builder::new().spawn(|| drop(stale)); // if no thread can be started, it is dropped here
        }
        loaded.clone()
    }

    /// How long the current batch has been waiting for the disk; `None` if no batch does.
    pub(super) fn waiting_for_disk(&self) -> Option<Duration> {
        self.appending.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    /// Appends a batch to the log, and records since when that takes.
    fn append(&self, records: &[Record]) -> Result<(), AppendError> {
        if records.is_empty() {
            return Ok(());
        }
        let appending = || self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        *appending() = Some(Instant::now());
        let appended = self.log.append(records);
        *appending() = None;
        appended
    }

    /// Rejects further writes. The thread ends when the accepted ones are committed.
    pub(super) fn close(&self) {
        self.writer().closing = true;
        self.work.notify_all();
    }
}

/// Marks the store as broken if its thread unwinds, so that no writer waits for ever. Only recovery tests unwind
/// (`panics::unwind_instead_of_abort`): otherwise the process aborts.
struct BreakOnUnwind<'a, V>(&'a CommitPipeline<V>);

impl<V> Drop for BreakOnUnwind<'_, V> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).mark_broken();
        }
    }
}

impl<V: fmt::Debug + Send + Sync + 'static> CommitPipeline<V> {
    pub(super) fn start(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let this = self.clone();
        thread::Builder::new().name("store-log".into()).spawn(move || {
            let _break = BreakOnUnwind(&*this);
            panics::or_abort("store", || {
                while this.wait() {
                    this.commit_pending();
                }
            });
        })
    }

    /// Sequences the write. The receiver gets the result once the write is durable and in the watch caches.
    pub(super) fn submit(
        &self,
        write: Write<V>,
    ) -> Result<oneshot::Receiver<Result<u64, Error>>, Error> {
        let put = write.put.as_ref().map_or(0, |(bytes, _)| bytes.len());
        let bytes = write.key.len() + put + write.provenance.as_ref().map_or(0, Bytes::len);
        if bytes > LARGEST {
            return Err(Error::TooLarge { bytes, limit: LARGEST });
        }
        let (answer, receiver) = oneshot::channel();
        let now = self.clock.now();
        let mut writer = self.writer();
        if writer.broken || writer.closing {
            return Err(Error::Broken);
        }
        let sleeping = writer.idle();
        writer.sequence(write, now, answer);
        drop(writer);
        if sleeping {
            self.work.notify_one();
        }
        Ok(receiver)
    }

    /// Commits all pending writes. A panic aborts the process, on any thread.
    pub(super) fn commit_pending(&self) {
        panics::or_abort("store", || self.commit_all());
    }

    fn commit_all(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Lets writers that only wait for a CPU add their writes first, so that one sync serves them all.
            thread::yield_now();
            self.commit();
            let writer = self.writer();
            if writer.idle() || writer.broken {
                return;
            }
        }
    }

    /// Waits until there is something to commit or expiry must be checked; false when the engine shuts down.
    fn wait(&self) -> bool {
        let mut writer = self.writer();
        loop {
            if writer.broken {
                return false;
            } else if !writer.idle() {
                return true;
            } else if writer.closing {
                return false;
            } else if writer.expires() {
                let (again, slept) =
                    self.work.wait_timeout(writer, TICK).unwrap_or_else(PoisonError::into_inner);
                if slept.timed_out() {
                    return true;
                }
                writer = again;
            } else {
                writer = self.work.wait(writer).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn commit(&self) {
        let due = self.log.needs_compaction();
        let (batch, heads) = {
            let mut writer = self.writer();
            if writer.broken {
                return;
            }
            writer.expire(self.clock.now());
            let batch = writer.take();
            let last = batch.records.last().filter(|_| due);
            let heads = last.and_then(|last| writer.heads(last.revision));
            (batch, heads)
        };
        match self.append(&batch.records) {
            Ok(()) => self.publish(batch, heads),
            Err(AppendError::Full) => {
                let refused = self.writer().roll_back_full(batch, self.log.essential_prefixes());
                self.compact_log();
                warn!(writes = refused.len(), "the disk is full");
                for answer in refused {
                    let _ = answer.send(Err(Error::Full)); // the caller may be gone
                }
            }
            Err(AppendError::Broken(error)) => {
                error!(%error, "cannot append to the log; rejecting all further writes");
                self.writer().mark_broken(); // later writes were checked against it
            }
        }
    }

    /// Starts a compaction of the log from the durable state, which may free disk space.
    fn compact_log(&self) {
        let image = {
            let writer = self.writer();
            let heads =
                if self.log.needs_compaction() { writer.heads(writer.durable) } else { None };
            heads.map(|heads| writer.image(heads, writer.durable))
        };
        if let Some(image) = image {
            self.log.compact(image);
        }
    }

    /// Applies the durable records to the watch caches, and then answers the writers.
    fn publish(&self, batch: Batch<V>, heads: Option<KeyStates>) {
        let Batch { records, pending: tickets, conflicts: losers } = batch;
        let mut answers = Vec::with_capacity(tickets.len());
        if let Some(last) = records.last().map(|record| record.revision) {
            let mut writer = self.writer();
            writer.appended(&records);
            let image = heads.map(|heads| writer.image(heads, last));
            drop(writer);
            let values = records.into_iter().zip(tickets).map(|(record, ticket)| {
                answers.extend(ticket.answer.map(|answer| (Ok(record.revision), answer)));
                (record, ticket.value)
            });
            self.mirror.apply(values, last, self.clock.now());
            self.writer().durable = last;
            self.loaded(); // drops it when it is stale
            if let Some(image) = image {
                self.log.compact(image);
            }
        }
        answers.extend(losers.into_iter().map(|(error, answer)| (Err(error), answer)));
        for (result, answer) in answers {
            let _ = answer.send(result); // the caller may be gone
        }
    }
}
