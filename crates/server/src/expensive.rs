//! Runs CPU-intensive work of a request: compiling CEL expressions and regular expressions, and
//! validating large objects with them. The work has a budget, runs outside the async workers that
//! handle other requests, and only a few requests do it at a time.

use std::{sync::LazyLock, thread::available_parallelism};

use schema::work_budget;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::block_in_place,
};

use crate::turns;

/// At least half of the processors are left for other requests.
static RUNNING: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Semaphore::new((processors / 2).max(1))
});

/// Runs `work` within the budget of one request; with `block_in_place` and a concurrency limit if
/// it is `expensive`.
pub async fn run<T>(expensive: bool, work: impl FnOnce() -> T) -> T {
    if !expensive {
        return work_budget::within(work_budget::REQUEST, work);
    }
    let _running = RUNNING.acquire().await; // is never closed
    aside(|| work_budget::within(work_budget::REQUEST, work))
}

/// Runs blocking work; the runtime moves the other tasks of this worker to another thread.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => {
            turns::pause();
            block_in_place(work)
        }
        _ => work(),
    }
}
