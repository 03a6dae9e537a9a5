//! One member of a cluster of one: judges, makes durable, and tells who watches.
//!
//! As in the other engine a batch is whatever has gathered when the last one ended,
//! and nobody is answered, or shown anything, before it is durable.

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use object::Clock;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::{fault::Fault, hub::Hub, metrics::Metrics, state::State};
use crate::{Error, Failure, Image, Log, Removals};

/// How often expiry is looked at, while anything can expire.
const TICK: Duration = Duration::from_millis(500);

pub(super) struct Member {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
    log: Arc<dyn Log>,
    inner: Mutex<Inner>,
    /// Told when there is something to commit.
    work: Condvar,
}

pub(super) struct Inner {
    pub(super) state: State,
    pub(super) hub: Hub,
    waiting: Vec<Waiting>,
    broken: bool,
    closing: bool,
}

/// Somebody whose answer can be given when the log has come that far.
struct Waiting {
    position: u64,
    answer: oneshot::Sender<Outcome>,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Durable,
    /// Taken back: what needs no room may try again.
    Full,
}

impl Member {
    /// Goes on from where `log` ends.
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
        if let Some(what) = wrong {
            return Err(Error::Corrupt(what));
        }
        state.ready(&base);
        let (hub, waiting) = (Hub::default(), Vec::new());
        let inner = Mutex::new(Inner { state, hub, waiting, broken: false, closing: false });
        let (metrics, work) = (Metrics::default(), Condvar::new());
        Ok(Arc::new(Self { clock, metrics, log, inner, work }))
    }

    /// Commits, from now on.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let this = self.clone();
        thread::Builder::new().name("etcd-log".into()).spawn(move || {
            while this.wait() {
                this.commit();
            }
        })
    }

    pub(super) fn close(&self) {
        self.inner().closing = true;
        self.work.notify_all();
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }

    /// Looks at what is durable.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.inner().state)
    }

    /// Whether writes are taken.
    pub(super) fn is_healthy(&self) -> bool {
        !self.inner().broken
    }

    /// Does what is asked, and answers when that, and all that it saw, is durable.
    /// Where there is no room, what takes none is done all the same.
    pub(super) async fn write<T>(
        &self,
        mut request: impl FnMut(&mut State) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        for spare in [false, true] {
            let (done, durable) = self.submit(spare, &mut request)?;
            let Some(durable) = durable else { return Ok(done) };
            match durable.await.map_err(|_| Fault::Stopped)? {
                Outcome::Durable => return Ok(done),
                Outcome::Full => {}
            }
        }
        Err(Fault::NoSpace)
    }

    fn submit<T>(
        &self,
        spare: bool,
        request: &mut impl FnMut(&mut State) -> Result<T, Fault>,
    ) -> Result<(T, Option<oneshot::Receiver<Outcome>>), Fault> {
        let mut inner = self.inner();
        if inner.broken || inner.closing {
            return Err(Fault::Stopped);
        }
        let sleeping = inner.state.idle();
        let done = inner.state.judge(spare, request);
        if done.as_ref().is_err_and(|fault| *fault == Fault::Quota) {
            inner.state.set_alarm(true);
        }
        let wake = sleeping && !inner.state.idle();
        let done = done.map(|done| {
            let position = inner.state.position();
            let durable = (position > inner.state.durable_position()).then(|| {
                let (answer, durable) = oneshot::channel();
                inner.waiting.push(Waiting { position, answer });
                durable
            });
            (done, durable)
        });
        drop(inner);
        if wake {
            self.work.notify_one();
        }
        done
    }

    /// Sleeps until there is something to commit; false: it is over.
    fn wait(&self) -> bool {
        let mut inner = self.inner();
        loop {
            let over = inner.state.leases.expired(self.clock.now());
            for id in over {
                let _ = inner.state.judge(true, |state| state.revoke(id)); // it may have gone
            }
            if inner.broken {
                return false;
            } else if !inner.state.idle() {
                return true;
            } else if inner.closing {
                return false;
            }
            inner = if inner.state.leases.0.is_empty() {
                self.work.wait(inner).expect("not poisoned")
            } else {
                self.work.wait_timeout(inner, TICK).expect("not poisoned").0
            };
        }
    }

    fn commit(&self) {
        let due = self.log.due();
        let records = self.inner().state.send();
        let begun = Instant::now();
        let appended = self.log.append(&records);
        self.metrics.synced(begun.elapsed());
        match appended {
            Ok(()) => self.committed(due),
            Err(Failure::Full) => {
                warn!(records = records.len(), "the disk is full");
                let mut inner = self.inner();
                inner.state.refused();
                for waiting in std::mem::take(&mut inner.waiting) {
                    let _ = waiting.answer.send(Outcome::Full); // who asked may have gone
                }
                let image = self.log.due().then(|| image(&inner.state));
                drop(inner);
                if let Some(image) = image {
                    self.log.compact(image);
                }
            }
            Err(Failure::Broken(error)) => {
                error!(%error, "cannot append to the log; nothing more is written");
                let mut inner = self.inner();
                inner.broken = true;
                inner.waiting.clear(); // who waits hears of it
            }
        }
    }

    fn committed(&self, due: bool) {
        let mut inner = self.inner();
        let (from, to) = inner.state.committed();
        let Inner { state, hub, .. } = &mut *inner;
        hub.tell(&state.keys, from, to);
        let durable = state.durable_position();
        let image = due.then(|| image(state));
        let (done, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut inner.waiting).into_iter().partition(|w| w.position <= durable);
        inner.waiting = later;
        drop(inner);
        self.metrics.commits.fetch_add(1, Ordering::Relaxed);
        for waiting in done {
            let _ = waiting.answer.send(Outcome::Durable); // who asked may have gone
        }
        if let Some(image) = image {
            self.log.compact(image);
        }
    }
}

/// What the log may begin with: all that can still be asked for.
fn image(state: &State) -> Image {
    let (revision, floor) = (state.durable_position(), state.keys.floor_position);
    Image { revision, floor, heads: None, removals: Removals::default(), notes: Vec::new() }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.log).finish()
    }
}
