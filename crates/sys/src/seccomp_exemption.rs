//! System calls of a process between loading its seccomp filter and executing its program.
//!
//! A process that others in a container can trace must have its filter when it appears there. The filter is therefore
//! loaded before the process is forked into the container's PID namespace; the fork, setsid and the terminal come
//! afterwards, and a profile may forbid them. So every filter begins with a rule that allows exactly these calls, in
//! this form, if a random secret is passed. The secret is in the sixth argument, which these calls do not have.
//!
//! The program never learns the secret. If it did, it could only fork, create a session, set its controlling terminal
//! and drop capabilities.

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

/// The exemption that a filter must contain.
#[derive(Debug)]
pub struct Exemption {
    secret: u64,
}

/// A pid in memory that a process shares with its children. The kernel writes it when the process is created, before it
/// runs.
#[derive(Debug)]
pub struct SharedPid {
    page: std::ptr::NonNull<AtomicI32>,
}

/// Flags of clone: fork a sibling (a child of the parent's parent), and store its pid.
const FORK: i32 = libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;

impl Exemption {
    /// An exemption with a new random secret.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 8];
        // SAFETY: the kernel writes at most as many bytes as there are.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if usize::try_from(got) != Ok(bytes.len()) {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { secret: u64::from_ne_bytes(bytes) })
    }

    /// The beginning of a filter with this exemption.
    pub(crate) fn program(&self) -> [u64; 18] {
        const ARGUMENTS: u32 = 16; // offset in `struct seccomp_data`
        const PERMIT: u8 = 17;
        const REST: u8 = 18;
        let (low, high) = if cfg!(target_endian = "big") { (4, 0) } else { (0, 4) };
        let load = |from: u32| word(LOAD, 0, 0, from);
        let argument = |number: u32, half: u32| load(ARGUMENTS + number * 8 + half);
        // The instruction `at` jumps to `equal` or to `other`.
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

    /// Runs `child` in a new process that is a child of this one's parent; the kernel writes its pid to `pid` before it
    /// runs. This process must have only one thread.
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

    /// Starts a new session, without a terminal.
    pub fn new_session(&self) {
        // SAFETY: takes no argument but ours; fails only for a group leader, which has what it wants.
        unsafe { libc::syscall(libc::SYS_setsid, 0_u64, 0_u64, 0_u64, 0_u64, 0_u64, self.secret) };
    }

    /// Makes standard input, a terminal, the controlling terminal of this process, which leads its session.
    pub fn take_terminal(&self) -> io::Result<()> {
        let request = libc::c_long::try_from(libc::TIOCSCTTY).map_err(io::Error::other)?;
        // SAFETY: takes numbers.
        let taken = unsafe {
            libc::syscall(libc::SYS_ioctl, 0_u64, request, 0_u64, 0_u64, 0_u64, self.secret)
        };
        if taken == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the effective, permitted and inheritable capability sets of this process. The ambient set loses what is no
    /// longer permitted.
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
    /// Maps the shared memory.
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

    /// Unmaps the memory in children of this process, because they could write to it. The kernel still writes to this
    /// process's mapping.
    pub fn hide_from_children(&self) -> io::Result<()> {
        let (page, length) = (self.page.as_ptr().cast(), size_of::<AtomicI32>());
        // SAFETY: mapped by `new` with this length; only what forks copy changes.
        process::check(unsafe { libc::madvise(page, length, libc::MADV_DONTFORK) }).map(drop)
    }

    /// The pid, once the process has been created.
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
