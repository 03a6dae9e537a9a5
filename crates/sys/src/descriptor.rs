//! File descriptors: opening paths inside a root, passing descriptors to other processes, terminals.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat, openat2, readlinkat},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

/// Maximum number of descriptors in one message.
pub const MAX_FDS: usize = 4;
/// How often a path resolution is retried when it raced with a rename.
const RETRIES: u32 = 128;
/// DEVPTS_SUPER_MAGIC: the type of a devpts in statfs.
const TERMINALS: libc::c_long = 0x1cd1;

/// Opens a path with `O_PATH`.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens `path` as if `root` were `/`: neither `..` nor symlinks lead out of it.
pub fn open_in(root: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    resolve(|| openat2(&root, path, flags | OFlags::CLOEXEC, mode, inside))
}

/// Opens `path` below `root` with `O_PATH`. Leading out of `root` is an error: `..`, an absolute path, a symlink to
/// either.
pub fn place_beneath(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    resolve(|| openat2(&root, path, flags, Mode::empty(), beneath))
}

/// Opens the directory `path` below `root`; creates missing components with this mode, independent of the umask.
pub fn make_folder_beneath(root: impl AsFd, path: &Path, mode: Mode) -> io::Result<OwnedFd> {
    let mut so_far = std::path::PathBuf::new();
    let mut at = place_beneath(&root, Path::new("."))?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        so_far.push(name);
        at = match place_beneath(&root, &so_far) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match mkdirat(&at, name, mode) {
                    Err(Errno::EXIST) => place_beneath(&root, &so_far)?, // created by somebody else meanwhile
                    made => {
                        made?;
                        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                        let made = openat(&at, name, flags, Mode::empty())?;
                        fchmod(&made, mode)?;
                        made
                    }
                }
            }
            found => found?,
        };
    }
    Ok(at)
}

/// Retries a path resolution that raced with a rename. The number of retries is limited, in case somebody renames all
/// the time.
pub(crate) fn resolve(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    for _ in 0..RETRIES {
        match open() {
            Err(Errno::AGAIN) => {}
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Opens `path` in `root` with `O_PATH`.
pub fn open_path_in(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    open_in(root, path, OFlags::PATH, Mode::empty())
}

/// Opens the directory `path` in `root`; creates it and its parents if they are missing.
pub fn create_dir_in(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let path = past_dangling_links(&root, path)?;
    make_folders(root, &path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
}

/// Resolves symlinks on `path` whose targets do not exist yet, so that the targets can be created.
fn past_dangling_links(root: impl AsFd, path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40; // the kernel's limit
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match past_one_link(&root, &path)? {
            Some(next) => path = next,
            None => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// Replaces the first dangling symlink on `path` by its target; `None` if there is none.
fn past_one_link(root: impl AsFd, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut parent = PathBuf::from("/");
    let mut components = path.components();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            if component == Component::ParentDir {
                parent.pop();
            }
            continue;
        };
        match open_path_in(&root, &parent.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match readlinkat(open_path_in(&root, &parent)?, name, Vec::new()) {
                    Ok(link) => {
                        let link = Path::new(OsStr::from_bytes(link.as_bytes()));
                        Ok(Some(parent.join(link).components().chain(components).collect()))
                    }
                    Err(Errno::INVAL | Errno::NOENT) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
            found => drop(found?),
        }
        parent.push(name);
    }
    Ok(None)
}

/// Like `create_dir_in`, but the path must not contain symlinks: for file systems that must be mounted exactly at their
/// path.
pub fn make_plain_folder(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    make_folders(root, path, ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS)
}

fn make_folders(root: impl AsFd, path: &Path, how: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &Path| resolve(|| openat2(&root, path, flags, Mode::empty(), how));
    if let Ok(found) = open(path) {
        return Ok(found);
    }
    let mut so_far = PathBuf::from("/");
    let mut at = open(&so_far)?;
    for component in path.components() {
        match component {
            Component::Normal(name) => so_far.push(name),
            Component::ParentDir => {
                so_far.pop();
            }
            _ => continue,
        }
        at = match open(&so_far) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = so_far.file_name().unwrap_or_default();
                match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                    Err(Errno::EXIST) | Ok(()) => open(&so_far)?,
                    Err(error) => return Err(error.into()),
                }
            }
            opened => opened?,
        };
    }
    Ok(at)
}

/// Opens the file `path` in `root`; creates it empty, with its parents, if it is missing.
pub fn create_file_in(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    match open_path_in(&root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let path = &past_dangling_links(&root, path)?;
    let parent = create_dir_in(&root, path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    // A file that was created meanwhile is not opened for writing: it may be a FIFO.
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(&parent, name, flags, Mode::from_raw_mode(0o644)) {
        Err(Errno::EXIST) | Ok(_) => open_path_in(&root, path),
        Err(error) => Err(error.into()),
    }
}

/// Opens the host's `/dev/null` through a read-only mount of its own: whoever has the descriptor can use the device,
/// but not change its owner or mode.
pub fn null() -> io::Result<OwnedFd> {
    let tree = null_mount()?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, format!("/proc/self/fd/{}", tree.as_raw_fd()), flags, Mode::empty())?)
}

/// A detached, read-only mount of the host's `/dev/null`.
pub fn null_mount() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let device = openat(CWD, "/dev/null", flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&device)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    if !is_device || stat.st_rdev != rustix::fs::makedev(1, 3) {
        return Err(io::Error::other("/dev/null is another file"));
    }
    let tree = crate::mount::clone_tree(device, false)?;
    let limits = crate::mount::READ_ONLY | crate::mount::NO_SUID | crate::mount::NO_EXEC;
    crate::mount::set_attributes(&tree, limits, false)?;
    Ok(tree)
}

/// Sends bytes with descriptors (SCM_RIGHTS).
pub fn send_with_fds(
    socket: impl AsFd,
    bytes: &[u8],
    passed: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(io::Error::other("too many descriptors in a message"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and appends the descriptors that were passed with them.
pub fn receive_with_fds(
    socket: impl AsFd,
    buffer: &mut [u8],
    passed: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
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

/// Opens a new pseudo-terminal in the `/dev/pts` of this process's root; returns our end and the program's. The names
/// below `/dev` belong to the container, so only a real devpts is accepted, and nothing mounted over a part of it.
pub fn open_pty() -> io::Result<(OwnedFd, OwnedFd)> {
    let root = open_path(Path::new("/"))?;
    let folder = open_in(root, Path::new("/dev/pts"), OFlags::DIRECTORY, Mode::empty())?;
    if rustix::fs::fstatfs(&folder)?.f_type != TERMINALS {
        return Err(io::Error::other("/dev/pts is no file system of terminals"));
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let ours = resolve(|| openat2(&folder, "ptmx", flags | OFlags::CLOEXEC, Mode::empty(), how))?;
    rustix::pty::unlockpt(&ours)?;
    let open = rustix::pty::OpenptFlags::RDWR
        | rustix::pty::OpenptFlags::NOCTTY
        | rustix::pty::OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, open)?;
    Ok((ours, theirs))
}

/// Sets the window size of a terminal.
pub fn set_window_size(terminal: impl AsFd, columns: u16, rows: u16) -> io::Result<()> {
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

/// Duplicates a descriptor.
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
        let root = open_path(&base).expect("open");
        assert!(open_path_in(&root, Path::new("/etc/passwd")).is_err());
        create_file_in(&root, Path::new("/a/b/c")).expect("made");
        assert!(base.join("a/b/c").is_file());
        std::os::unix::fs::symlink("a", base.join("linked")).expect("a link");
        make_plain_folder(&root, Path::new("/a/b/d")).expect("made");
        make_plain_folder(&root, Path::new("/linked")).expect_err("a link");
        make_plain_folder(&root, Path::new("/linked/b")).expect_err("below a link");
        std::fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn what_links_lead_to_is_made_inside() {
        let base = tempfile::tempdir().expect("a folder");
        let root = open_path(base.path()).expect("open");
        let link = |to: &str, at: &str| {
            std::os::unix::fs::symlink(to, base.path().join(at)).expect("a link");
        };
        link("/../../made/by/link", "jump");
        link("jump/file", "file");
        link("loop", "loop");
        create_file_in(&root, Path::new("/file")).expect("made");
        assert!(base.path().join("made/by/link/file").is_file());
        link("../../late", "alone");
        create_file_in(&root, Path::new("/alone")).expect("made");
        assert!(base.path().join("late").is_file());
        link("../far", "made/folder");
        create_dir_in(&root, Path::new("/made/folder/below")).expect("made");
        assert!(base.path().join("far/below").is_dir());
        create_file_in(&root, Path::new("/loop")).expect_err("a circle");
        create_dir_in(&root, Path::new("/loop/below")).expect_err("a circle");
    }
}
