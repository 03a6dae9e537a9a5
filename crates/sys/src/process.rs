//! Processes: fork, exec, wait, signals and process attributes.

use std::{
    convert::Infallible,
    ffi::{CStr, CString},
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// How a child ended, as `wait` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Exited(i32),
    Signaled(i32),
}

impl ExitStatus {
    /// The exit code in the shell's convention: 128 + the signal number.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        }
    }
}

/// Exit code of a child whose closure panics, the same as for a Rust program.
pub(crate) const PANICKED: i32 = 101;

/// Runs `child` in a new process that begins as a copy of this one, with new namespaces of the kinds `namespaces`
/// (`CLONE_NEW…`). The child exits with the result of `child` and runs nothing else.
///
/// Fails in a process with more than one thread: its copy would find locks held by threads that do not exist in it.
pub fn fork(namespaces: i32, child: impl FnOnce() -> i32) -> io::Result<i32> {
    // Does not read /proc, which may be a container's.
    // SAFETY: the kernel refuses this flag in a process with several threads; otherwise it changes nothing.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } != 0 {
        return Err(io::Error::other("fork in a process with several threads"));
    }
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: clone without CLONE_VM and with a null stack is fork; this process has one thread, checked above.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A panic must not unwind into the parent's code.
            end(catch_unwind(AssertUnwindSafe(child)).unwrap_or(PANICKED))
        }
        pid => Ok(i32::try_from(pid).expect("a process id")),
    }
}

/// Ends this process at once, without exit handlers and buffers of the original process.
pub fn end(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// A program with its arguments, prepared so that exec allocates no memory.
#[derive(Debug)]
pub struct Program {
    path: CString,
    /// Null-terminated arrays of pointers into `_owned`.
    args: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    _owned: [Vec<CString>; 2],
}

impl Program {
    pub fn new(path: CString, args: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers = |list: &[CString]| {
            list.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        Self { args: pointers(&args), env: pointers(&env), path, _owned: [args, env] }
    }

    /// Replaces this process. Returns only on failure.
    pub fn exec(&self) -> io::Error {
        // SAFETY: both arrays end with null and point to strings that live as long as `self`.
        unsafe { libc::execve(self.path.as_ptr(), self.args.as_ptr(), self.env.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Reaps the next child that has exited, if any.
pub fn reap() -> Option<(i32, ExitStatus)> {
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then(|| (pid, exit_status(status)))
}

/// Waits for a child.
pub fn wait(pid: i32) -> io::Result<ExitStatus> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place to write to.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return Ok(exit_status(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn exit_status(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus::Signaled(libc::WTERMSIG(status))
    } else {
        ExitStatus::Exited(libc::WEXITSTATUS(status))
    }
}

/// Sends a signal.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two numbers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Blocks `signals` for this process and returns a descriptor that becomes readable when one arrives.
pub fn signalfd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: `set` is initialised; the new descriptor belongs to nobody else.
    unsafe {
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Resets signals for a new program: none blocked, all with their default action.
pub fn reset_signals() {
    let set = signal_set(&[]);
    // SAFETY: `set` is initialised; SIG_DFL is a valid action for each signal that allows one.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        for signal in 1..=31 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Ends this process by the default action of `signal`, whatever handler is installed, so that its parent sees a
/// process killed by the signal.
pub fn die_by_signal(signal: i32) -> ! {
    let set = signal_set(&[signal]);
    // SAFETY: `set` is initialised; SIG_DFL is a valid action; raise takes a number.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    end(128 + signal)
}

/// Ends this process silently, as SIGPIPE does by default.
pub fn die_by_broken_pipe() -> ! {
    die_by_signal(libc::SIGPIPE)
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Reaps children for ever: the main loop of a sandbox's pause process.
pub fn reap_forever() -> Infallible {
    let set = signal_set(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT]);
    // SAFETY: `set` is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    loop {
        let mut signal = 0;
        // SAFETY: both are valid for the call.
        let failed = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
        if failed == 0 && signal != libc::SIGCHLD {
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        while reap().is_some() {}
    }
}

/// Makes this process a subreaper: orphaned descendants become its children, so that they are reaped.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Makes the kernel send `signal` to this process when its parent's thread ends.
pub fn die_with_parent(signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) }).map(drop)
}

/// Makes this process non-dumpable: other processes of the same user cannot read its memory or descriptors.
pub fn set_non_dumpable() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }).map(drop)
}

/// Sets the name in `ps`, at most 15 bytes.
pub fn set_name(name: &CStr) {
    // SAFETY: `name` ends with nul and outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Changes user and groups permanently. Capabilities are kept for the caller to set.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: `groups` is a valid array of its length; the rest are numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
        check(libc::setgroups(groups.len(), groups.as_ptr()))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0))?;
    }
    Ok(())
}

/// Sets `no_new_privs`: no program started from here on can gain privileges.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

/// Makes `fd` the standard descriptor `target` (0, 1 or 2).
pub fn redirect_standard_fd(fd: BorrowedFd<'_>, target: i32) -> io::Result<()> {
    let fd = fd.as_raw_fd();
    // SAFETY: both are open descriptors or a number that becomes one; dup2 of equal numbers would keep
    // close-on-exec, which fcntl then clears.
    unsafe {
        check(libc::dup2(fd, target))?;
        check(libc::fcntl(target, libc::F_SETFD, 0))?;
    }
    Ok(())
}

/// Marks every descriptor from 3 on to be closed by the next `exec`.
pub fn set_cloexec_from_3() -> io::Result<()> {
    // SAFETY: only sets flags.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from 3 on, except `kept`. For a forked process that must hold nothing of the original. The
/// caller must not use or drop other owned descriptors afterwards.
pub fn close_fds_except(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> =
        kept.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().map(Some).chain([None]) {
        let last = number.map_or(u32::MAX, |number| number.saturating_sub(1));
        if first <= last {
            // SAFETY: the caller is a forked child that runs no code of the original's owners.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            if closed != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = number.map_or(first, |number| first.max(number + 1));
    }
    Ok(())
}

/// A pidfd of a child that has not been reaped.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers; the new descriptor belongs to nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        let fd = check(i32::try_from(fd).unwrap_or(-1))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Lets this process run on every CPU that its cpuset allows.
pub fn reset_affinity() -> io::Result<()> {
    let all = [u8::MAX; 1024]; // 8,192 CPUs, the maximum of the kernel
    // SAFETY: the mask is read in the length that is passed.
    let set = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, all.len(), all.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Resets scheduling and memory layout, whatever the node was started with: nice value and I/O priority 0, no real-time
/// class, address space randomization. Settings that the host does not permit stay as they are.
pub fn reset_scheduling() {
    const NORMAL: libc::c_int = 0; // SCHED_OTHER, which is also called SCHED_NORMAL
    const OWN_PROCESS: libc::c_int = 1; // IOPRIO_WHO_PROCESS
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: `none` outlives the call; the rest are numbers.
    unsafe {
        libc::sched_setscheduler(0, NORMAL, &raw const none);
        libc::setpriority(libc::PRIO_PROCESS, 0, 0);
        libc::syscall(libc::SYS_ioprio_set, OWN_PROCESS, 0, 0);
        libc::personality(0);
    }
}

/// Makes standard input, a terminal, the controlling terminal of this process, which leads its session.
pub fn set_controlling_terminal() -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }).map(drop)
}

/// Starts a new session, without a terminal.
pub fn new_session() {
    // SAFETY: fails only for a group leader, which then has what it wants.
    unsafe { libc::setsid() };
}

/// Converts -1 into the last OS error.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_to_copy_threads() {
        // The test harness has threads.
        assert!(fork(0, || 0).is_err());
    }

    #[test]
    fn a_process_can_be_scheduled_everywhere_again() {
        let allowed = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc");
            let line = status.lines().find(|line| line.starts_with("Cpus_allowed:"));
            line.expect("a mask").to_owned()
        };
        let before = allowed();
        let one = 1_u64;
        // SAFETY: the mask is read in the length that is passed.
        let set = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &raw const one) };
        assert_eq!(set, 0);
        reset_affinity().expect("reset");
        assert_eq!(allowed(), before);
    }

    #[test]
    fn signals_count_from_128() {
        assert_eq!(ExitStatus::Signaled(9).code(), 137);
        assert_eq!(ExitStatus::Exited(3).code(), 3);
    }
}
