//! Delivery of commit outcomes to the requests of one connection, several at once.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    task::{Context, Waker},
};

/// The outcome of a request that was executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CommitOutcome {
    Durable,
    /// The disk is full and the request was rolled back; one that needs no space may be retried.
    Full,
    /// The log has failed and accepts no more writes.
    Broken,
}

/// Answers the requests in a completion queue, on any thread.
pub(super) trait CompletionHandler: Send + Sync {
    /// Returns false if `task` must be woken instead.
    fn answer(&self, task: &Waker) -> bool;
}

/// Outcomes by stream, until the connection takes them.
#[derive(Default)]
pub(super) struct CompletionQueue {
    mail: Mutex<Mail>,
    owner: OnceLock<Weak<dyn CompletionHandler>>,
}

#[derive(Debug, Default)]
struct Mail {
    outcomes: Vec<(u32, CommitOutcome)>,
    /// The task that takes them next.
    task: Option<Waker>,
}

impl CompletionQueue {
    pub(super) fn set_handler(&self, owner: Weak<dyn CompletionHandler>) {
        let _ = self.owner.set(owner); // once
    }

    /// Like `put`, for a single waiter. The response is sent on this thread if the connection has nothing else to do,
    /// which is cheaper than waking its task.
    pub(super) fn deliver(&self, stream: u32, outcome: CommitOutcome) {
        let Some(task) = self.put(stream, outcome) else { return };
        let owner = self.owner.get().and_then(Weak::upgrade);
        if !owner.is_some_and(|owner| owner.answer(&task)) {
            task.wake();
        }
    }

    /// Adds an outcome and returns the waker of the connection, unless it was woken already.
    pub(super) fn put(&self, stream: u32, outcome: CommitOutcome) -> Option<Waker> {
        let mut mail = self.mail();
        mail.outcomes.push((stream, outcome));
        mail.task.take()
    }

    /// Takes the outcomes and registers the task to be woken for the next ones.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Vec<(u32, CommitOutcome)> {
        let mut mail = self.mail();
        if mail.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            mail.task = Some(cx.waker().clone());
        }
        std::mem::take(&mut mail.outcomes)
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mailbox").field(&self.mail).finish()
    }
}
