//! A priority level: so many at once; others wait in queues, dealt so that a flow with
//! many requests does not stand in the way of all others, and served in turn.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::flowcontrol::PriorityLevelConfiguration;
use object::{Lens, Status, Text};
use tokio::{sync::oneshot, time::timeout};

/// Nobody waits longer.
const LONGEST: Duration = Duration::from_secs(15);
const BUSY: &str = "Too many requests, please try again later.";

/// What a configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    uid: Text,
    exempt: bool,
    pub(super) shares: i64,
    /// 0: nobody waits.
    queues: usize,
    hand: usize,
    longest: usize,
}

impl Shape {
    pub(super) fn of(level: &PriorityLevelConfiguration) -> Self {
        let spec = level.tree().get("spec");
        let exempt = spec.get("type").as_str() == Some("Exempt");
        let part = spec.get(if exempt { "exempt" } else { "limited" });
        let response = part.get("limitResponse");
        let queuing = response.get("queuing");
        let number = |name: &str, otherwise: i64| {
            let n = queuing.get(name).as_i64().unwrap_or(otherwise);
            usize::try_from(n).unwrap_or_default()
        };
        let queues = response.get("type").as_str() == Some("Queue");
        let shares = part.get("nominalConcurrencyShares").as_i64();
        Self {
            uid: level.metadata().uid().into(),
            exempt,
            shares: shares.unwrap_or(if exempt { 0 } else { 30 }).max(0),
            queues: if queues { number("queues", 64) } else { 0 },
            hand: number("handSize", 8),
            longest: number("queueLengthLimit", 50),
        }
    }

    /// This level's part of all seats, at least one if it has a share at all.
    pub(super) fn limit(&self, seats: usize, shares: i64) -> usize {
        let (own, all) = (self.shares, shares.max(1));
        let part = i64::try_from(seats).unwrap_or(i64::MAX).saturating_mul(own);
        usize::try_from((part + all - 1) / all).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(super) struct Level {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    shape: Shape,
    limit: usize,
    executing: usize,
    queues: Vec<VecDeque<oneshot::Sender<Held>>>,
    /// The queue whose turn is next.
    next: usize,
}

/// A place among those that are handled; given on when dropped, wherever that happens: in
/// the hands of who has it, or on the way to who has gone meanwhile.
#[derive(Debug)]
pub(super) struct Held(Option<Arc<Mutex<State>>>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            state.lock().unwrap_or_else(PoisonError::into_inner).release(&state);
        }
    }
}

impl State {
    /// Gives the place to who waits next, in turn by queue; or takes it back.
    fn release(&mut self, own: &Arc<Mutex<Self>>) {
        let count = self.queues.len();
        for step in 0..count {
            let at = (self.next + step) % count;
            while let Some(waiting) = self.queues[at].pop_front() {
                let Err(mut held) = waiting.send(Held(Some(own.clone()))) else {
                    self.next = (at + 1) % count;
                    return;
                };
                held.0 = None; // who waited has gone; the place is still here
            }
        }
        self.executing = self.executing.saturating_sub(1);
    }

    /// The shortest of the queues that a flow is dealt.
    fn choose(&self, flow: u64) -> usize {
        let count = self.queues.len();
        let mut deck: Vec<usize> = (0..count).collect();
        let (mut hash, mut best) = (flow, 0);
        for card in 0..self.shape.hand.clamp(1, count) {
            let left = count - card;
            let at = usize::try_from(hash % left as u64).unwrap_or_default();
            hash /= left as u64;
            let dealt = deck.swap_remove(at);
            if card == 0 || self.queues[dealt].len() < self.queues[best].len() {
                best = dealt;
            }
        }
        best
    }
}

impl Level {
    pub(super) fn uid(&self) -> Text {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).shape.uid.clone()
    }

    /// Takes over a configuration; those who wait go on waiting.
    pub(super) fn set(&self, shape: Shape, limit: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = state.queues.iter().skip(shape.queues).any(|queue| !queue.is_empty());
        if !waiting {
            state.queues.resize_with(shape.queues, VecDeque::new);
        }
        state.shape = shape;
        state.limit = limit;
    }

    /// A place, now or after waiting; `None`: this level has no bound.
    pub(super) async fn take(&self, flow: u64) -> Result<Option<Held>, Status> {
        let busy = || Status::too_many_requests(BUSY, 1);
        let turn = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.shape.exempt {
                return Ok(None);
            }
            if state.executing < state.limit {
                state.executing += 1;
                return Ok(Some(Held(Some(self.state.clone()))));
            }
            if state.queues.is_empty() {
                return Err(busy());
            }
            let at = state.choose(flow);
            if state.queues[at].len() >= state.shape.longest {
                return Err(busy());
            }
            let (sender, turn) = oneshot::channel();
            state.queues[at].push_back(sender);
            turn
        };
        match timeout(LONGEST, turn).await {
            Ok(Ok(held)) => Ok(Some(held)),
            _ => Err(busy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(limit: usize, queues: usize, longest: usize) -> Level {
        let level = Level::default();
        level.set(Shape { queues, hand: 1, longest, ..Shape::default() }, limit);
        level
    }

    #[tokio::test]
    async fn who_comes_too_late_waits_or_is_sent_away() {
        let strict = level(1, 0, 0);
        let first = strict.take(1).await.unwrap();
        assert_eq!(strict.take(2).await.unwrap_err().code(), 429);
        drop(first);
        assert!(strict.take(2).await.is_ok());
    }

    #[tokio::test]
    async fn a_place_goes_to_who_waits() {
        let level = level(1, 2, 1);
        let first = level.take(0).await.unwrap();
        let mut second = Box::pin(level.take(0));
        let waiting = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())
        });
        assert!(waiting.await, "nobody is done yet");
        assert_eq!(level.take(0).await.unwrap_err().code(), 429, "the queue is full");
        drop(first);
        assert!(second.await.unwrap().is_some());
    }

    #[test]
    fn seats_are_divided_by_shares() {
        let shape = Shape { shares: 30, ..Shape::default() };
        assert_eq!(shape.limit(600, 245), 74);
        assert_eq!(Shape::default().limit(600, 245), 0);
    }
}
