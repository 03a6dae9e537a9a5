//! Control of the memory that the allocator keeps free instead of returning it to the kernel.

use std::{io, mem::MaybeUninit, time::Duration};

/// Number of free bytes in the allocator; 0 where it has no statistics.
pub fn free() -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the function has no arguments and returns a plain struct.
        let statistics = unsafe { libc::mallinfo2() };
        statistics.fordblks
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Limits the free memory of the allocator: at most `arenas` heaps, each with at most `top` free bytes at its end.
/// Blocks of `mapped` bytes and more are mapped individually and returned when they are freed. Without these limits the
/// allocator raises the last two dynamically, up to 64 MiB.
pub fn limit(arenas: i32, top: i32, mapped: i32) {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, arenas),
        (libc::M_TRIM_THRESHOLD, top),
        (libc::M_MMAP_THRESHOLD, mapped),
    ] {
        // SAFETY: the function changes numbers of the allocator's own; a value that it refuses changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (arenas, top, mapped);
}

/// Returns free pages to the kernel, also from the middle of the heap. Allocations of other threads block meanwhile.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: free memory is the allocator's own.
        unsafe { libc::malloc_trim(0) };
    }
}

/// CPU time that this process has used.
pub fn processor_time() -> io::Result<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes one timespec there.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it has been written.
    let time = unsafe { time.assume_init() };
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or_default());
    Ok(seconds + Duration::from_nanos(time.tv_nsec.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_goes_back_to_the_kernel() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("a table");
            let pages = pages.split(' ').nth(1).expect("two numbers");
            pages.parse::<usize>().expect("a number") * 4096
        };
        // Small blocks with a few kept between them, so that the heap does not shrink by itself.
        let mut all: Vec<Vec<u8>> = (0..40_000).map(|_| vec![1; 2_000]).collect();
        let full = resident();
        let mut nth = 0;
        all.retain(|_| {
            nth += 1;
            nth % 100 == 0
        });
        assert!(free() > 60 << 20, "{}", free());
        give_back();
        assert!(resident() + (50 << 20) < full, "{} of {full}", resident());
        assert!(processor_time().expect("a clock") > Duration::ZERO);
        drop(all);
    }
}
