//! How many requests of one connection hear of their outcome at once.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    task::{Context, Waker},
};

/// What has become of a request that was judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CommitOutcome {
    Durable,
    /// Taken back: what needs no room may try again.
    Full,
    /// The log takes no more.
    Broken,
}

/// Takes what is in its mailbox, and answers for it, on whichever thread.
pub(super) trait CompletionHandler: Send + Sync {
    /// False: `task` must be woken.
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
    /// Who takes them next.
    task: Option<Waker>,
}

impl CompletionQueue {
    pub(super) fn set_handler(&self, owner: Weak<dyn CompletionHandler>) {
        let _ = self.owner.set(owner); // once
    }

    /// The same for the only one who is told: it is answered here and now, if its
    /// connection has nothing else to do. To wake somebody for it costs more.
    pub(super) fn deliver(&self, stream: u32, outcome: CommitOutcome) {
        let Some(task) = self.put(stream, outcome) else { return };
        let owner = self.owner.get().and_then(Weak::upgrade);
        if !owner.is_some_and(|owner| owner.answer(&task)) {
            task.wake();
        }
    }

    /// Gives whom to wake, unless somebody was told already.
    pub(super) fn put(&self, stream: u32, outcome: CommitOutcome) -> Option<Waker> {
        let mut mail = self.mail();
        mail.outcomes.push((stream, outcome));
        mail.task.take()
    }

    /// What has come; whoever takes it is woken for the next.
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
