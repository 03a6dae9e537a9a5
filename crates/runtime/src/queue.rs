//! A work queue that holds each key once, runs it on one worker at a time, and backs off failing keys.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fmt::Debug,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use object::{NamespacedName, bounded_wait};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

const INITIAL_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_secs(1000);

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    queued: HashSet<K>,
    running: HashSet<K>,
    due: HashMap<K, Instant>,
    /// `due`, earliest first.
    delayed: BTreeSet<(Instant, K)>,
    failures: HashMap<K, u32>,
}

/// A work queue with back-off per key.
#[derive(Debug)]
pub struct WorkQueue<K = NamespacedName> {
    state: Mutex<State<K>>,
    wake: Notify,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            due: HashMap::new(),
            delayed: BTreeSet::new(),
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
    }
}

impl<K: Clone + Debug + Eq + Hash + Ord> WorkQueue<K> {
    pub fn add(&self, key: K) {
        if self.state().add(key) {
            self.wake.notify_one();
        }
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        self.state().delay(key, Instant::now() + bounded_wait(delay));
        self.wake.notify_one();
    }

    /// Waits for the next key. Call `done` when finished. Cancel safe.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.state();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.running.insert(key.clone());
                    if !state.ready.is_empty() || !state.delayed.is_empty() {
                        self.wake.notify_one(); // another worker waits for the delayed keys
                    }
                    return key;
                }
                state.delayed.first().map(|(due, _)| *due)
            };
            match due {
                Some(due) => {
                    tokio::select! { () = sleep_until(due) => (), () = self.wake.notified() => () }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Finishes `key`; `ok` resets its back-off, otherwise it is retried later.
    pub fn done(&self, key: K, ok: bool) {
        let mut state = self.state();
        state.running.remove(&key);
        if state.queued.contains(&key) {
            state.ready.push_back(key.clone()); // it was added again while it ran
        }
        if ok {
            state.failures.remove(&key);
        } else {
            let failures = state.failures.entry(key.clone()).or_default();
            let wait = INITIAL_BACKOFF.saturating_mul(1 << (*failures).min(20)).min(MAX_BACKOFF);
            *failures = failures.saturating_add(1);
            state.delay(key, Instant::now() + wait);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The number of waiting keys, without delayed ones.
    pub fn len(&self) -> usize {
        self.state().ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    /// Adds a key; returns whether a worker must be woken.
    fn add(&mut self, key: K) -> bool {
        let is_new = self.queued.insert(key.clone()) && !self.running.contains(&key);
        if is_new {
            self.ready.push_back(key);
        }
        is_new
    }

    fn delay(&mut self, key: K, due: Instant) {
        if let Some(earlier) = self.due.get(&key).copied() {
            if earlier <= due {
                return;
            }
            self.delayed.remove(&(earlier, key.clone()));
        }
        self.due.insert(key.clone(), due);
        self.delayed.insert((due, key));
    }

    fn promote(&mut self, now: Instant) {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_runs_once_at_a_time() {
        let queue = WorkQueue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a"); // changes while it runs
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
        queue.done("a", true);
        assert_eq!(queue.next().await, "a");
        queue.done("a", true);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_and_the_earliest_time_counts() {
        let queue = WorkQueue::default();
        queue.add("a");
        let start = Instant::now();
        for _ in 0..4 {
            queue.done(queue.next().await, false);
        }
        assert_eq!(start.elapsed(), Duration::from_millis(5 + 10 + 20));
        queue.done(queue.next().await, true);
        queue.add_after("b", Duration::from_secs(9));
        queue.add_after("b", Duration::from_secs(3));
        queue.add_after("b", Duration::from_secs(7));
        let start = Instant::now();
        assert_eq!(queue.next().await, "b");
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
