//! Work of a request that may keep a thread busy for long: compiling expressions and patterns,
//! checking large objects by them. It is limited, it runs beside the workers that handle other
//! requests, and only a few do so at a time.

use std::{sync::LazyLock, thread::available_parallelism};

use schema::work_budget;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task::block_in_place,
};

use crate::turns;

/// At least half of the processors stay with other requests.
static RUNNING: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, usize::from);
    Semaphore::new((processors / 2).max(1))
});

/// Does the work within what one request may spend; beside the workers if it is `expensive`.
pub async fn run<T>(expensive: bool, work: impl FnOnce() -> T) -> T {
    if !expensive {
        return work_budget::within(work_budget::REQUEST, work);
    }
    let _running = RUNNING.acquire().await; // is never closed
    aside(|| work_budget::within(work_budget::REQUEST, work))
}

/// Does the work while others take over what this thread had to do.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => {
            turns::pause();
            block_in_place(work)
        }
        _ => work(),
    }
}
