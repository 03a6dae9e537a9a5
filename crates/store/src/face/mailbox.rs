//! How many requests of one connection hear of their outcome at once.

use std::{
    sync::{Mutex, MutexGuard},
    task::{Context, Waker},
};

/// What has become of a request that was judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Durable,
    /// Taken back: what needs no room may try again.
    Full,
    /// The log takes no more.
    Broken,
}

/// Outcomes by stream, until the connection takes them.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Mutex<Mail>);

#[derive(Debug, Default)]
struct Mail {
    outcomes: Vec<(u32, Outcome)>,
    owner: Option<Waker>,
}

impl Mailbox {
    /// Gives whom to wake, unless somebody was told already.
    pub(super) fn put(&self, stream: u32, outcome: Outcome) -> Option<Waker> {
        let mut mail = self.mail();
        mail.outcomes.push((stream, outcome));
        mail.owner.take()
    }

    /// What has come; whoever takes it is woken for the next.
    pub(super) fn take(&self, cx: &mut Context<'_>) -> Vec<(u32, Outcome)> {
        let mut mail = self.mail();
        if mail.owner.as_ref().is_none_or(|owner| !owner.will_wake(cx.waker())) {
            mail.owner = Some(cx.waker().clone());
        }
        std::mem::take(&mut mail.outcomes)
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.0.lock().expect("not poisoned")
    }
}
