//! Gives memory back to the machine after a busy time: the allocator keeps what was freed, and
//! what is free lies between what is not.

use std::{
    thread,
    time::{Duration, Instant},
};

use sys::memory::{free, give_back, limit, processor_time};
use tracing::warn;

const EVERY: Duration = Duration::from_secs(10);
/// Less is not worth the work.
const LEAST: usize = 4 << 20;
/// A process that uses more of a processor than this part is busy: it needs its memory again soon.
const BUSY: u32 = 2;
/// However busy it is, so many times are not waited for one after the other.
const PATIENCE: u32 = 30;

/// Free memory at the end of a heap, and the size from which a block is mapped by itself.
const MAX_TOP: i32 = 512 << 10;
const MAPPED: i32 = 256 << 10;
/// So many processors share one heap.
const SHARING: usize = 4;

/// Limits the memory that the allocator keeps free, for the parts of `up`, which share a machine with its pods. Many
/// pods that come and go leave few objects behind; in a heap for each thread these keep many pages from being returned.
/// Before there is a second thread.
pub(crate) fn limit_heaps() {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let heaps = i32::try_from(processors.div_ceil(SHARING)).unwrap_or(1);
    limit(heaps, MAX_TOP, MAPPED);
}

/// Starts to look after the memory of this process, until it ends.
pub(crate) fn start() {
    let thread = thread::Builder::new().name("memory".to_owned());
    if let Err(error) = thread.stack_size(64 << 10).spawn(run) {
        warn!(%error, "memory that is free stays with this process");
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
