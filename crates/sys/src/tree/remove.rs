//! Removes directory trees.

use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat},
    io::Errno,
};

use super::{next_entry, open_folder};

/// Maximum number of open directories. Deeper directories are moved up.
const OPEN: usize = 16;
/// How often to retry when a directory is not empty after a pass that moved nothing up, because somebody still writes
/// to it.
const PASSES: u32 = 64;

/// Removes `path`, whatever it is, with everything below it. Succeeds if it does not exist. A symlink itself is
/// removed, not its target; a mount below is an error.
pub fn remove(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        parent => remove_at(parent?, name),
    }
}

/// Like `remove`, for a name in an open directory.
pub fn remove_at(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    let mut fruitless = 0;
    while fruitless < PASSES {
        match unlinkat(&parent, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = match open_folder(&parent, &name) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::LOOP | Errno::NOTDIR) => continue, // replaced meanwhile
            folder => folder.map_err(explain)?,
        };
        let moved = empty(folder).map_err(explain)?;
        match unlinkat(&parent, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(error) => return Err(explain(error)),
        }
        fruitless = if moved { 0 } else { fruitless + 1 };
    }
    Err(Errno::NOTEMPTY.into())
}

/// A directory that is being emptied, and its name in its parent.
struct Level {
    folder: Dir,
    name: CString,
}

/// Removes everything below `top` down to the maximum depth, and moves deeper directories to `top` itself, for the next
/// pass. Returns whether there were any.
fn empty(top: OwnedFd) -> rustix::io::Result<bool> {
    let mut moved = false;
    let mut levels = vec![Level { folder: Dir::new(top)?, name: CString::default() }];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = next_entry(&mut level.folder) else {
            let done = levels.pop().map(|level| level.name).unwrap_or_default();
            if let Some(above) = levels.last() {
                // if it is not empty, the next pass handles it
                remove_folder(above.folder.fd()?, &done)?;
            }
            continue;
        };
        let name = entry?.file_name().to_owned();
        let folder = level.folder.fd()?;
        match unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error),
        }
        if remove_folder(folder, &name)? {
            continue;
        }
        if levels.len() < OPEN {
            let opened = levels.last().map(|level| open_folder(level.folder.fd()?, &name));
            match opened {
                Some(Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR)) | None => {} // left to the next pass
                Some(opened) => levels.push(Level { folder: Dir::new(opened?)?, name }),
            }
        } else if let (Some(top), Some(last)) = (levels.first(), levels.last()) {
            move_up(last.folder.fd()?, &name, top.folder.fd()?)?;
            moved = true;
        }
    }
    Ok(moved)
}

/// Removes a directory if it is empty. Returns whether it is gone.
fn remove_folder(parent: BorrowedFd<'_>, name: &CString) -> rustix::io::Result<bool> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Moves a directory to `top`, under an unused name.
fn move_up(from: BorrowedFd<'_>, name: &CString, top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    for attempt in 0..1000_u32 {
        let (seconds, nanos) = crate::descriptor::now();
        let fresh = format!("..removed-{seconds}-{nanos}-{attempt}");
        match renameat_with(from, name, top, fresh, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

fn explain(error: Errno) -> io::Error {
    match error {
        Errno::XDEV | Errno::BUSY => {
            io::Error::new(io::ErrorKind::ResourceBusy, "something is mounted below")
        }
        error => error.into(),
    }
}
