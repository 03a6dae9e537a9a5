//! Fair scheduling of CPU time between callers. Futures of a caller wait in the queue of its
//! account, and the account that has used the least time runs next. Tokio would otherwise run tasks
//! in the order in which they were woken, and a caller with a thousand requests would make every
//! other caller wait for a thousand polls.
//!
//! A turn is one poll of a future. At most as many turns are granted at a time as there are
//! processors, so that no more tasks are in the runtime's own queue. Without contention a turn
//! costs a lock and no task switch.

mod queue;

use std::{
    cell::RefCell,
    hash::{BuildHasher as _, Hash, RandomState},
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::available_parallelism,
    time::Instant,
};

use self::queue::{FairQueue, Length};
use crate::UserInfo;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

thread_local! {
    /// The turn that runs on this thread.
    static CURRENT: RefCell<Option<Arc<Turn>>> = const { RefCell::new(None) };
}

/// The account that a turn is charged to: the hash of an address or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Account(u64);

impl Account {
    /// Hashes a name. The hash keys are random, so callers cannot choose colliding names.
    pub(crate) fn new(name: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYS.hash_one(name))
    }
}

/// The scheduler of a server's turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// Maximum number of concurrent turns.
    most: usize,
}

/// Waiting and granted turns.
#[derive(Debug, Default)]
struct State {
    waiting: FairQueue<Account, Arc<Turn>>,
    /// Granted turns, running or not.
    going: usize,
    /// Granted turns of accounts with long turns.
    going_long: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from))
    }
}

/// The scheduling state of one future.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    place: Mutex<Place>,
    /// Wakes the task that polls the future.
    task: Mutex<Option<Waker>>,
    /// For a request: the turn of its connection.
    connection: Option<Arc<Turn>>,
}

/// Phase and account of a turn.
#[derive(Debug)]
struct Place {
    phase: Phase,
    /// The account to charge; `None` means that it never waits.
    account: Option<Account>,
    /// How it is counted in `State::going`.
    counted: Option<Length>,
}

/// The phase of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not polled yet.
    New,
    /// Waits for an event.
    Idle,
    /// Ready, and waits for its turn.
    Queued,
    /// Has a turn, but has not been polled yet.
    Granted,
    Running,
    /// Woken while it was running.
    Again,
    Over,
}

/// A future that is only polled when it has a turn.
pub(crate) struct InTurn<F> {
    work: F,
    turn: Arc<Turn>,
    waker: Waker,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most: most.max(1) }
    }

    /// The turn of a future that is charged to this account.
    pub(crate) fn turn(self: &Arc<Self>, account: Account) -> Arc<Turn> {
        self.turn_in(Some(account), None)
    }

    fn turn_in(
        self: &Arc<Self>,
        account: Option<Account>,
        connection: Option<Arc<Turn>>,
    ) -> Arc<Turn> {
        let place = Mutex::new(Place { phase: Phase::New, account, counted: None });
        Arc::new(Turn { turns: self.clone(), place, task: Mutex::default(), connection })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants turns to waiting futures while there is capacity.
    fn dispatch(&self) {
        loop {
            let next = self.state().next(self.most);
            match next {
                Some(turn) => turn.wake_task(),
                None => return,
            }
        }
    }
}

impl State {
    /// Whether a turn can be granted to an account with turns of this length. Accounts with long
    /// turns get half of the processors, so that others find a free one soon.
    fn has_room(&self, length: Length, most: usize) -> bool {
        let is_room = length == Length::Short || self.going_long < (most / 2).max(1);
        self.going < most && is_room
    }

    /// Grants a turn, or queues the future; returns whether it was granted.
    fn arrange(&mut self, turn: &Arc<Turn>, place: &mut Place, most: usize) -> bool {
        let Some(account) = place.account else {
            place.phase = Phase::Granted;
            return true;
        };
        let length = self.waiting.length(account);
        if self.has_room(length, most) && !self.waiting.waits(length) {
            self.waiting.begin(account);
            self.give(place, length);
            return true;
        }
        self.waiting.push(account, turn.clone());
        place.phase = Phase::Queued;
        false
    }

    fn next(&mut self, most: usize) -> Option<Arc<Turn>> {
        while self.has_room(Length::Short, most) {
            let (turn, length) = self.waiting.pop(self.has_room(Length::Long, most))?;
            let mut place = turn.place();
            if place.phase == Phase::Queued {
                self.give(&mut place, length);
                drop(place);
                return Some(turn);
            }
        }
        None
    }

    fn give(&mut self, place: &mut Place, length: Length) {
        self.going += 1;
        self.going_long += usize::from(length == Length::Long);
        (place.phase, place.counted) = (Phase::Granted, Some(length));
    }

    fn give_back(&mut self, place: &mut Place) {
        if let Some(length) = place.counted.take() {
            self.going -= 1;
            self.going_long -= usize::from(length == Length::Long);
        }
    }
}

impl Turn {
    /// Wraps a future, so that it runs in turns.
    pub(crate) fn run<F: Future + Unpin>(self: Arc<Self>, work: F) -> InTurn<F> {
        InTurn { work, waker: Waker::from(self.clone()), turn: self }
    }

    /// The turn of a request on this connection, charged to the connection's account at first.
    pub(crate) fn request(self: &Arc<Self>) -> Arc<Self> {
        let account = self.place().account;
        self.turns.turn_in(account, Some(self.clone()))
    }

    /// Changes the account; with `None` it does not wait any more.
    pub(crate) fn charge_to(&self, account: Option<Account>) {
        self.place().account = account;
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_task(&self) {
        let task = self.task().clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Stores the waker of the polling task.
    fn polled_by(&self, waker: &Waker) {
        let mut task = self.task();
        if !task.as_ref().is_some_and(|own| own.will_wake(waker)) {
            let old = task.replace(waker.clone());
            drop(task);
            drop(old); // this may drop a task, which takes locks
        }
    }

    /// Whether it may run now.
    fn begins(self: &Arc<Self>) -> bool {
        let mut state = self.turns.state();
        let mut place = self.place();
        let has_turn = match place.phase {
            Phase::Granted => true,
            Phase::New => state.arrange(self, &mut place, self.turns.most),
            _ => false,
        };
        if has_turn {
            place.phase = Phase::Running;
        }
        has_turn
    }

    /// Ends a turn and charges its time.
    fn ends(self: &Arc<Self>, began: Instant, is_over: bool) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (has_turn, others_wait) = {
            let mut state = self.turns.state();
            let mut place = self.place();
            if let Some(account) = place.account {
                state.waiting.charge(account, nanos);
            }
            state.give_back(&mut place);
            let again = place.phase == Phase::Again && !is_over;
            place.phase = if is_over { Phase::Over } else { Phase::Idle };
            let has_turn = again && state.arrange(self, &mut place, self.turns.most);
            (has_turn, !state.waiting.is_empty())
        };
        if has_turn {
            self.wake_task();
        }
        if others_wait {
            self.turns.dispatch();
        }
    }

    /// Releases the turn when the future is dropped.
    fn leaves(&self) {
        {
            let mut state = self.turns.state();
            let mut place = self.place();
            state.give_back(&mut place);
            place.phase = Phase::Over;
        }
        let task = self.task().take();
        drop(task);
        self.turns.dispatch();
    }

    /// Releases the turn while this thread does blocking work.
    fn pauses(&self) {
        {
            let mut state = self.turns.state();
            let mut place = self.place();
            state.give_back(&mut place);
        }
        self.turns.dispatch();
    }
}

/// The account of a user. All service accounts of a namespace share one, because whoever owns the
/// namespace can create any number of them. `system:masters` never wait.
pub(crate) fn account(user: &UserInfo) -> Option<Account> {
    if user.in_group("system:masters") {
        return None;
    }
    let namespace = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|name| name.split(':').next());
    Some(
        namespace
            .map_or_else(|| Account::new(&*user.name), |own| Account::new((SERVICE_ACCOUNT, own))),
    )
}

/// Charges the current request to its effective user, and its connection to the authenticated user.
pub(crate) fn charge(authenticated: &UserInfo, user: &UserInfo) {
    CURRENT.with_borrow(|current| {
        let Some(turn) = current else { return };
        turn.charge_to(account(user));
        if let Some(connection) = &turn.connection {
            connection.charge_to(account(authenticated));
        }
    });
}

/// Releases the current turn: what follows runs outside the async workers.
pub(crate) fn pause() {
    let current = CURRENT.with_borrow(Clone::clone);
    if let Some(turn) = current {
        turn.pauses();
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let has_turn = {
            let mut state = self.turns.state();
            let mut place = self.place();
            match place.phase {
                Phase::Idle => state.arrange(self, &mut place, self.turns.most),
                Phase::Running => {
                    place.phase = Phase::Again;
                    false
                }
                _ => false,
            }
        };
        if has_turn {
            self.wake_task();
        }
    }
}

impl<F: Future + Unpin> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.turn.polled_by(cx.waker());
        if !this.turn.begins() {
            return Poll::Pending;
        }
        let mut running = Running::begin(this.turn.clone());
        let polled = Pin::new(&mut this.work).poll(&mut Context::from_waker(&this.waker));
        running.is_over = polled.is_ready();
        polled
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        self.turn.leaves();
    }
}

/// A running turn; it also ends on a panic.
struct Running {
    turn: Arc<Turn>,
    before: Option<Arc<Turn>>,
    began: Instant,
    is_over: bool,
}

impl Running {
    fn begin(turn: Arc<Turn>) -> Self {
        let before = CURRENT.replace(Some(turn.clone()));
        Self { turn, before, began: Instant::now(), is_over: false }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
        self.turn.ends(self.began, self.is_over);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is tested is what runs in tasks")]
mod tests;
