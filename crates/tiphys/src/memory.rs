//! Returns freed memory to the kernel after a busy time. The allocator keeps freed memory, because free pages lie
//! between used ones.

use std::{
    thread,
    time::{Duration, Instant},
};

use sys::memory::{free, give_back, limit, processor_time};
use tracing::warn;

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(10);
/// Minimum number of free bytes to return; less is not worth the work.
const LEAST: usize = 4 << 20;
/// A process that uses more than 1/BUSY of a CPU is busy, and needs its memory again soon.
const BUSY: u32 = 2;
/// Maximum number of consecutive checks that are skipped because the process is busy.
const PATIENCE: u32 = 30;

/// Maximum free memory at the end of a heap, and the size from which a block gets its own mapping, in bytes.
const MAX_TOP: i32 = 512 << 10;
const MAPPED: i32 = 256 << 10;
/// Number of CPUs that share one heap (malloc arena).
const SHARING: usize = 4;

/// Limits the memory that the allocator keeps free in the processes of `up`, which share a host with its pods. Many
/// short-lived pods leave few objects behind; with a heap for each thread, these keep many pages from being returned.
/// Must be called before a second thread starts.
pub(crate) fn limit_heaps() {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let heaps = i32::try_from(processors.div_ceil(SHARING)).unwrap_or(1);
    limit(heaps, MAX_TOP, MAPPED);
}

/// Starts the thread that returns freed memory, until the process ends.
pub(crate) fn start() {
    let thread = thread::Builder::new().name("memory".to_owned());
    if let Err(error) = thread.stack_size(64 << 10).spawn(run) {
        warn!(%error, "cannot start the thread that returns memory to the system");
    }
}

fn run() {
    let mut busy = 0;
    loop {
        let (began, before) = (Instant::now(), processor_time().unwrap_or_default());
        thread::sleep(EVERY);
        let used = processor_time().unwrap_or_default().saturating_sub(before);
        busy = if used > began.elapsed() / BUSY { busy + 1 } else { 0 };
        if (busy == 0 || busy > PATIENCE) && free() > LEAST {
            give_back();
            busy = 0;
        }
    }
}
