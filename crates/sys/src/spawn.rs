//! Passing descriptors to a new process.

use std::{
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
};

/// The first descriptor after standard input, output and error.
const FIRST_PASSED_FD: RawFd = 3;
/// Higher than any passed descriptor, so that moving one does not overwrite another.
const SCRATCH_FD_BASE: RawFd = 200;

/// Passes these descriptors to the command's process as 3, 4, 5…; all others are closed in it. The process starts a
/// session of its own.
pub fn pass_fds(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let count = RawFd::try_from(descriptors.len()).expect("a few descriptors");
    let moved = move || {
        for (at, fd) in (0..).zip(&descriptors) {
            // SAFETY: both numbers are ours; nothing in this single-threaded child
            // relies on what was behind them.
            check(unsafe { libc::dup2(fd.as_raw_fd(), SCRATCH_FD_BASE + at) })?;
        }
        for at in 0..count {
            // SAFETY: as above.
            check(unsafe { libc::dup2(SCRATCH_FD_BASE + at, FIRST_PASSED_FD + at) })?;
        }
        // SAFETY: setsid takes nothing and touches no memory.
        check(unsafe { libc::setsid() })?;
        // SAFETY: only sets flags; what std itself holds open until the exec stays so.
        let closed = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                FIRST_PASSED_FD + count,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        check(i32::try_from(closed).unwrap_or(-1))
    };
    // SAFETY: between fork and exec the closure only makes system calls that are
    // safe there: no allocation, no lock.
    unsafe { command.pre_exec(moved) };
}

/// Moves the command's process into these cgroups before its program runs. `procs` are their `cgroup.procs` files, open
/// for writing.
pub fn enter_cgroups(command: &mut Command, procs: Vec<OwnedFd>) {
    let enter = move || {
        for file in &procs {
            // SAFETY: the byte outlives the call; 0 stands for the process that writes it.
            let written = unsafe { libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) };
            check(i32::try_from(written).unwrap_or(-1))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only writes to descriptors: no allocation, no lock.
    unsafe { command.pre_exec(enter) };
}

/// Takes ownership of the descriptor that was passed as number `3 + at`.
pub fn take_passed_fd(at: usize) -> io::Result<OwnedFd> {
    let number = FIRST_PASSED_FD + RawFd::try_from(at).map_err(io::Error::other)?;
    // SAFETY: only asks whether the number is open.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and nothing else in this process owns a descriptor that was passed to it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_child_finds_what_it_was_given() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo hello >&3; ls /proc/self/fd | wc -l >&3"]);
        pass_fds(&mut command, vec![writer.into()]);
        let mut child = command.spawn().expect("a shell");
        drop(command); // and with it our writing end
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("what it wrote");
        assert!(child.wait().expect("its end").success());
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some("hello"));
        // 0, 1, 2, 3, and the directory that ls itself reads
        let open: usize = lines.next().and_then(|n| n.trim().parse().ok()).expect("a number");
        assert!(open <= 6, "{said}");
    }
}
