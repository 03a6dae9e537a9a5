//! How much memory a program holds: an allocator that counts, for benchmarks.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with what is held counted. A program says that it wants it:
/// `#[global_allocator] static COUNTING: sys::Counting = sys::Counting;`
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

/// The bytes that have been asked for and not given back.
pub fn allocated_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

// SAFETY: all memory is the system allocator's, which is asked with the caller's own arguments.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: what the caller promises is what the system's wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}
