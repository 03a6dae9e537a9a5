//! Seconds that pass whatever the machine's clock is set to. What waits for a while, and would do harm if it waited too
//! short a time, counts these: a node is not lost and a pod not evicted because somebody has set the clock.

use tokio::time::Instant;

/// Since when a controller has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uptime(Instant);

impl Uptime {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.0.elapsed().as_secs()).unwrap_or(i64::MAX)
    }
}

#[tokio::test(start_paused = true)]
async fn seconds_pass() {
    let uptime = Uptime::start();
    assert_eq!(uptime.seconds(), 0);
    tokio::time::sleep(std::time::Duration::from_secs(40)).await;
    assert_eq!(uptime.seconds(), 40);
}
