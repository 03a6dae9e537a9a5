//! Rate limit of container logs, and of the output of commands. A container that writes without end would use up the
//! disk and the CPUs of the node. When the limit is reached its output is not read, so it blocks as with any slow
//! reader.

use std::time::{Duration, Instant};

/// Bytes per second, after a burst of `BURST` bytes.
const RATE: u64 = 4 << 20;
const BURST: u64 = 16 << 20;
/// Minimum number of allowed bytes before output is read again: many small steps would cost more CPU time.
const STEP: u64 = 128 << 10;

/// Token bucket of one log or output.
#[derive(Debug)]
pub(crate) struct Pace {
    left: u64,
    filled: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: BURST, filled: now }
    }

    /// Subtracts what was written.
    pub(crate) fn spend(&mut self, bytes: usize, now: Instant) {
        self.left = self.allowed(now).saturating_sub(bytes as u64);
        self.filled = now;
    }

    /// How long nothing more may be written; `None` if writing is allowed.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let missing = STEP.saturating_sub(self.allowed(now));
        (missing > 0).then(|| Duration::from_micros(missing.saturating_mul(1_000_000) / RATE + 1))
    }

    fn allowed(&self, now: Instant) -> u64 {
        let micros = now.saturating_duration_since(self.filled).as_micros();
        let more = u64::try_from(micros).unwrap_or(u64::MAX).saturating_mul(RATE) / 1_000_000;
        self.left.saturating_add(more).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_slowed_down_and_a_burst_is_not() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        for _ in 0..126 {
            assert_eq!(pace.pause(begin), None);
            pace.spend(128 << 10, begin);
        }
        pace.spend(256 << 10, begin);
        let pause = pace.pause(begin).expect("the burst is over");
        assert!(pause < Duration::from_millis(50), "{pause:?}");
        assert_eq!(pace.pause(begin + pause), None);
        let mut written = 0;
        let mut now = begin;
        while now < begin + Duration::from_secs(10) {
            if let Some(pause) = pace.pause(now) {
                now += pause;
            } else {
                pace.spend(8 << 10, now);
                written += 8 << 10;
            }
        }
        assert!((38 << 20..42 << 20).contains(&written), "{written}");
        assert_eq!(pace.allowed(now + Duration::from_mins(1)), BURST, "it rests");
    }
}
