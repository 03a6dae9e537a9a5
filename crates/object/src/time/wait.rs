//! Durations from untrusted input, bounded so that they can be added to any time.

use std::time::Duration;

/// A hundred years, which stands for "for ever". It can be added to any time on any clock.
const FOR_EVER: Duration = Duration::from_hours(100 * 365 * 24);

/// A duration of that many seconds: zero if negative, and at most a hundred years.
pub fn wait_seconds(seconds: i64) -> Duration {
    bounded_wait(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// Seconds left at `now` of a wait that began at `since`; negative when it is over. All of them may come from an object
/// and have any value.
pub fn seconds_left(since: i64, wait: i64, now: i64) -> i64 {
    since.saturating_add(wait).saturating_sub(now)
}

/// The duration, limited to a hundred years.
pub fn bounded_wait(wait: Duration) -> Duration {
    wait.min(FOR_EVER)
}

#[test]
fn every_wait_can_be_added_to_a_moment() {
    let now = std::time::Instant::now();
    for seconds in [i64::MIN, -1, 0, 1, i64::MAX] {
        assert!(now.checked_add(wait_seconds(seconds)).is_some(), "{seconds}");
    }
    assert_eq!(seconds_left(100, 10, 104), 6);
    assert_eq!(seconds_left(i64::MAX, i64::MAX, i64::MIN), i64::MAX);
    assert_eq!(seconds_left(i64::MIN, -1, i64::MAX), i64::MIN);
    assert_eq!(wait_seconds(-7), Duration::ZERO);
    assert_eq!(wait_seconds(7), Duration::from_secs(7));
    assert_eq!(bounded_wait(Duration::MAX), FOR_EVER);
}
