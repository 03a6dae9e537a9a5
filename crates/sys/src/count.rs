//! Counting allocator, for benchmarks of memory usage.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system allocator, with a counter of allocated bytes. A program selects it with `#[global_allocator] static
/// COUNTING: sys::CountingAllocator = sys::CountingAllocator;`
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

/// The number of bytes that are allocated and not freed.
pub fn allocated_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

// SAFETY: all memory comes from the system allocator, which is called with the caller's own arguments.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is that of the system allocator.
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
