//! Limits the memory of responses that clients have not read yet. A client that asks for much and
//! reads slowly, or asks on many connections at once, gets 429 with `Retry-After` before the server
//! runs out of memory.
//!
//! The budget follows from the memory there is. An account may hold as much as is free, so that one
//! greedy account gets half of the budget, two a third each, and something is always left for others.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use object::Status;

use crate::{Body, Reply, available_memory::AvailableMemory, turns::Account};

/// Estimated memory of a streamed response: a frame that is encoded, one that is encrypted, and the
/// buffers of its connection.
pub(crate) const STREAMED: usize = 256 << 10;
/// Smaller responses are not counted.
const SMALLEST: usize = 16 << 10;

/// Memory that a response holds, if that is not the length of its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerWeight(pub(crate) usize);

/// The responses that are being sent, by account.
#[derive(Debug, Default)]
pub(crate) struct AnswerBudget {
    held: Mutex<Held>,
    memory: AvailableMemory,
}

/// Estimated bytes that responses hold.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_account: HashMap<Option<Account>, usize>,
}

/// A part of the budget, until it is dropped.
#[derive(Debug)]
struct Reservation {
    budget: Arc<AnswerBudget>,
    account: Option<Account>,
    bytes: usize,
}

impl AnswerBudget {
    /// Counts a response until its body is sent or dropped. A response to a read that does not fit is
    /// replaced by the error; that to a write is always sent, because the write has taken effect.
    pub(crate) fn admit(
        self: &Arc<Self>,
        mut reply: Reply,
        account: Option<Account>,
        is_read: bool,
    ) -> Result<Reply, Status> {
        let weight = reply.extensions_mut().remove::<AnswerWeight>().map(|AnswerWeight(own)| own);
        let length = reply.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let Some(bytes) = weight.or(length).filter(|bytes| *bytes >= SMALLEST) else {
            return Ok(reply);
        };
        let reservation = self.reserve(account, bytes, !is_read)?;
        Ok(reply.map(|body| CountedBody { body, _reservation: reservation }.boxed_unsync()))
    }

    fn reserve(
        self: &Arc<Self>,
        account: Option<Account>,
        bytes: usize,
        always: bool,
    ) -> Result<Reservation, Status> {
        let mut held = self.held();
        let own = held.by_account.get(&account).copied().unwrap_or_default();
        if !always && !fits(own, bytes, held.all, self.memory.budget(held.all)) {
            let why = "The server has too little memory for another response of this size while \
                       earlier ones have not been read, please try again later.";
            return Err(Status::too_many_requests(why, 1));
        }
        held.all = held.all.saturating_add(bytes);
        held.by_account.insert(account, own.saturating_add(bytes));
        Ok(Reservation { budget: self.clone(), account, bytes })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an account that holds `own` bytes may hold `bytes` more. The first response of an account
/// always fits: otherwise a large one could never be sent.
fn fits(own: usize, bytes: usize, all: usize, budget: usize) -> bool {
    let free = budget.saturating_sub(all);
    own == 0 || own.saturating_add(bytes) <= free
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.all = held.all.saturating_sub(self.bytes);
        if let Some(own) = held.by_account.get_mut(&self.account) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                held.by_account.remove(&self.account);
            }
        }
    }
}

/// A body that is part of the budget until it is dropped.
struct CountedBody {
    body: Body,
    _reservation: Reservation,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::raw;

    #[test]
    fn an_account_may_hold_as_much_as_is_free() {
        let cases = [
            (0, 100, 0, 1000, true, "the first"),
            (400, 100, 400, 1000, true, "half of it"),
            (500, 100, 500, 1000, false, "more than half of it"),
            (0, 5000, 0, 1000, true, "the first, however large"),
            (200, 100, 700, 1000, true, "beside another that holds half"),
            (300, 100, 800, 1000, false, "more than a third, beside another"),
            (1, 1, 5000, 1000, false, "nothing is left"),
        ];
        for (own, bytes, all, budget, expected, what) in cases {
            assert_eq!(fits(own, bytes, all, budget), expected, "{what}");
        }
    }

    #[test]
    fn what_is_sent_is_free_again() {
        let budget = Arc::new(AnswerBudget {
            memory: AvailableMemory::fixed(1 << 20),
            ..AnswerBudget::default()
        });
        let (greedy, other) = (Some(Account::new("greedy")), Some(Account::new("other")));
        let reply = || raw(200, "application/json", vec![b'x'; 100 << 10]);
        let mut held = Vec::new();
        let refused = loop {
            match budget.admit(reply(), greedy, true) {
                Ok(reply) => held.push(reply),
                Err(status) => break status,
            }
        };
        assert_eq!(held.len(), 5, "half of the budget");
        assert_eq!(
            (refused.code(), refused.details().map(object::StatusDetails::retry_after_seconds)),
            (429, Some(1))
        );
        held.push(budget.admit(reply(), greedy, false).expect("a write has taken effect"));
        assert!(budget.admit(reply(), other, true).is_ok(), "something is left for others");
        assert!(budget.admit(raw(200, "", vec![b'x'; 100]), greedy, true).is_ok(), "a small one");
        drop(held);
        assert!(budget.admit(reply(), greedy, true).is_ok());
        let mut streamed = raw(200, "", Vec::new());
        streamed.extensions_mut().insert(AnswerWeight(900 << 10));
        let streamed = budget.admit(streamed, other, true).expect("its first");
        assert_eq!(budget.held().all, 900 << 10);
        assert!(streamed.extensions().is_empty());
        drop(streamed);
        assert!(budget.held().by_account.is_empty() && budget.held().all == 0);
    }
}
