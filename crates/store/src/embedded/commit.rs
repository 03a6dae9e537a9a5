//! How a batch becomes durable, then visible, and then is answered for.

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use object::Clock;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::{
    loaded_log::LoadedLog,
    writer::{Batch, WriteQueue},
};
use crate::{AppendError, Error, KeyStates, Log, WatchCacheSet, Write};

/// What one write may hold.
const LARGEST: usize = 8 << 20;

/// How often expiry is looked at, while anything can expire.
const TICK: Duration = Duration::from_secs(1);

pub(super) struct CommitPipeline<V> {
    pub(super) log: Arc<dyn Log>,
    pub(super) clock: Arc<dyn Clock>,
    mirror: Arc<WatchCacheSet<V>>,
    writer: Mutex<WriteQueue<V>>,
    /// Told when there is something to commit.
    work: Condvar,
    /// Held by the one who commits.
    turn: Mutex<()>,
    /// What the log held, until everything is served.
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
        Arc::new(Self { log, clock, mirror, writer, work, turn, loaded: Mutex::new(loaded) })
    }

    /// A panic with it in hand ends the process: the log knows what was written.
    pub(super) fn writer(&self) -> MutexGuard<'_, WriteQueue<V>> {
        let mut writer = panics::lock_or_abort(&self.writer);
        writer.ready();
        writer
    }

    /// What was read when it was opened, for as long as that is worth its memory.
    pub(super) fn loaded(&self) -> Option<Arc<LoadedLog>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stale) = loaded.take_if(|loaded| loaded.stale(self.clock.now())) {
            // To give a million records back takes a while, in which nobody should wait.
            let _ = thread::Builder::new().spawn(|| drop(stale)); // or else it is dropped here
        }
        loaded.clone()
    }

    /// Takes no more. The thread ends when what was taken is committed.
    pub(super) fn close(&self) {
        self.writer().closing = true;
        self.work.notify_all();
    }
}

/// Marks the store as broken if its thread unwinds, so that no writer waits for it. Only tests
/// of recovery see that (`panics::unwind_instead_of_abort`): elsewhere the process ends.
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

    /// Gives the write its place. Its answer comes when it is durable and mirrored.
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

    /// Commits all that has gathered. A panic ends the process, whoever's turn it is.
    pub(super) fn commit_pending(&self) {
        panics::or_abort("store", || self.commit_all());
    }

    fn commit_all(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Those who have more to write may do so first, if they wait for a processor only:
            // one sync for all of them.
            thread::yield_now();
            self.commit();
            let writer = self.writer();
            if writer.idle() || writer.broken {
                return;
            }
        }
    }

    /// Sleeps until there is something to commit, or maybe to expire; false: it is over.
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
        let nothing = batch.records.is_empty();
        match if nothing { Ok(()) } else { self.log.append(&batch.records) } {
            Ok(()) => self.publish(batch, heads),
            Err(AppendError::Full) => {
                let refused = self.writer().roll_back_full(batch);
                self.compact_log();
                warn!(writes = refused.len(), "the disk is full");
                for answer in refused {
                    let _ = answer.send(Err(Error::Full)); // who asked may have gone
                }
            }
            Err(AppendError::Broken(error)) => {
                error!(%error, "cannot append to the log; nothing more is written");
                self.writer().mark_broken(); // what came after was judged against it
            }
        }
    }

    /// Lets the log begin anew with what is durable, if that may give some room.
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

    /// Mirrors what is durable, and then answers.
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
            self.loaded(); // lets it go when it is time
            if let Some(image) = image {
                self.log.compact(image);
            }
        }
        answers.extend(losers.into_iter().map(|(error, answer)| (Err(error), answer)));
        for (result, answer) in answers {
            let _ = answer.send(result); // who asked may have gone
        }
    }
}
