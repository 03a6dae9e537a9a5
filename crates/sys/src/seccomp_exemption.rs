//! The calls of a process between loading its system call filter and running its program.
//!
//! A process that others in a container can trace must have its filter when it appears there. So
//! the filter is loaded before the process is forked into the container's pid namespace, and the
//! fork, its session and its terminal come after: a profile may forbid them to the program. Every
//! filter therefore begins with a rule that allows exactly these calls, in this form, to whoever
//! knows a random number. It travels in the sixth argument, which these calls do not have.
//!
//! The program never learns the number. If it did, it could fork, lead a session and drop
//! capabilities, and nothing else.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicI32, Ordering},
};

use crate::{
    capability::{self, CapabilitySet},
    process,
    seccomp::{
        ARCHITECTURE, JUMP_IF_EQUAL, LOAD, MACHINE, NUMBER, RETURN, SECCOMP_RET_ALLOW, word,
    },
};

/// What a filter must let through.
#[derive(Debug)]
pub struct Exemption {
    secret: u64,
}

/// A process id in memory that a process shares with its children. The kernel writes it when the
/// process is made, before it runs.
#[derive(Debug)]
pub struct SharedPid {
    page: std::ptr::NonNull<AtomicI32>,
}

/// As a fork, by the parent's parent, with the number of the new process written.
const FORK: i32 = libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;

impl Exemption {
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 8];
        // SAFETY: the kernel writes at most as many bytes as there are.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(got) != Ok(bytes.len()) {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { secret: u64::from_ne_bytes(bytes) })
    }

    /// The beginning of a filter that has this exemption.
    pub(crate) fn program(&self) -> [u64; 18] {
        const ARGUMENTS: u32 = 16; // where the call's data have them
        const PERMIT: u8 = 17;
        const REST: u8 = 18;
        let (low, high) = if cfg!(target_endian = "big") { (4, 0) } else { (0, 4) };
        let load = |from: u32| word(LOAD, 0, 0, from);
        let argument = |number: u32, half: u32| load(ARGUMENTS + number * 8 + half);
        // The instruction `at` goes on at `equal` or at `other`.
        let jump = |at: u8, value: u32, equal: u8, other: u8| {
            word(JUMP_IF_EQUAL, equal - at - 1, other - at - 1, value)
        };
        let half = |value: u64| u32::try_from(value & 0xffff_ffff).expect("32 bits");
        let call = |number: i64| u32::try_from(number).expect("calls have small numbers");
        [
            load(ARCHITECTURE),
            jump(1, MACHINE, 2, REST),
            argument(5, low),
            jump(3, half(self.secret), 4, REST),
            argument(5, high),
            jump(5, half(self.secret >> 32), 6, REST),
            load(NUMBER),
            jump(7, call(libc::SYS_setsid), PERMIT, 8),
            jump(8, call(libc::SYS_capset), PERMIT, 9),
            jump(9, call(libc::SYS_clone), 13, 10),
            jump(10, call(libc::SYS_ioctl), 11, REST),
            argument(1, low),
            jump(12, half(libc::TIOCSCTTY), PERMIT, REST),
            argument(0, high),
            jump(14, 0, 15, REST),
            argument(0, low),
            jump(16, u32::try_from(FORK).expect("no sign"), PERMIT, REST),
            word(RETURN, 0, 0, SECCOMP_RET_ALLOW),
        ]
    }

    /// Runs `child` in a new process that is a child of this one's parent, and writes its number
    /// to `pid` before. This process must have one thread.
    pub fn fork_sibling(&self, pid: &SharedPid, child: impl FnOnce() -> i32) -> io::Result<()> {
        let flags = libc::c_long::from(FORK);
        // SAFETY: clone without CLONE_VM and with a null stack is fork, and the caller has one thread;
        // the number is written to memory that outlives the call.
        let forked = unsafe {
            libc::syscall(
                libc::SYS_clone,
                flags,
                0_u64,
                pid.page.as_ptr(),
                0_u64,
                0_u64,
                self.secret,
            )
        };
        match forked {
            -1 => Err(io::Error::last_os_error()),
            0 => process::end(catch_unwind(AssertUnwindSafe(child)).unwrap_or(process::PANICKED)),
            _ => Ok(()),
        }
    }

    /// A new session, without a terminal.
    pub fn new_session(&self) {
        // SAFETY: takes no argument but ours; fails only for a group leader, which has what it wants.
        unsafe { libc::syscall(libc::SYS_setsid, 0_u64, 0_u64, 0_u64, 0_u64, 0_u64, self.secret) };
    }

    /// Makes standard input, a terminal, the controlling one of this process, which leads its session.
    pub fn take_terminal(&self) -> io::Result<()> {
        let request = libc::c_long::try_from(libc::TIOCSCTTY).map_err(io::Error::other)?;
        // SAFETY: takes numbers.
        let taken = unsafe {
            libc::syscall(libc::SYS_ioctl, 0_u64, request, 0_u64, 0_u64, 0_u64, self.secret)
        };
        if taken == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the effective, permitted and inheritable sets of this process. The ambient one loses
    /// what is no longer permitted.
    pub fn set_capabilities(
        &self,
        held: CapabilitySet,
        inheritable: CapabilitySet,
    ) -> io::Result<()> {
        let (header, words) = capability::words(held, held, inheritable);
        // SAFETY: version 3 takes a header and two of these words, in the kernel's layout.
        let done = unsafe {
            let (header, words) = (&raw const header, words.as_ptr());
            libc::syscall(libc::SYS_capset, header, words, 0_u64, 0_u64, 0_u64, self.secret)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl SharedPid {
    pub fn new() -> io::Result<Self> {
        let (protection, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the kernel's choice, filled with zeros.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<AtomicI32>(), protection, kind, -1, 0)
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = std::ptr::NonNull::new(page.cast());
        Ok(Self { page: page.ok_or_else(|| io::Error::other("memory at address 0"))? })
    }

    /// Keeps it from the children of this process: they could write it. What the kernel writes
    /// goes to this process's memory.
    pub fn hide_from_children(&self) -> io::Result<()> {
        let (page, length) = (self.page.as_ptr().cast(), size_of::<AtomicI32>());
        // SAFETY: mapped by `new` with this length; only what forks copy changes.
        process::check(unsafe { libc::madvise(page, length, libc::MADV_DONTFORK) }).map(drop)
    }

    /// The process, once it has been made.
    pub fn get(&self) -> Option<i32> {
        // SAFETY: mapped until this is dropped, aligned to a page, and zero at first.
        let pid = unsafe { self.page.as_ref() }.load(Ordering::SeqCst);
        (pid != 0).then_some(pid)
    }
}

impl Drop for SharedPid {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and used by nobody after this.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<AtomicI32>()) };
    }
}
