//! Walks directory trees.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

use super::{next_entry, open_folder};

/// Maximum number of upper directories that stay open. From deeper ones the walk returns by `..`, after checking that
/// it is the directory it came from.
const OPEN: usize = 32;

/// An entry that a walk has found.
#[derive(Debug)]
pub enum Found<'a> {
    /// An open directory, before its contents. The first one is the root.
    Folder(BorrowedFd<'a>, &'a Stat),
    /// Anything else, by its name in its directory.
    Other { folder: BorrowedFd<'a>, name: &'a CStr, stat: &'a Stat },
}

/// Where to continue in a directory that was left for a subdirectory.
struct Mark {
    id: (u64, u64),
    offset: i64,
}

/// Visits everything in a tree, without following symlinks or entering mounts. Entries that are deleted or moved
/// meanwhile may be skipped. An error of `visit` ends the walk.
pub fn walk(root: OwnedFd, visit: &mut dyn FnMut(Found<'_>) -> io::Result<()>) -> io::Result<()> {
    let stat = fstat(&root)?;
    let mut current = Dir::new(root)?;
    let mut id = identity(&stat);
    visit(Found::Folder(current.fd()?, &stat))?;
    let (mut open, mut marks) = (Vec::<Dir>::new(), Vec::<Mark>::new());
    loop {
        let Some(entry) = next_entry(&mut current) else {
            let Some(above) = leave(&current, &mut open, &mut marks)? else { return Ok(()) };
            (current, id) = above;
            continue;
        };
        let entry = entry?;
        let folder = current.fd()?;
        let name = entry.file_name();
        let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            stat => stat?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            visit(Found::Other { folder, name, stat: &stat })?;
            continue;
        }
        let below = match open_folder(folder, name) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => continue,
            below => below?,
        };
        let stat = fstat(&below)?; // of the opened directory, which may have been replaced since statat
        let below = Dir::new(below)?;
        visit(Found::Folder(below.fd()?, &stat))?;
        marks.push(Mark { id, offset: entry.offset() });
        let left = std::mem::replace(&mut current, below);
        if open.len() < OPEN {
            open.push(left);
        }
        id = identity(&stat);
    }
}

/// Returns to the parent directory, at the position where it was left; `None` above the root. If directories were moved
/// so that the way back is lost, returns to the nearest one that is still open.
fn leave(
    done: &Dir,
    open: &mut Vec<Dir>,
    marks: &mut Vec<Mark>,
) -> io::Result<Option<(Dir, (u64, u64))>> {
    if marks.len() > open.len() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let above = openat(done.fd()?, c"..", flags, Mode::empty())?;
        let is_above = identity(&fstat(&above)?);
        if let Some(mark) = marks.pop().filter(|mark| mark.id == is_above) {
            let mut above = Dir::new(above)?;
            above.seek(mark.offset)?;
            return Ok(Some((above, mark.id)));
        }
        marks.truncate(open.len());
    }
    Ok(open.pop().zip(marks.pop().map(|mark| mark.id)))
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
