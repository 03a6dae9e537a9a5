//! Descriptors: opening below a root that names cannot leave, passing them to other processes, terminals.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

/// The most descriptors in one message.
pub const MOST: usize = 4;

/// Opens a path for use as a place (`O_PATH`).
pub fn place(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens `path` as if `root` were `/`: neither `..` nor symbolic links lead out of it.
pub fn open_in(root: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(&root, path, flags | OFlags::CLOEXEC, mode, inside) {
            Err(Errno::AGAIN) => {} // a rename raced with the walk
            opened => return Ok(opened?),
        }
    }
}

/// The place of `path` in `root`.
pub fn place_in(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    open_in(root, path, OFlags::PATH, Mode::empty())
}

/// The folder `path` in `root`, made if missing, with its parents.
pub fn make_folder(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    if let Ok(found) = open_in(&root, path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
        return Ok(found);
    }
    let mut at = place_in(&root, Path::new("/"))?;
    let mut so_far = std::path::PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => so_far.push(name),
            Component::ParentDir => {
                so_far.pop();
            }
            _ => continue,
        }
        let folder = OFlags::PATH | OFlags::DIRECTORY;
        at = match open_in(&root, &so_far, folder, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = so_far.file_name().unwrap_or_default();
                match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                    Err(Errno::EXIST) | Ok(()) => open_in(&root, &so_far, folder, Mode::empty())?,
                    Err(error) => return Err(error.into()),
                }
            }
            opened => opened?,
        };
    }
    Ok(at)
}

/// The file `path` in `root`, made empty if missing, with its parents.
pub fn make_file(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    match place_in(&root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let parent = make_folder(&root, path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    place_in(&root, path)
}

/// Sends bytes, and descriptors with them.
pub fn send(socket: impl AsFd, bytes: &[u8], passed: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(io::Error::other("too many descriptors in a message"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and appends the descriptors that came with them.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            passed.extend(fds);
        }
    }
    Ok(got.bytes)
}

/// Opens a new terminal of the `/dev/pts` of this process's root: (ours, the program's).
pub fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let ours = openat(CWD, "/dev/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&ours)?;
    let open = rustix::pty::OpenptFlags::RDWR
        | rustix::pty::OpenptFlags::NOCTTY
        | rustix::pty::OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, open)?;
    Ok((ours, theirs))
}

/// Tells a terminal its size.
pub fn resize(terminal: impl AsFd, columns: u16, rows: u16) -> io::Result<()> {
    let size =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// The time of day, in seconds and nanoseconds since 1970.
pub fn now() -> (i64, u32) {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place to write to; the clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    (now.tv_sec, u32::try_from(now.tv_nsec).expect("below a billion"))
}

/// A second owner of the same descriptor.
pub fn duplicate(fd: impl AsFd) -> io::Result<File> {
    Ok(File::from(fd.as_fd().try_clone_to_owned()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_do_not_lead_out() {
        let base = std::env::temp_dir().join(format!("descriptor-{}", std::process::id()));
        std::fs::create_dir_all(&base).expect("a folder");
        std::os::unix::fs::symlink("/../../etc", base.join("etc")).expect("a link");
        let root = place(&base).expect("open");
        assert!(place_in(&root, Path::new("/etc/passwd")).is_err());
        make_file(&root, Path::new("/a/b/c")).expect("made");
        assert!(base.join("a/b/c").is_file());
        std::fs::remove_dir_all(&base).expect("removed");
    }
}
