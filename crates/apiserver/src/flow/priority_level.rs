//! A priority level. It executes as many requests at once as it has seats; further requests wait in
//! queues. Shuffle sharding assigns each flow to a few queues, so that one busy flow cannot starve
//! the others, and the queues are served round-robin.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use api::flowcontrol::PriorityLevelConfiguration;
use object::{Lens, Status, Text};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::{
    metrics::{FlowMetrics, RejectReason},
    seat_demand::{BorrowingTarget, ConcurrencyBounds, SeatDemand, SeatDemandStats, float},
};

/// Maximum time that a request waits in a queue.
const LONGEST: Duration = Duration::from_secs(15);
const BUSY: &str = "Too many requests, please try again later.";

/// The settings of a PriorityLevelConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelConfig {
    uid: Text,
    pub(super) exempt: bool,
    pub(super) shares: i64,
    /// How many of its seats may be lent, and how many borrowed, in percent of its nominal seats.
    lendable_percent: i64,
    borrowing_limit_percent: Option<i64>,
    /// 0 means that no request waits.
    queues: usize,
    hand_size: usize,
    queue_length_limit: usize,
}

impl LevelConfig {
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
            lendable_percent: part.get("lendablePercent").as_i64().unwrap_or(0).clamp(0, 100),
            borrowing_limit_percent: part
                .get("borrowingLimitPercent")
                .as_i64()
                .filter(|percent| *percent >= 0),
            queues: if queues { number("queues", 64) } else { 0 },
            hand_size: number("handSize", 8),
            queue_length_limit: number("queueLengthLimit", 50),
        }
    }

    /// The nominal seats of this level, at least one if it has a share, and the range within which
    /// borrowing may change them.
    pub(super) fn bounds(&self, seats: usize, shares: i64) -> ConcurrencyBounds {
        let (own, all) = (self.shares, shares.max(1));
        let part = i64::try_from(seats).unwrap_or(i64::MAX).saturating_mul(own);
        let nominal = (part + all - 1) / all;
        let percent = |percent: i64| (nominal.saturating_mul(percent) + 50) / 100;
        let count = |n: i64| usize::try_from(n).unwrap_or_default();
        let more = self.borrowing_limit_percent.map_or(seats, |borrows| count(percent(borrows)));
        ConcurrencyBounds {
            nominal: count(nominal),
            lower: count(nominal - percent(self.lendable_percent)),
            upper: count(nominal) + more,
        }
    }
}

/// A priority level; clones share its state.
#[derive(Clone, Debug)]
pub(super) struct PriorityLevel {
    state: Arc<Mutex<State>>,
    began: Instant,
}

/// The state of a level: seats, queues and demand.
#[derive(Debug, Default)]
struct State {
    shape: LevelConfig,
    bounds: ConcurrencyBounds,
    /// The current number of seats.
    limit: usize,
    executing: usize,
    /// Number of waiting requests in all queues.
    waiting: usize,
    queues: Vec<VecDeque<QueuedRequest>>,
    /// The queue that is served next.
    next: usize,
    demand: SeatDemand,
    seen: SeatDemandStats,
}

/// A waiting request, and the channel over which it gets its seat.
#[derive(Debug)]
struct QueuedRequest {
    turn: oneshot::Sender<SeatGuard>,
    who: RequestDescriptor,
}

/// Description of a waiting request, for the debug tables.
#[derive(Clone, Debug)]
pub(super) struct RequestDescriptor {
    pub(super) schema: Text,
    pub(super) flow: Text,
    /// In microseconds since 1970.
    pub(super) arrived: i64,
}

/// A seat. Dropping it passes the seat on, whether the request has ended or was cancelled before it
/// received the seat.
#[derive(Debug)]
pub(super) struct SeatGuard(Option<PriorityLevel>);

/// The state of a level, for metrics and the debug tables.
#[derive(Clone, Debug)]
pub(super) struct LevelSnapshot {
    pub(super) bounds: ConcurrencyBounds,
    pub(super) limit: usize,
    pub(super) seen: SeatDemandStats,
    pub(super) executing: usize,
    pub(super) queues: Vec<Vec<RequestDescriptor>>,
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        if let Some(level) = self.0.take() {
            level.state().release(&level);
        }
    }
}

impl State {
    /// Frees a seat and dispatches the next waiting request.
    fn release(&mut self, own: &PriorityLevel) {
        self.executing = self.executing.saturating_sub(1);
        self.dispatch(own);
    }

    /// Dispatches waiting requests while there are free seats, round-robin over the queues.
    fn dispatch(&mut self, own: &PriorityLevel) {
        while self.executing < self.limit && self.admit_one(own) {}
        self.count(own);
    }

    fn admit_one(&mut self, own: &PriorityLevel) -> bool {
        let count = self.queues.len();
        for step in 0..count {
            let at = (self.next + step) % count;
            while let Some(waiting) = self.queues[at].pop_front() {
                self.waiting -= 1;
                self.executing += 1;
                let Err(mut held) = waiting.turn.send(SeatGuard(Some(own.clone()))) else {
                    self.next = (at + 1) % count;
                    return true;
                };
                held.0 = None; // the request was cancelled; its seat is still free
                self.executing -= 1;
            }
        }
        false
    }

    fn count(&mut self, own: &PriorityLevel) {
        let wanted = self.executing + self.waiting;
        self.demand.set(own.began.elapsed().as_secs_f64(), wanted);
    }

    /// The shortest of the queues that shuffle sharding deals to a flow.
    fn choose_queue(&self, flow: u64) -> usize {
        let count = self.queues.len();
        let mut deck: Vec<usize> = (0..count).collect();
        let (mut hash, mut best) = (flow, 0);
        for card in 0..self.shape.hand_size.clamp(1, count) {
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

impl Default for PriorityLevel {
    fn default() -> Self {
        Self { state: Arc::default(), began: Instant::now() }
    }
}

impl PriorityLevel {
    pub(super) fn uid(&self) -> Text {
        self.state().shape.uid.clone()
    }

    /// Applies a configuration; waiting requests stay queued.
    pub(super) fn set(&self, shape: LevelConfig, bounds: ConcurrencyBounds) {
        let mut state = self.state();
        let waiting = state.queues.iter().skip(shape.queues).any(|queue| !queue.is_empty());
        if !waiting {
            state.queues.resize_with(shape.queues, VecDeque::new);
        }
        if state.bounds != bounds {
            state.limit = bounds.nominal;
        }
        (state.shape, state.bounds) = (shape, bounds);
        state.dispatch(self);
    }

    /// Whether the level is exempt, and its borrowing target by its demand since the last call.
    pub(super) fn borrowing_target(&self) -> (bool, BorrowingTarget) {
        let mut state = self.state();
        let before = state.seen;
        state.seen = state.demand.take(self.began.elapsed().as_secs_f64(), before);
        let (bounds, seen) = (state.bounds, state.seen);
        let least = float(bounds.lower);
        if state.shape.exempt {
            let lower = least.max(seen.most);
            return (true, BorrowingTarget { target: lower, lower, upper: lower });
        }
        let lower = least.max(seen.most.min(float(bounds.nominal)));
        (
            false,
            BorrowingTarget { target: lower.max(seen.smoothed), lower, upper: float(bounds.upper) },
        )
    }

    /// Sets the current number of seats.
    pub(super) fn set_limit(&self, limit: usize) {
        let mut state = self.state();
        state.limit = limit;
        state.dispatch(self);
    }

    /// A snapshot of the state.
    pub(super) fn sight(&self) -> LevelSnapshot {
        let state = self.state();
        let queues = state.queues.iter().map(|queue| queue.iter().map(|own| own.who.clone()));
        LevelSnapshot {
            bounds: state.bounds,
            limit: state.limit,
            seen: state.seen,
            executing: state.executing,
            queues: queues.map(Iterator::collect).collect(),
        }
    }

    /// Acquires a seat, at once or after waiting in a queue.
    pub(super) async fn acquire(
        &self,
        flow: u64,
        who: impl FnOnce() -> RequestDescriptor,
        tally: &FlowMetrics,
    ) -> Result<SeatGuard, Status> {
        let came = Instant::now();
        let refuse = |why: RejectReason| {
            tally.refuses(why, came.elapsed().as_secs_f64());
            Status::too_many_requests(BUSY, 1)
        };
        let turn = {
            let mut state = self.state();
            if state.shape.exempt || state.executing < state.limit {
                state.executing += 1;
                state.count(self);
                tally.begins(0.0);
                return Ok(SeatGuard(Some(self.clone())));
            }
            if state.queues.is_empty() {
                return Err(refuse(RejectReason::Limit));
            }
            let at = state.choose_queue(flow);
            if state.queues[at].len() >= state.shape.queue_length_limit {
                return Err(refuse(RejectReason::QueueFull));
            }
            let (sender, turn) = oneshot::channel();
            state.queues[at].push_back(QueuedRequest { turn: sender, who: who() });
            state.waiting += 1;
            state.count(self);
            turn
        };
        let waits = QueuedGauge::new(tally);
        let turn = timeout(LONGEST, turn).await;
        waits.over();
        match turn {
            Ok(Ok(held)) => {
                tally.begins(came.elapsed().as_secs_f64());
                Ok(held)
            }
            _ => Err(refuse(RejectReason::TimedOut)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a waiting request, and counts it as cancelled if it is dropped early.
struct QueuedGauge<'a>(Option<&'a FlowMetrics>);

impl<'a> QueuedGauge<'a> {
    fn new(tally: &'a FlowMetrics) -> Self {
        tally.waiting.fetch_add(1, Relaxed);
        Self(Some(tally))
    }

    fn over(mut self) {
        if let Some(tally) = self.0.take() {
            tally.waiting.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for QueuedGauge<'_> {
    fn drop(&mut self) {
        if let Some(tally) = self.0.take() {
            tally.waiting.fetch_sub(1, Relaxed);
            tally.rejected[RejectReason::Cancelled as usize].fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(limit: usize, queues: usize, longest: usize) -> PriorityLevel {
        let level = PriorityLevel::default();
        let bounds = ConcurrencyBounds { nominal: limit, lower: 0, upper: 10 };
        level.set(
            LevelConfig {
                queues,
                hand_size: 1,
                queue_length_limit: longest,
                ..LevelConfig::default()
            },
            bounds,
        );
        level
    }

    async fn take(level: &PriorityLevel, tally: &FlowMetrics) -> Result<SeatGuard, Status> {
        let who = || RequestDescriptor { schema: "s".into(), flow: "f".into(), arrived: 0 };
        level.acquire(0, who, tally).await
    }

    async fn waits<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }

    #[tokio::test]
    async fn who_comes_too_late_waits_or_is_sent_away() {
        let (strict, tally) = (level(1, 0, 0), FlowMetrics::default());
        let first = take(&strict, &tally).await.unwrap();
        assert_eq!(take(&strict, &tally).await.unwrap_err().code(), 429);
        drop(first);
        assert!(take(&strict, &tally).await.is_ok());
        assert_eq!(tally.rejected[RejectReason::Limit as usize].load(Relaxed), 1);
    }

    #[tokio::test]
    async fn a_place_goes_to_who_waits() {
        let (level, tally) = (level(1, 2, 1), FlowMetrics::default());
        let first = take(&level, &tally).await.unwrap();
        let mut second = Box::pin(take(&level, &tally));
        assert!(waits(&mut second).await, "nobody is done yet");
        assert_eq!(level.sight().queues.concat().len(), 1);
        assert_eq!(take(&level, &tally).await.unwrap_err().code(), 429, "the queue is full");
        drop(first);
        assert!(second.await.is_ok());
        assert_eq!(level.sight().executing, 0);
    }

    #[tokio::test]
    async fn what_is_lent_is_used_at_once_and_given_back_when_it_is_free() {
        let (level, tally) = (level(1, 1, 5), FlowMetrics::default());
        let first = take(&level, &tally).await.unwrap();
        let mut second = Box::pin(take(&level, &tally));
        assert!(waits(&mut second).await);
        assert!(level.borrowing_target().1.lower < 1.5, "more than its own is not sure");
        level.set_limit(2);
        let second = second.await.unwrap();
        level.set_limit(1);
        let mut third = Box::pin(take(&level, &tally));
        assert!(waits(&mut third).await);
        drop(first);
        assert!(waits(&mut third).await, "one seat was another's");
        drop(second);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn who_gives_up_is_counted() {
        let (level, tally) = (level(0, 1, 5), FlowMetrics::default());
        let mut first = Box::pin(take(&level, &tally));
        assert!(waits(&mut first).await);
        assert_eq!(tally.waiting.load(Relaxed), 1);
        drop(first);
        assert_eq!(tally.waiting.load(Relaxed), 0);
        assert_eq!(tally.rejected[RejectReason::Cancelled as usize].load(Relaxed), 1);
    }

    #[test]
    fn seats_are_divided_by_shares() {
        let shape = LevelConfig {
            shares: 30,
            lendable_percent: 50,
            borrowing_limit_percent: Some(100),
            ..LevelConfig::default()
        };
        assert_eq!(
            shape.bounds(600, 245),
            ConcurrencyBounds { nominal: 74, lower: 37, upper: 148 }
        );
        let none = LevelConfig::default().bounds(600, 245);
        assert_eq!(none, ConcurrencyBounds { nominal: 0, lower: 0, upper: 600 });
    }
}
