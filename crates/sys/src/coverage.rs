//! Edge coverage of the program, for fuzzing. The compiler inserts a counter for each edge with `-C
//! passes=sancov-module` (see `tests/attack/run`); otherwise there are none.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
#[cfg(feature = "coverage")]
use std::sync::{Mutex, PoisonError};

/// The counters. Each module of the program registers its own when the program is loaded.
#[cfg(feature = "coverage")]
static COUNTERS: Mutex<Vec<&'static [AtomicU8]>> = Mutex::new(Vec::new());

/// Number of edges; 0 without instrumentation.
pub fn edges() -> usize {
    counters().iter().map(|part| part.len()).sum()
}

/// Appends the edges that have been taken and are not in `seen` to `new`, and marks them in `seen`, which has a byte
/// for each edge.
pub fn note_new(seen: &mut Vec<u8>, new: &mut Vec<u32>) {
    seen.resize(edges(), 0);
    let mut first = 0;
    for part in counters() {
        // SAFETY: any eight of these bytes may be read as one word, atomically or not.
        let (head, words, tail) = unsafe { part.align_to::<AtomicU64>() };
        let end = first + part.len();
        note(head, first, seen, new);
        // Most edges are never taken, so eight counters at a time are skipped.
        for (at, word) in (first + head.len()..).step_by(8).zip(words) {
            if word.load(Ordering::Relaxed) != 0 {
                note(&part[at - first..at - first + 8], at, seen, new);
            }
        }
        note(tail, end - tail.len(), seen, new);
        first = end;
    }
}

/// Like `note_new`, for some counters, the first of which has the number `first`.
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

/// Called by compiler-generated code, once for each module of the program, before `main`.
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
        // SAFETY: the caller promises bytes that live for ever. The program writes them without synchronization, so a
        // count may be stale or lost.
        all.push(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU8>(), size) });
    }
}
