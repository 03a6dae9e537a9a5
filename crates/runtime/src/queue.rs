//! A work queue that holds each key once, runs it on one worker at a time, and backs off failing keys.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt::Debug,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use object::{NamespacedName, bounded_wait};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{metrics::Metrics, queue_metrics::QueueMetrics};

const INITIAL_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_secs(1000);

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// With the time when each was added.
    queued: HashMap<K, Instant>,
    /// With the time when a worker took it.
    running: HashMap<K, Instant>,
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
    metrics: OnceLock<QueueMetrics>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashMap::new(),
            running: HashMap::new(),
            due: HashMap::new(),
            delayed: BTreeSet::new(),
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), wake: Notify::new(), metrics: OnceLock::new() }
    }
}

impl<K: Clone + Debug + Eq + Hash + Ord> WorkQueue<K> {
    /// Reports the metrics of this queue under `name`. Keys may have been added before.
    pub fn measure(self: &Arc<Self>, name: &str, metrics: &Metrics)
    where
        K: Send + Sync + 'static,
    {
        let own = QueueMetrics::new(name, metrics);
        own.adds.add(self.state().queued.len() as u64);
        if self.metrics.set(own).is_err() {
            return; // already measured
        }
        metrics.on_read(self, |queue, _| {
            let Some(metrics) = queue.metrics.get() else { return };
            let state = queue.state();
            let now = Instant::now();
            let running = state.running.values().map(|began| now.duration_since(*began));
            metrics.report(state.queued.len(), running);
        });
    }

    pub fn add(&self, key: K) {
        let mut state = self.state();
        if state.add(key, self.metrics.get()) {
            drop(state);
            self.wake.notify_one();
        }
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        if let Some(metrics) = self.metrics.get() {
            metrics.retries.add(1);
        }
        self.state().delay(key, Instant::now() + bounded_wait(delay));
        self.wake.notify_one();
    }

    /// Waits for the next key. Call `done` when finished. Cancel safe.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.state();
                let now = Instant::now();
                state.promote(now, self.metrics.get());
                if let Some(key) = state.ready.pop_front() {
                    let added = state.queued.remove(&key);
                    if let (Some(metrics), Some(added)) = (self.metrics.get(), added) {
                        metrics.waited.observe_duration(now.duration_since(added));
                    }
                    state.running.insert(key.clone(), now);
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
        let began = state.running.remove(&key);
        if let (Some(metrics), Some(began)) = (self.metrics.get(), began) {
            metrics.worked.observe_duration(began.elapsed());
            metrics.retries.add(u64::from(!ok));
        }
        if state.queued.contains_key(&key) {
            state.ready.push_back(key.clone()); // it changed while it ran
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
    /// Whether a worker is needed for it.
    fn add(&mut self, key: K, metrics: Option<&QueueMetrics>) -> bool {
        if self.queued.contains_key(&key) {
            return false;
        }
        self.queued.insert(key.clone(), Instant::now());
        if let Some(metrics) = metrics {
            metrics.adds.add(1);
        }
        let is_ready = !self.running.contains_key(&key);
        if is_ready {
            self.ready.push_back(key);
        }
        is_ready
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

    fn promote(&mut self, now: Instant, metrics: Option<&QueueMetrics>) {
        while let Some((due, _)) = self.delayed.first()
            && *due <= now
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.add(key, metrics);
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
    async fn metrics_are_those_of_client_go() {
        let (queue, metrics) = (Arc::new(WorkQueue::default()), Metrics::default());
        queue.add("early");
        queue.measure("q", &metrics);
        queue.add("late");
        queue.add("late"); // there already
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(queue.next().await, "early");
        queue.add("early"); // while it runs
        tokio::time::advance(Duration::from_secs(3)).await;
        let text = || {
            let mut text = String::new();
            metrics.write(&mut text);
            text
        };
        let during = text();
        for line in [
            "workqueue_adds_total{name=\"q\"} 3",
            "workqueue_depth{name=\"q\"} 2",
            "workqueue_unfinished_work_seconds{name=\"q\"} 3",
            "workqueue_longest_running_processor_seconds{name=\"q\"} 3",
            "workqueue_queue_duration_seconds_sum{name=\"q\"} 2",
            "workqueue_work_duration_seconds_count{name=\"q\"} 0",
            "workqueue_retries_total{name=\"q\"} 0",
        ] {
            assert!(during.lines().any(|one| one == line), "{line}\n{during}");
        }
        queue.done("early", false);
        let after = text();
        for line in [
            "workqueue_unfinished_work_seconds{name=\"q\"} 0",
            "workqueue_work_duration_seconds_sum{name=\"q\"} 3",
            "workqueue_retries_total{name=\"q\"} 1",
        ] {
            assert!(after.lines().any(|one| one == line), "{line}\n{after}");
        }
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
