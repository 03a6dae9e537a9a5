//! The scheduling queue.
//!
//! ```text
//!  active         to be scheduled now, by priority, then by age
//!  backoff        failed recently; active again when the backoff expires
//!  unschedulable  no node fits; wait for a cluster event
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use api::core::Pod;
use object::{NamespacedName, Text};
use tokio::time::Instant;

const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A pod is retried after this time, even if no cluster event was observed.
const MAX_UNSCHEDULABLE_DURATION: Duration = Duration::from_mins(5);

/// Initial and maximum backoff of an unschedulable pod.
pub fn backoff() -> (Duration, Duration) {
    (INITIAL_BACKOFF, MAX_BACKOFF)
}

/// A queued pod.
#[derive(Debug)]
struct Entry {
    key: NamespacedName,
    priority: i32,
    sequence: u64,
    failures: u32,
    state: QueueState,
    /// When it was added to the queue.
    added: Instant,
    /// Plugins that rejected it in the last attempt.
    rejected_by: Vec<&'static str>,
    /// A digest of the reasons that its status was last written with.
    recorded_reasons: Option<u64>,
}

/// Which queue a pod is in; with the time at which it leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueState {
    Active,
    Backoff(Instant),
    Unschedulable(Instant),
    /// Being scheduled; contains the event counter at the start.
    InFlight(u64),
}

/// The scheduling queue. Pods are identified by uid.
#[derive(Debug, Default)]
pub(crate) struct SchedulingQueue {
    pods: HashMap<Text, Entry>,
    ready: BTreeSet<(Reverse<i32>, u64, Text)>,
    delayed: BTreeSet<(Instant, Text)>,
    cluster_events: u64,
    next_sequence: u64,
    incoming: BTreeMap<(&'static str, &'static str), u64>,
}

/// Number of pending pods by queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) active: usize,
    pub(crate) backoff: usize,
    pub(crate) unschedulable: usize,
}

/// The pod to schedule next.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) uid: Text,
    pub(crate) key: NamespacedName,
    /// When it was added to the queue.
    pub(crate) queued: Instant,
    /// Number of this attempt, starting at 1.
    pub(crate) attempts: u32,
}

impl SchedulingQueue {
    /// Adds a pod that is new, or whose spec has changed.
    pub(crate) fn add(&mut self, pod: &Pod) {
        let uid = Text::from(pod.metadata().uid());
        match self.pods.get(&uid).map(|entry| entry.state) {
            Some(QueueState::Unschedulable(_)) => {
                self.count("active", "UnscheduledPodUpdate");
                self.move_to(uid, QueueState::Active);
            }
            Some(_) => {}
            None => {
                self.next_sequence += 1;
                let entry = Entry {
                    key: NamespacedName::from_meta(pod.metadata()),
                    priority: pod.spec().priority().unwrap_or_default(),
                    sequence: self.next_sequence,
                    failures: 0,
                    state: QueueState::InFlight(0),
                    added: Instant::now(),
                    rejected_by: Vec::new(),
                    recorded_reasons: None,
                };
                self.pods.insert(uid.clone(), entry);
                self.count("active", "UnscheduledPodAdd");
                self.move_to(uid, QueueState::Active);
            }
        }
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        self.unlink(uid);
        self.pods.remove(uid);
    }

    /// The digest of the reasons last written to the pod's status.
    pub(crate) fn recorded_reasons(&self, uid: &str) -> Option<u64> {
        self.pods.get(uid)?.recorded_reasons
    }

    pub(crate) fn record_reasons(&mut self, uid: &str, digest: u64) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.recorded_reasons = Some(digest);
        }
    }

    /// Takes the next pod to schedule.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Next> {
        while let Some((due, uid)) = self.delayed.first().cloned()
            && due <= now
        {
            let stuck = matches!(self.pods[&uid].state, QueueState::Unschedulable(_));
            self.count("active", if stuck { "UnschedulableTimeout" } else { "BackoffComplete" });
            self.move_to(uid, QueueState::Active);
        }
        let (_, _, uid) = self.ready.first().cloned()?;
        let entry = &self.pods[&uid];
        let (key, queued) = (entry.key.clone(), entry.added);
        let next = Next { uid, key, queued, attempts: entry.failures.saturating_add(1) };
        self.move_to(next.uid.clone(), QueueState::InFlight(self.cluster_events));
        Some(next)
    }

    /// When the next backoff or timeout expires.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// Puts a pod back after a failed attempt. With `stuck` it waits for a cluster event, unless
    /// one has occurred during the attempt; otherwise it backs off.
    pub(crate) fn requeue_failed(&mut self, uid: &Text, stuck: bool, now: Instant) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let changed =
            matches!(entry.state, QueueState::InFlight(since) if since != self.cluster_events);
        let until = now + backoff_duration(entry.failures);
        let place = if stuck && !changed {
            QueueState::Unschedulable(now + MAX_UNSCHEDULABLE_DURATION)
        } else {
            QueueState::Backoff(until)
        };
        let queue =
            if let QueueState::Unschedulable(_) = place { "unschedulable" } else { "backoff" };
        self.count(queue, "ScheduleAttemptFailure");
        self.move_to(uid.clone(), place);
    }

    /// Records the plugins that rejected a pod on some node in the last attempt.
    pub(crate) fn reject(&mut self, uid: &str, plugins: impl Iterator<Item = &'static str>) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.rejected_by = plugins.collect();
        }
    }

    pub(crate) fn pending(&self) -> Pending {
        let mut pending = Pending::default();
        for entry in self.pods.values() {
            match entry.state {
                QueueState::Active => pending.active += 1,
                QueueState::Backoff(_) => pending.backoff += 1,
                QueueState::Unschedulable(_) => pending.unschedulable += 1,
                QueueState::InFlight(_) => {}
            }
        }
        pending
    }

    /// The plugins that rejected each pending pod.
    pub(crate) fn rejected_by(&self) -> impl Iterator<Item = &'static str> {
        let waits = |entry: &&Entry| !matches!(entry.state, QueueState::InFlight(_));
        self.pods.values().filter(waits).flat_map(|entry| entry.rejected_by.iter().copied())
    }

    /// How many pods were added to each queue, by queue and event.
    pub(crate) fn incoming(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        self.incoming.iter().map(|(key, count)| (*key, *count))
    }

    fn count(&mut self, queue: &'static str, event: &'static str) {
        *self.incoming.entry((queue, event)).or_default() += 1;
    }

    /// Moves unschedulable pods to the backoff queue after a cluster event that may help; `event`
    /// names it in metrics.
    pub(crate) fn move_unschedulable_to_backoff(&mut self, event: &'static str, now: Instant) {
        self.cluster_events += 1;
        let stuck = self
            .pods
            .iter()
            .filter(|(_, entry)| matches!(entry.state, QueueState::Unschedulable(_)));
        let stuck: Vec<_> = stuck.map(|(uid, entry)| (uid.clone(), entry.failures)).collect();
        for (uid, failures) in stuck {
            let QueueState::Unschedulable(until) = self.pods[&uid].state else { continue };
            let failed_at = until.checked_sub(MAX_UNSCHEDULABLE_DURATION).unwrap_or(now);
            self.count("backoff", event);
            self.move_to(uid, QueueState::Backoff(failed_at + backoff_duration(failures)));
        }
    }

    fn move_to(&mut self, uid: Text, place: QueueState) {
        self.unlink(&uid);
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.state = place;
        match place {
            QueueState::Active => {
                self.ready.insert((Reverse(entry.priority), entry.sequence, uid));
            }
            QueueState::Backoff(until) | QueueState::Unschedulable(until) => {
                self.delayed.insert((until, uid));
            }
            QueueState::InFlight(_) => {}
        }
    }

    fn unlink(&mut self, uid: &str) {
        let Some(entry) = self.pods.get(uid) else { return };
        match entry.state {
            QueueState::Active => {
                self.ready.remove(&(Reverse(entry.priority), entry.sequence, uid.into()));
            }
            QueueState::Backoff(until) | QueueState::Unschedulable(until) => {
                self.delayed.remove(&(until, uid.into()));
            }
            QueueState::InFlight(_) => {}
        }
    }
}

fn backoff_duration(failures: u32) -> Duration {
    INITIAL_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use object::ObjectMeta;

    use super::*;

    fn pod(name: &str, priority: i32) -> Pod {
        let mut pod = Pod::new().with_metadata(ObjectMeta::new().with_name(name).with_uid(name));
        pod.spec_mut().set_priority(priority);
        pod
    }

    fn pop(waiting: &mut SchedulingQueue, now: Instant) -> Option<String> {
        waiting.pop(now).map(|next| next.uid.into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_important_go_first_and_failures_wait() {
        let (mut waiting, now) = (SchedulingQueue::default(), Instant::now());
        waiting.add(&pod("a", 0));
        waiting.add(&pod("b", 5));
        waiting.add(&pod("c", 0));
        let order: Vec<_> = (0..3).filter_map(|_| pop(&mut waiting, now)).collect();
        assert_eq!(order, ["b", "a", "c"]);
        waiting.requeue_failed(&"a".into(), false, now);
        assert_eq!(pop(&mut waiting, now), None);
        assert_eq!(pop(&mut waiting, now + INITIAL_BACKOFF).as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_frees_those_who_are_stuck() {
        let (mut waiting, now) = (SchedulingQueue::default(), Instant::now());
        waiting.add(&pod("a", 0));
        pop(&mut waiting, now);
        waiting.requeue_failed(&"a".into(), true, now);
        assert_eq!(pop(&mut waiting, now + MAX_BACKOFF), None, "nothing has changed");
        waiting.move_unschedulable_to_backoff("NodeAdd", now);
        assert_eq!(pop(&mut waiting, now + INITIAL_BACKOFF).as_deref(), Some("a"));
        waiting.move_unschedulable_to_backoff("NodeAdd", now); // while it is being scheduled
        waiting.requeue_failed(&"a".into(), true, now);
        assert_eq!(pop(&mut waiting, now + MAX_BACKOFF).as_deref(), Some("a"));
        waiting.requeue_failed(&"a".into(), true, now);
        assert_eq!(waiting.next_due(), Some(now + MAX_UNSCHEDULABLE_DURATION));
        waiting.reject("a", ["NodeAffinity"].into_iter());
        assert_eq!(waiting.rejected_by().collect::<Vec<_>>(), ["NodeAffinity"]);
        assert_eq!(waiting.pending(), Pending { unschedulable: 1, ..Pending::default() });
        let incoming: Vec<_> = waiting.incoming().collect();
        let expected = [
            (("active", "BackoffComplete"), 2),
            (("active", "UnscheduledPodAdd"), 1),
            (("backoff", "NodeAdd"), 1),
            (("backoff", "ScheduleAttemptFailure"), 1),
            (("unschedulable", "ScheduleAttemptFailure"), 2),
        ];
        assert_eq!(incoming, expected);
        waiting.remove("a");
        assert_eq!((waiting.next_due(), waiting.pods.len()), (None, 0));
    }
}
