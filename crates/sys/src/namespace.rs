//! Linux namespaces: creating them, and entering those of other processes.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd},
    path::Path,
};

use crate::process::check;

pub const MOUNT: i32 = libc::CLONE_NEWNS;
pub const NETWORK: i32 = libc::CLONE_NEWNET;
pub const IPC: i32 = libc::CLONE_NEWIPC;
pub const UTS: i32 = libc::CLONE_NEWUTS;
pub const PID: i32 = libc::CLONE_NEWPID;
pub const USER: i32 = libc::CLONE_NEWUSER;
pub const CGROUP: i32 = libc::CLONE_NEWCGROUP;

/// Opens a namespace by its path, such as `/proc/PID/ns/net`.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// Moves this thread into the namespace `fd`; or, if `fd` is a pidfd, into that process's namespaces of these kinds. A
/// PID namespace applies to future children only.
pub fn setns(fd: impl AsFd, kind: i32) -> io::Result<()> {
    // SAFETY: `fd` is open for the call.
    check(unsafe { libc::setns(fd.as_fd().as_raw_fd(), kind) }).map(drop)
}

/// Moves this thread into new namespaces of these kinds.
pub fn unshare(kinds: i32) -> io::Result<()> {
    // SAFETY: CLONE_FILES and CLONE_VM are not among the kinds, so no memory or descriptor changes its owner.
    check(unsafe { libc::unshare(kinds & (MOUNT | NETWORK | IPC | UTS | PID | USER | CGROUP)) })
        .map(drop)
}

/// Runs `work` on a new thread inside the network namespace at `path`.
pub fn run_in_network_namespace<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = open(path)?;
    let thread = std::thread::Builder::new().name("netns".into()).spawn(move || {
        setns(&namespace, NETWORK)?;
        work()
    })?;
    thread.join().map_err(|_| io::Error::other("a thread in a network namespace panicked"))?
}

/// Sets the host name in this process's UTS namespace.
pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: a pointer to `name.len()` bytes.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

/// Brings up the loopback interface of this thread's network namespace.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: the request is zeroed, names `lo` and lives through both calls; the socket is closed on each path.
    unsafe {
        let socket = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        request.ifr_ifru.ifru_flags =
            i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).expect("small flags");
        let done = check(libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request));
        libc::close(socket);
        done.map(drop)
    }
}
