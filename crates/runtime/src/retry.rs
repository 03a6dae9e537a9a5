//! Exponential back-off with jitter.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Exponential back-off with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
    random: RandomState,
}

impl Backoff {
    pub fn new(first: Duration, last: Duration) -> Self {
        Self { initial: first, max: last, next: first, random: RandomState::new() }
    }

    /// The next delay: between half and one and a half of a duration that doubles with each call.
    pub fn next_delay(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.max);
        self.random = RandomState::new();
        let part = u32::try_from(self.random.hash_one(wait) % 1000).unwrap_or_default();
        wait / 2 + wait * part / 1000
    }

    /// Resets to the initial delay after a success.
    pub fn reset(&mut self) {
        self.next = self.initial;
    }
}

#[test]
fn waits_grow_to_a_limit() {
    let (first, last) = (Duration::from_secs(1), Duration::from_secs(8));
    let mut retry = Backoff::new(first, last);
    for expected in [1, 2, 4, 8, 8] {
        let (wait, middle) = (retry.next_delay(), Duration::from_secs(expected));
        assert!(wait >= middle / 2 && wait <= middle * 3 / 2, "{wait:?}");
    }
    retry.reset();
    assert!(retry.next_delay() <= first * 3 / 2);
}
