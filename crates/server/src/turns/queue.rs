//! Fair queue: the account that has used the least CPU time is next.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::Hash,
};

/// How far an account may be behind the others, in nanoseconds: one that was idle runs before busy
/// ones, but cannot save up more than this.
const CREDIT: u64 = 20_000_000;
/// A turn longer than this, in nanoseconds, delays others noticeably. Debug builds are ten times as
/// slow.
const LONG: u64 = if cfg!(debug_assertions) { 20_000_000 } else { 2_000_000 };
/// An account counts as long until it has used this much time in short turns.
const CALM: u64 = 50 * LONG;
/// Maximum number of accounts without waiting items.
const KEPT: usize = 1024;

/// Whether an account has long turns, which may use only a part of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// Queues of waiting items, one for each account. Virtual time is the used time of the account that
/// was served last.
#[derive(Debug)]
pub(super) struct FairQueue<K, T> {
    accounts: HashMap<K, Account<T>>,
    /// Accounts with waiting items, by used time.
    short: BTreeSet<(u64, K)>,
    long: BTreeSet<(u64, K)>,
    virtual_time: u64,
    /// Number of accounts at which unimportant ones are dropped.
    forget_at: usize,
}

/// An account with its waiting items.
#[derive(Debug)]
struct Account<T> {
    used: u64,
    /// Time used since the last long turn.
    since_long: u64,
    waiting: VecDeque<T>,
}

impl<T> Account<T> {
    fn length(&self) -> Length {
        if self.since_long < CALM { Length::Long } else { Length::Short }
    }
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        let (short, long) = (BTreeSet::new(), BTreeSet::new());
        Self { accounts: HashMap::new(), short, long, virtual_time: 0, forget_at: KEPT }
    }
}

impl<K: Copy + Eq + Hash + Ord, T> FairQueue<K, T> {
    pub(super) fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// Whether an account with turns of this length is waiting.
    pub(super) fn waits(&self, length: Length) -> bool {
        match length {
            Length::Short => !self.short.is_empty(),
            Length::Long => !self.long.is_empty(),
        }
    }

    pub(super) fn push(&mut self, key: K, item: T) {
        let account = self.account(key);
        account.waiting.push_back(item);
        if account.waiting.len() == 1 {
            let (used, length) = (account.used, account.length());
            self.order(length).insert((used, key));
        }
    }

    /// Takes the next item; from accounts with long turns only if there `is_room`.
    pub(super) fn pop(&mut self, is_room: bool) -> Option<(T, Length)> {
        let short = self.short.first().copied();
        let long = self.long.first().copied().filter(|_| is_room);
        let (used, key) = match (short, long) {
            (Some(short), Some(long)) => short.min(long),
            (short, long) => short.or(long)?,
        };
        self.virtual_time = self.virtual_time.max(used);
        let account = self.accounts.get_mut(&key)?;
        let (item, length) = (account.waiting.pop_front()?, account.length());
        if account.waiting.is_empty() {
            self.order(length).remove(&(used, key));
        }
        Some((item, length))
    }

    /// Records that an account runs without having waited.
    pub(super) fn begin(&mut self, key: K) {
        let used = self.account(key).used;
        self.virtual_time = self.virtual_time.max(used);
    }

    pub(super) fn length(&mut self, key: K) -> Length {
        self.account(key).length()
    }

    pub(super) fn charge(&mut self, key: K, nanos: u64) {
        let account = self.account(key);
        let before = (account.used, account.length());
        account.used = account.used.saturating_add(nanos);
        account.since_long =
            if nanos > LONG { 0 } else { account.since_long.saturating_add(nanos) };
        let after = (account.used, account.length());
        if !account.waiting.is_empty() {
            self.order(before.1).remove(&(before.0, key));
            self.order(after.1).insert((after.0, key));
        }
        if self.accounts.len() > self.forget_at {
            self.forget();
        }
    }

    fn order(&mut self, length: Length) -> &mut BTreeSet<(u64, K)> {
        match length {
            Length::Short => &mut self.short,
            Length::Long => &mut self.long,
        }
    }

    /// Drops accounts without waiting items; those that have used much more than others only if
    /// there are too many.
    fn forget(&mut self) {
        let much = self.virtual_time.saturating_add(CREDIT);
        self.accounts.retain(|_, own| !own.waiting.is_empty() || own.used > much);
        if self.accounts.len() > KEPT {
            self.accounts.retain(|_, own| !own.waiting.is_empty());
        }
        self.forget_at = KEPT.max(2 * self.accounts.len());
    }

    /// The account; if nothing of it waits, its used time is raised to the present minus the
    /// credit.
    fn account(&mut self, key: K) -> &mut Account<T> {
        let least = self.virtual_time.saturating_sub(CREDIT);
        let account = self.accounts.entry(key).or_insert_with(|| Account {
            used: least,
            since_long: CALM,
            waiting: VecDeque::new(),
        });
        if account.waiting.is_empty() {
            account.used = account.used.max(least);
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves `count` items with this cost each; returns the accounts in the order in which they
    /// were served.
    fn serve(queue: &mut FairQueue<&'static str, &'static str>, count: usize, cost: u64) -> String {
        let mut served = String::new();
        for _ in 0..count {
            let Some(account) = queue.pop(true).map(|next| next.0) else { break };
            served.push_str(account);
            queue.charge(account, cost);
        }
        served
    }

    #[test]
    fn who_waits_with_much_lets_others_pass() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|_| queue.push("b", "b"));
        assert_eq!(serve(&mut queue, 4, 5_000_000), "bbbb");
        queue.push("g", "g");
        assert_eq!(serve(&mut queue, 3, 5_000_000), "gbb");
        assert_eq!(serve(&mut queue, 9, 5_000_000), "bbbb");
        assert!(queue.is_empty());
    }

    #[test]
    fn two_who_want_all_get_half_each_by_time() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|_| queue.push("a", "a"));
        (0..100).for_each(|_| queue.push("b", "b"));
        let mut time = HashMap::from([("a", 0_u64), ("b", 0_u64)]);
        for _ in 0..100 {
            let account = queue.pop(true).unwrap().0;
            let cost = if account == "a" { 3_000_000 } else { 1_000_000 };
            queue.charge(account, cost);
            *time.get_mut(account).unwrap() += cost;
        }
        assert!(time["a"].abs_diff(time["b"]) <= 6_000_000, "{time:?}");
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|_| queue.push("b", "b"));
        serve(&mut queue, 500, 10_000_000);
        (0..100).for_each(|_| queue.push("g", "g"));
        let served = serve(&mut queue, 20, 10_000_000);
        assert!(served.starts_with("gg") && served.contains("gb"), "{served}");
        assert!(served.matches('b').count() >= 8, "{served}");
    }

    #[test]
    fn accounts_are_forgotten() {
        let mut queue = FairQueue::<u32, ()>::default();
        for at in 0..100_000 {
            queue.begin(at);
            queue.charge(at, 1000);
        }
        assert!(queue.accounts.len() <= KEPT + 1, "{}", queue.accounts.len());
    }

    #[test]
    fn accounts_with_long_turns_leave_room_for_others() {
        let mut queue = FairQueue::default();
        assert_eq!(queue.length("b"), Length::Short);
        queue.push("b", "b");
        queue.charge("b", LONG + 1);
        assert!(queue.waits(Length::Long) && !queue.waits(Length::Short));
        assert_eq!(queue.pop(false), None, "no room");
        queue.push("g", "g");
        assert_eq!(queue.pop(false), Some(("g", Length::Short)));
        assert_eq!(queue.pop(true), Some(("b", Length::Long)));
        assert!(queue.is_empty());
        (0..50).for_each(|_| queue.charge("b", LONG));
        assert_eq!(queue.length("b"), Length::Short, "it has calmed down");
    }
}
