//! Which edges of the program have been taken. The compiler puts in a counter for each when it is asked to
//! (`-C passes=sancov-module`, see `tests/attack/run`); without that there are none.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
#[cfg(feature = "coverage")]
use std::sync::{Mutex, PoisonError};

/// Where the counters are: each part of the program names its own when the program is loaded.
#[cfg(feature = "coverage")]
static COUNTERS: Mutex<Vec<&'static [AtomicU8]>> = Mutex::new(Vec::new());

/// How many edges there are; 0 where nothing is counted.
pub fn edges() -> usize {
    counters().iter().map(|part| part.len()).sum()
}

/// Adds the numbers of the edges that have been taken and are not in `seen`, which has a byte for each, and
/// marks them there.
pub fn note_new(seen: &mut Vec<u8>, new: &mut Vec<u32>) {
    seen.resize(edges(), 0);
    let mut first = 0;
    for part in counters() {
        // SAFETY: any eight of these bytes may be read as one word, atomically or not.
        let (head, words, tail) = unsafe { part.align_to::<AtomicU64>() };
        let end = first + part.len();
        note(head, first, seen, new);
        // Most edges are never taken: eight at a time are passed over.
        for (at, word) in (first + head.len()..).step_by(8).zip(words) {
            if word.load(Ordering::Relaxed) != 0 {
                note(&part[at - first..at - first + 8], at, seen, new);
            }
        }
        note(tail, end - tail.len(), seen, new);
        first = end;
    }
}

/// The same of some counters, the first of which has this number.
fn note(counters: &[AtomicU8], first: usize, seen: &mut [u8], new: &mut Vec<u32>) {
    for (at, counter) in (first..).zip(counters) {
        if seen[at] == 0 && counter.load(Ordering::Relaxed) != 0 {
            seen[at] = 1;
            new.extend(u32::try_from(at));
        }
    }
}

#[cfg(feature = "coverage")]
fn counters() -> Vec<&'static [AtomicU8]> {
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(not(feature = "coverage"))]
fn counters() -> Vec<&'static [AtomicU8]> {
    Vec::new()
}

/// Called by code that the compiler has added, once for each part of the program, before `main`.
///
/// # Safety
///
/// The counters from `start` to `stop` exist as long as the program and are changed by nothing but single
/// byte writes.
#[cfg(feature = "coverage")]
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    let size = stop.addr().saturating_sub(start.addr());
    let mut all = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().any(|part| std::ptr::addr_eq(part.as_ptr(), start));
    if size > 0 && !known {
        // SAFETY: the caller promises bytes that live for ever. The program writes them without
        // synchronization; that a count may be old or lost is all that follows from it.
        all.push(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), size) });
    }
}
