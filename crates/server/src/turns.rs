//! Turns on the processors: all that is done for a caller waits in the queue of its account, and the account that
//! has used the least time goes on next. Tasks would otherwise run in the order in which they were woken, and a
//! caller with a thousand requests would make each other caller wait for a thousand.
//!
//! A turn is one poll of a future. As many as there are processors are given at a time, so that no more than these
//! stand in the runtime's own queue. While nobody waits, a turn costs a lock and no change of tasks.

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
    /// The turn that this thread runs.
    static CURRENT: RefCell<Option<Arc<Turn>>> = const { RefCell::new(None) };
}

/// Who is charged for the time that a turn takes: the hash of an address or of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Account(u64);

impl Account {
    /// Callers cannot choose names that have the same hash: its keys are random.
    pub(crate) fn new(name: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYS.hash_one(name))
    }
}

/// The turns of a server.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    /// So many go on at a time.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: FairQueue<Account, Arc<Turn>>,
    /// Those that have a turn, begun or not.
    going: usize,
    /// Those of them that are of accounts with long turns.
    going_long: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from))
    }
}

/// The place of one future among all.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    place: Mutex<Place>,
    /// Wakes the task that polls the future.
    task: Mutex<Option<Waker>>,
    /// Of a request: that of its connection.
    connection: Option<Arc<Turn>>,
}

#[derive(Debug)]
struct Place {
    phase: Phase,
    /// Who is charged; `None`: it never waits.
    account: Option<Account>,
    /// As what it is one of `State::going`.
    counted: Option<Length>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not polled yet.
    New,
    /// Nothing has happened that it waits for.
    Idle,
    /// It can go on, and waits for its turn.
    Queued,
    /// It has a turn that has not begun.
    Granted,
    Running,
    /// Woken while it ran.
    Again,
    Over,
}

/// A future that goes on when it has a turn.
pub(crate) struct InTurn<F> {
    work: F,
    turn: Arc<Turn>,
    waker: Waker,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most: most.max(1) }
    }

    /// A place for a future that is done for this account.
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

    /// Gives turns to those who wait, as long as there are any to give.
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
    /// Whether there is a turn to give, for an account with turns of this length. Those with long ones get half of the
    /// processors, so that others find one that is free, or soon will be.
    fn has_room(&self, length: Length, most: usize) -> bool {
        let is_room = length == Length::Short || self.going_long < (most / 2).max(1);
        self.going < most && is_room
    }

    /// Gives a turn to whoever can go on, or lets it wait; whether it was given.
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
    pub(crate) fn run<F: Future + Unpin>(self: Arc<Self>, work: F) -> InTurn<F> {
        InTurn { work, waker: Waker::from(self.clone()), turn: self }
    }

    /// A place for a request on this connection, which is charged to the same account at first.
    pub(crate) fn request(self: &Arc<Self>) -> Arc<Self> {
        let account = self.place().account;
        self.turns.turn_in(account, Some(self.clone()))
    }

    /// From now on another account is charged; without one it does not wait any more.
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

    /// Remembers who polls.
    fn polled_by(&self, waker: &Waker) {
        let mut task = self.task();
        if !task.as_ref().is_some_and(|own| own.will_wake(waker)) {
            let old = task.replace(waker.clone());
            drop(task);
            drop(old); // this may end a task, which takes locks
        }
    }

    /// Whether it may go on now.
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

    /// Ends a turn.
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

    /// Leaves its place for good.
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

    /// Lets another go on while this thread does what takes long.
    fn pauses(&self) {
        {
            let mut state = self.turns.state();
            let mut place = self.place();
            state.give_back(&mut place);
        }
        self.turns.dispatch();
    }
}

/// The account of a user. Those of a namespace share one: whoever has a namespace can make any number of them.
/// Administrators never wait.
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

/// Charges the request that this thread handles to whom it is for, and its connection to who authenticated.
pub(crate) fn charge(authenticated: &UserInfo, user: &UserInfo) {
    CURRENT.with_borrow(|current| {
        let Some(turn) = current else { return };
        turn.charge_to(account(user));
        if let Some(connection) = &turn.connection {
            connection.charge_to(account(authenticated));
        }
    });
}

/// Gives the turn of this thread to another: what follows runs beside the workers.
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

/// A turn that is under way; it ends also with a panic.
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
