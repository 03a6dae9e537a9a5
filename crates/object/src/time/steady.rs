//! A clock for deadlines and time-outs, which does not jump when the time of day is set.

use std::time::Instant;

use super::{Clock, SystemClock};

/// The time of day when it was created, plus what has passed since by the monotonic clock.
///
/// Setting the system's clock neither ends nor prolongs what is counted by it. It must not be used for timestamps that
/// others read, for certificates or for tokens: those follow the time of day.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    created_micros: i64,
    created: Instant,
}

impl SteadyClock {
    pub fn new() -> Self {
        Self::starting_at(SystemClock.now_micros())
    }

    fn starting_at(created_micros: i64) -> Self {
        Self { created_micros, created: Instant::now() }
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }

    fn now_micros(&self) -> i64 {
        let passed = i64::try_from(self.created.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.created_micros.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_the_time_of_its_creation() {
        let clock = SteadyClock::starting_at(1_900_000_000_000_000);
        let first = clock.now_micros();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let passed = clock.now_micros() - first;
        assert!((1_900_000_000_000_000..1_900_000_060_000_000).contains(&first));
        assert!((20_000..60_000_000).contains(&passed), "{passed} µs have passed");
        let near = SteadyClock::new().now() - SystemClock.now();
        assert!((-1..=1).contains(&near), "{near} s from the time of day");
    }
}
