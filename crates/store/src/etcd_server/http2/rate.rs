//! Rate limits for operations that are cheap for a client and expensive for the server.

use std::time::Instant;

/// A token bucket: a burst, refilled by a number of tokens per second.
#[derive(Debug)]
pub(super) struct Rate {
    left: u32,
    burst: u32,
    per_second: u32,
    since: Instant,
}

impl Rate {
    pub(super) fn new(burst: u32, per_second: u32) -> Self {
        Self { left: burst, burst, per_second, since: Instant::now() }
    }

    /// Takes a token; false if there is none.
    pub(super) fn allows(&mut self) -> bool {
        if self.left == 0 {
            let seconds = u32::try_from(self.since.elapsed().as_secs()).unwrap_or(u32::MAX);
            if seconds > 0 {
                self.left = seconds.saturating_mul(self.per_second).min(self.burst);
                self.since = Instant::now();
            }
        }
        self.left = match self.left.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}
