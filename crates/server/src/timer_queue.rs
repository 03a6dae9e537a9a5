//! Timer queue shared by all watches. A watch registers a deadline and a waker, and one Tokio timer
//! serves the whole queue; thousands of idle watches would otherwise need a timer each.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How many watches are ended per second during shutdown, so that clients do not reconnect all at
/// once.
const A_SECOND: u32 = 2_000;
/// Number of steps that the shutdown period is divided into.
const STEPS: u32 = 997;
/// Distance between the steps of consecutive timers. It is large, so that a few timers are spread
/// as evenly as many.
const STRIDE: u64 = 616;

/// The queue of timers.
#[derive(Default)]
pub(crate) struct TimerQueue {
    sleepers: Mutex<TimerEntries>,
    /// Notified when a timer is set that is earlier than all others.
    earlier: Notify,
    /// When the shutdown began, and the time over which timers are ended.
    over: OnceLock<(Instant, Duration)>,
}

/// The set timers, by deadline.
#[derive(Default)]
struct TimerEntries {
    by_time: BTreeMap<(Instant, u64), Waker>,
    last: u64,
}

impl fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bell")
    }
}

/// A timer of the queue. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct Timer {
    bell: Arc<TimerQueue>,
    at: Instant,
    number: u64,
    /// When it fires, if it is set.
    set: Option<Instant>,
}

impl TimerQueue {
    /// Wakes the tasks of expired timers, for ever.
    pub(crate) async fn run(&self) {
        loop {
            let next = self.sleepers().by_time.first_key_value().map(|(at, _)| at.0);
            match next {
                None => self.earlier.notified().await,
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.earlier.notified() => {}
                },
            }
            let due = {
                let mut sleepers = self.sleepers();
                let later = sleepers.by_time.split_off(&(Instant::now(), u64::MAX));
                std::mem::replace(&mut sleepers.by_time, later)
            };
            due.into_values().for_each(Waker::wake);
        }
    }

    /// Creates a timer for `at`; it has no effect until it is set.
    pub(crate) fn timer(self: &Arc<Self>, at: Instant) -> Timer {
        let mut sleepers = self.sleepers();
        sleepers.last += 1;
        Timer { bell: self.clone(), at, number: sleepers.last, set: None }
    }

    /// Starts the shutdown: timers end spread over `spread`, or over a longer time if they are very
    /// many.
    pub(crate) fn shut_down(&self, spread: Duration) {
        let count = u32::try_from(self.sleepers().by_time.len()).unwrap_or(u32::MAX);
        let shortest = Duration::from_secs(1) * (count / A_SECOND);
        let _ = self.over.set((Instant::now(), spread.max(shortest))); // the first call counts
        // Timers set from here on know of the shutdown. The others are woken, so that their tasks
        // set them again.
        let all = std::mem::take(&mut self.sleepers().by_time);
        all.into_values().for_each(Waker::wake);
    }

    fn sleepers(&self) -> MutexGuard<'_, TimerEntries> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer {
    /// Sets the waker of the task to wake.
    pub(crate) fn set(&mut self, waker: &Waker) {
        let at = self.shutdown_at().map_or(self.at, |turn| turn.min(self.at));
        let (number, before) = (self.number, self.set.replace(at));
        let mut sleepers = self.bell.sleepers();
        if let Some(before) = before.filter(|before| *before != at) {
            sleepers.by_time.remove(&(before, number));
        }
        let first = sleepers.by_time.first_key_value().is_none_or(|(first, _)| at < first.0);
        match sleepers.by_time.get_mut(&(at, number)) {
            Some(known) => known.clone_from(waker),
            None => drop(sleepers.by_time.insert((at, number), waker.clone())),
        }
        drop(sleepers);
        if first {
            self.bell.earlier.notify_one();
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Whether the queue shuts down and the time of this timer has come.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shutdown_at().is_some_and(|turn| Instant::now() >= turn)
    }

    /// Changes the deadline; the timer has to be set again.
    pub(crate) fn reset(&mut self, at: Instant) {
        self.at = at;
    }

    fn shutdown_at(&self) -> Option<Instant> {
        let (since, spread) = self.bell.over.get()?;
        let step = u32::try_from(self.number.wrapping_mul(STRIDE) % u64::from(STEPS));
        let step = step.unwrap_or_default();
        Some(*since + *spread * step / STEPS)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(at) = self.set {
            self.bell.sleepers().by_time.remove(&(at, self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Poll};

    use futures_util::{FutureExt, future::join_all};

    use super::*;

    async fn wait(mut alarm: Timer) {
        poll_fn(|cx| {
            alarm.set(cx.waker());
            if alarm.is_due() || alarm.is_shut_down() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_is_woken_in_time() {
        let bell = Arc::new(TimerQueue::default());
        let began = Instant::now();
        let sleepers = async {
            let late = wait(bell.timer(began + Duration::from_secs(50)));
            let soon = wait(bell.timer(began + Duration::from_secs(5)));
            tokio::join!(soon.map(|()| began.elapsed()), late.map(|()| began.elapsed()))
        };
        let (soon, late) = tokio::select! {
            woken = sleepers => woken,
            () = bell.run() => unreachable!(),
        };
        assert_eq!((soon.as_secs(), late.as_secs()), (5, 50));
        assert!(bell.sleepers().by_time.is_empty(), "who is gone is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_comes_to_one_after_the_other() {
        let bell = Arc::new(TimerQueue::default());
        let began = Instant::now();
        let far = began + Duration::from_hours(1);
        let all = join_all((0..100).map(|_| wait(bell.timer(far)).map(|()| began.elapsed())));
        let told = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            bell.shut_down(Duration::from_mins(1));
            std::future::pending::<()>().await;
        };
        let woken = tokio::select! {
            woken = all => woken,
            () = bell.run() => unreachable!(),
            () = told => unreachable!(),
        };
        let (first, last) = (woken.iter().min(), woken.iter().max());
        assert!(first.is_some_and(|first| first.as_secs() < 3), "{first:?}");
        assert!(last.is_some_and(|last| last.as_secs() < 62), "{last:?}");
        assert_ne!(first, last);
    }
}
