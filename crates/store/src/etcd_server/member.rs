//! The single member of the cluster: executes requests, makes them durable, and notifies watches.
//!
//! As in the embedded engine, a batch is whatever has been collected when the previous one ended. No request is
//! answered, and no change is visible, before it is durable.

use std::{
    fmt, io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::Waker,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use object::Clock;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::{
    fault::EtcdError,
    mailbox::{CommitOutcome, CompletionQueue},
    metrics::Metrics,
    state::State,
    watch_registry::WatchRegistry,
};
use crate::{AppendError, Checkpoint, Error, LastDeletions, Log, Notes};

/// Interval of the expiry check, while there are leases.
const TICK: Duration = Duration::from_millis(500);

/// The state of the member and its log.
pub(super) struct Member {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    log: Arc<dyn Log>,
    inner: Mutex<Inner>,
    /// Notified when there is something to commit.
    work: Condvar,
}

/// The state of a member that is protected by its lock.
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) watches: WatchRegistry,
    waiting: Vec<CommitWaiter>,
    broken: bool,
    closing: bool,
}

/// A request that can be answered when the log is durable up to a position.
struct CommitWaiter {
    position: u64,
    who: WaiterTarget,
}

enum WaiterTarget {
    One(oneshot::Sender<CommitOutcome>),
    /// A stream of an HTTP/2 connection.
    Stream(Arc<CompletionQueue>, u32),
}

/// Exclusive access to the state, for one or several requests. The commit thread is woken when it is dropped.
pub(super) struct StateGuard<'a> {
    member: &'a Member,
    inner: Option<MutexGuard<'a, Inner>>,
    sleeping: bool,
}

impl Member {
    /// Opens a member that continues where `log` ends.
    pub(super) fn open(
        log: Arc<dyn Log>,
        clock: Arc<dyn Clock>,
        quota: u64,
    ) -> Result<Arc<Self>, Error> {
        let (mut state, now, mut wrong) = (State::new(quota), clock.now(), None);
        let base = log.read(0, &mut |record| {
            if let Err(what) = state.replay(record, now) {
                wrong.get_or_insert(what);
            }
        })?;
        if let Some(why) = wrong {
            return Err(Error::Corrupt { key: "the log".to_owned(), revision: 0, why });
        }
        state.ready(&base);
        let (hub, waiting) = (WatchRegistry::default(), Vec::new());
        let inner =
            Mutex::new(Inner { state, watches: hub, waiting, broken: false, closing: false });
        let (metrics, work) = (Metrics::default(), Condvar::new());
        Ok(Arc::new(Self { clock, metrics, log, inner, work }))
    }

    /// Starts the commit thread.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let this = self.clone();
        thread::Builder::new().name("etcd-log".into()).spawn(move || {
            panics::or_abort("etcd", || {
                while this.wait() {
                    this.commit();
                }
            });
        })
    }

    pub(super) fn close(&self) {
        self.inner().closing = true;
        self.work.notify_all();
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        panics::lock_or_abort(&self.inner)
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.inner().state)
    }

    /// Whether writes are accepted.
    pub(super) fn is_healthy(&self) -> bool {
        !self.inner().broken
    }

    /// Executes a request and resolves when its writes, and everything that it read, are durable. On a full disk,
    /// requests that need no space are still executed.
    pub(super) async fn write<T>(
        &self,
        mut request: impl FnMut(&mut State) -> Result<T, EtcdError>,
    ) -> Result<T, EtcdError> {
        for spare in [false, true] {
            let (done, durable) = {
                let mut turn = self.turn();
                let (done, position) = turn.execute(spare, &mut request)?;
                (done, position.map(|position| turn.wait_alone(position)))
            };
            let Some(durable) = durable else { return Ok(done) };
            match durable.await.map_err(|_| EtcdError::Stopped)? {
                CommitOutcome::Durable => return Ok(done),
                CommitOutcome::Full => {}
                CommitOutcome::Broken => return Err(EtcdError::Stopped),
            }
        }
        Err(EtcdError::NoSpace)
    }

    pub(super) fn turn(&self) -> StateGuard<'_> {
        let inner = self.inner();
        let sleeping = inner.state.idle();
        StateGuard { member: self, inner: Some(inner), sleeping }
    }

    /// Waits until there is something to commit; false when the member shuts down.
    fn wait(&self) -> bool {
        let mut inner = self.inner();
        loop {
            let over = inner.state.leases.expired(self.clock.now());
            for id in over {
                let _ = inner.state.execute(true, |state| state.revoke(id)); // the lease may be gone
            }
            if inner.broken {
                return false;
            } else if !inner.state.idle() {
                return true;
            } else if inner.closing {
                return false;
            }
            inner = if inner.state.leases.0.is_empty() {
                self.work.wait(inner).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.work.wait_timeout(inner, TICK).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn commit(&self) {
        let due = self.log.needs_compaction();
        let records = self.inner().state.take_batch();
        let begun = Instant::now();
        let appended = self.log.append(&records);
        self.metrics.syncs.add(begun.elapsed());
        if appended.is_err() {
            self.metrics.failed.fetch_add(records.len() as u64, Ordering::Relaxed);
        }
        match appended {
            Ok(()) => self.committed(due, begun),
            Err(AppendError::Full) => {
                warn!(records = records.len(), "the disk is full");
                let mut inner = self.inner();
                inner.state.roll_back();
                let waiting = mem::take(&mut inner.waiting);
                let image = self.log.needs_compaction().then(|| image(&inner.state));
                drop(inner);
                tell(waiting, CommitOutcome::Full);
                if let Some(image) = image {
                    self.log.compact(image);
                }
            }
            Err(AppendError::Broken(error)) => {
                error!(%error, "cannot append to the log; rejecting all further writes");
                self.give_up();
            }
        }
    }

    /// Rejects further writes, because the content of the log is unknown.
    fn give_up(&self) {
        let mut inner = self.inner();
        inner.broken = true;
        let waiting = mem::take(&mut inner.waiting);
        drop(inner);
        tell(waiting, CommitOutcome::Broken);
    }

    fn committed(&self, due: bool, begun: Instant) {
        let mut inner = self.inner();
        let (from, to) = inner.state.committed();
        let Inner { state, watches: hub, .. } = &mut *inner;
        hub.notify(&state.keys, from, to);
        let durable = state.durable_position();
        let image = due.then(|| image(state));
        // Waiters are in the order of their positions.
        let done = inner.waiting.partition_point(|waiting| waiting.position <= durable);
        let later = inner.waiting.split_off(done);
        let done = mem::replace(&mut inner.waiting, later);
        drop(inner);
        self.metrics.commits.add(begun.elapsed());
        tell(done, CommitOutcome::Durable);
        if let Some(image) = image {
            self.log.compact(image);
        }
    }
}

impl StateGuard<'_> {
    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.inner.as_mut().expect("until it is dropped").state
    }

    /// Executes a request. Returns its result, and the log position that must be durable before it may be answered,
    /// which covers everything that the request read.
    pub(super) fn execute<T>(
        &mut self,
        spare: bool,
        request: impl FnOnce(&mut State) -> Result<T, EtcdError>,
    ) -> Result<(T, Option<u64>), EtcdError> {
        let inner = self.inner.as_mut().expect("until it is dropped");
        if inner.broken || inner.closing {
            return Err(EtcdError::Stopped);
        }
        let done = inner.state.execute(spare, request);
        if done.as_ref().is_err_and(|fault| *fault == EtcdError::Quota) {
            inner.state.set_alarm(true);
        }
        let position = inner.state.position();
        done.map(|done| (done, (position > inner.state.durable_position()).then_some(position)))
    }

    /// Notifies a stream when the log is durable up to `position`.
    pub(super) fn wait(&mut self, position: u64, stream: u32, mailbox: &Arc<CompletionQueue>) {
        self.push(CommitWaiter { position, who: WaiterTarget::Stream(mailbox.clone(), stream) });
    }

    fn wait_alone(&mut self, position: u64) -> oneshot::Receiver<CommitOutcome> {
        let (answer, durable) = oneshot::channel();
        self.push(CommitWaiter { position, who: WaiterTarget::One(answer) });
        durable
    }

    fn push(&mut self, waiting: CommitWaiter) {
        self.inner.as_mut().expect("until it is dropped").waiting.push(waiting);
    }

    fn inner(&self) -> &Inner {
        self.inner.as_ref().expect("until it is dropped")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let wake = self.sleeping && !self.inner().state.idle();
        self.inner = None;
        if wake {
            self.member.work.notify_one();
        }
    }
}

/// Notifies all waiters, waking each connection once.
fn tell(waiting: Vec<CommitWaiter>, outcome: CommitOutcome) {
    let alone = waiting.len() == 1;
    let mut tasks = Vec::new();
    for waiting in waiting {
        match waiting.who {
            WaiterTarget::One(answer) => drop(answer.send(outcome)), // the caller may be gone
            WaiterTarget::Stream(mailbox, stream) if alone => mailbox.deliver(stream, outcome),
            WaiterTarget::Stream(mailbox, stream) => tasks.extend(mailbox.put(stream, outcome)),
        }
    }
    tasks.into_iter().for_each(Waker::wake);
}

/// A checkpoint from which the log may start: everything that can still be read.
fn image(state: &State) -> Checkpoint {
    let (revision, floor) = (state.durable_position(), state.keys.floor_position);
    let (removals, notes) = (LastDeletions::default(), Notes::default());
    Checkpoint { revision, floor, heads: None, removals, notes }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.log).finish()
    }
}
