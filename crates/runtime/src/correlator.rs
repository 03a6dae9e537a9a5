//! Which events are the same, which are similar, and which are too many.
//!
//! What an event says is kept as a hash only: thousands are remembered, nearly all of objects that are gone.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    time::Duration,
};

use object::{NamespacedName, Text};
use tokio::time::Instant;

use crate::{EventType, InvolvedObject};

/// Events that are remembered at most.
const REMEMBERED: usize = 4096;
/// Different messages of one reason before they become one event.
const SIMILAR: usize = 10;
const SIMILAR_FOR: Duration = Duration::from_mins(10);
/// Events about one object: so many at once, then one more each `REFILL`.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_mins(5);
/// How often entries that no longer matter are dropped.
const SWEEP: Duration = Duration::from_mins(1);

/// What similar events have in common.
pub(crate) type Group = (InvolvedObject, EventType, Text);

/// All keys are hashes, with a seed of their own that nobody outside knows.
#[derive(Debug)]
pub(crate) struct Correlator {
    seed: RandomState,
    /// By group and message.
    written: HashMap<u64, Written>,
    /// By group.
    similar: HashMap<u64, Similar>,
    /// By object.
    budgets: HashMap<u64, Budget>,
    swept: Instant,
}

/// An event that was written.
#[derive(Debug)]
struct Written {
    key: NamespacedName,
    count: i64,
    last: Instant,
}

#[derive(Debug)]
struct Similar {
    messages: Vec<u64>,
    last: Instant,
}

#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Instant,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            seed: RandomState::new(),
            written: HashMap::new(),
            similar: HashMap::new(),
            budgets: HashMap::new(),
            swept: Instant::now(),
        }
    }
}

impl Correlator {
    /// The hash of an event: of its group and its message.
    pub(crate) fn event(&self, group: &Group, message: &str) -> u64 {
        self.hash((group, message))
    }

    /// Name and count of the event with this hash, if it was written of late.
    pub(crate) fn written(&self, event: u64) -> Option<(NamespacedName, i64)> {
        self.written.get(&event).map(|written| (written.key.clone(), written.count))
    }

    pub(crate) fn remember(&mut self, event: u64, key: NamespacedName, count: i64) {
        let now = Instant::now();
        self.sweep(now);
        if self.written.len() >= REMEMBERED {
            self.written.clear(); // at worst an event is written anew
        }
        self.written.insert(event, Written { key, count, last: now });
    }

    /// Whether there have been too many different messages of the group of late.
    pub(crate) fn is_similar(&mut self, group: &Group, message: &str) -> bool {
        if self.similar.len() >= REMEMBERED {
            self.similar.clear();
        }
        let (now, message) = (Instant::now(), self.hash(message));
        let new = || Similar { messages: Vec::new(), last: now };
        let group = self.hash(group);
        let similar = self.similar.entry(group).or_insert_with(new);
        if now - similar.last > SIMILAR_FOR {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.contains(&message) {
            return false;
        }
        if similar.messages.len() + 1 >= SIMILAR {
            return true;
        }
        similar.messages.push(message);
        false
    }

    /// Whether one more event about the object may be written.
    pub(crate) fn affords(&mut self, about: &InvolvedObject) -> bool {
        if self.budgets.len() >= REMEMBERED {
            self.budgets.clear();
        }
        let now = Instant::now();
        let object = self.hash(InvolvedObject { field_path: Text::default(), ..about.clone() });
        let new = || Budget { left: BURST, refilled: now };
        let budget = self.budgets.entry(object).or_insert_with(new);
        let earned = budget.earned(now);
        if earned > 0 {
            budget.left = budget.left.saturating_add(earned).min(BURST);
            budget.refilled = now;
        }
        let affords = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        affords
    }

    /// Drops what would be decided the same without it.
    fn sweep(&mut self, now: Instant) {
        if now - self.swept < SWEEP {
            return;
        }
        self.swept = now;
        self.written.retain(|_, written| now - written.last < SIMILAR_FOR);
        self.similar.retain(|_, similar| now - similar.last < SIMILAR_FOR);
        self.budgets.retain(|_, budget| budget.left.saturating_add(budget.earned(now)) < BURST);
        self.written.shrink_to(self.written.len() * 2);
        self.similar.shrink_to(self.similar.len() * 2);
        self.budgets.shrink_to(self.budgets.len() * 2);
    }

    fn hash(&self, what: impl Hash) -> u64 {
        self.seed.hash_one(what)
    }
}

impl Budget {
    fn earned(&self, now: Instant) -> u32 {
        let earned = (now - self.refilled).as_secs() / REFILL.as_secs();
        u32::try_from(earned).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Group {
        let about = InvolvedObject {
            key: Some(NamespacedName::new("ns", name)),
            ..InvolvedObject::default()
        };
        (about, EventType::Normal, "Reason".into())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_dropped() {
        let mut correlator = Correlator::default();
        for nth in 0..1000 {
            let group = group(&nth.to_string());
            assert!(correlator.affords(&group.0));
            assert!(!correlator.is_similar(&group, "message"));
            let event = correlator.event(&group, "message");
            assert_eq!(correlator.written(event), None);
            correlator.remember(event, NamespacedName::new("ns", "event"), 1);
            assert_eq!(correlator.written(event), Some((NamespacedName::new("ns", "event"), 1)));
        }
        tokio::time::advance(SIMILAR_FOR).await;
        let last = group("last");
        let event = correlator.event(&last, "message");
        correlator.remember(event, NamespacedName::new("ns", "event"), 1);
        assert_eq!((correlator.written.len(), correlator.similar.len()), (1, 0));
        assert!(correlator.written.capacity() < 100, "{}", correlator.written.capacity());
        assert!(correlator.budgets.is_empty(), "each would be full again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_spent_budget_is_remembered() {
        let (mut correlator, noisy) = (Correlator::default(), group("noisy"));
        let spent = (0..100).filter(|_| correlator.affords(&noisy.0)).count();
        assert_eq!(spent, 25);
        tokio::time::advance(REFILL * 3).await;
        correlator.remember(1, NamespacedName::new("ns", "event"), 1); // sweeps
        let more = (0..100).filter(|_| correlator.affords(&noisy.0)).count();
        assert_eq!(more, 3, "one more for each time that has passed");
    }
}
