//! Removing and walking directory trees that containers can write to.
//!
//! A container decides how deep and how wide such a tree is and where its symlinks lead, and may move directories
//! meanwhile. So nothing here recurses or builds paths: a directory is opened by its name in its open parent, never
//! through a symlink or into a mount, and the number of open directories is limited.

mod remove;
mod walk;

use std::{
    ffi::CStr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::fs::{Dir, DirEntry, Mode, OFlags, ResolveFlags, openat2};

pub use self::{
    remove::{remove, remove_at},
    walk::{Found, walk},
};

/// Opens the directory `name` of `parent`: fails with `LOOP` for a symlink, `XDEV` for a mount point.
fn open_folder(parent: impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), resolve)
}

/// The next entry except `.` and `..`.
fn next_entry(folder: &mut Dir) -> Option<rustix::io::Result<DirEntry>> {
    loop {
        match folder.read()? {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
            entry => return Some(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use rustix::fs::{CWD, mkdirat, openat};

    use super::*;
    use crate::mount;

    /// Too deep for recursion, and much deeper than a path can be.
    const DEEP: usize = 20_000;

    fn open(path: &Path) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).expect("a folder")
    }

    /// Nests directories, with a file in the last one.
    fn nest(top: &Path, depth: usize) {
        let mut at = open(top);
        for _ in 0..depth {
            mkdirat(&at, c"d", Mode::from_raw_mode(0o755)).expect("made");
            at = open_folder(&at, c"d").expect("opened");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let last = openat(&at, c"last", flags, Mode::from_raw_mode(0o600)).expect("made");
        rustix::io::write(&last, b"x").expect("written");
    }

    #[test]
    fn depth_is_no_matter() {
        let root = tempfile::tempdir_in("/dev/shm").expect("a folder"); // disks take minutes
        let top = root.path().join("top");
        fs::create_dir(&top).expect("made");
        nest(&top, DEEP);
        fs::create_dir_all(top.join("a/b")).expect("made");
        fs::write(top.join("a/b/c"), "x").expect("written");
        let (mut folders, mut others) = (0, 0);
        // with a small stack, as threads for such work have
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let small = small.spawn(move || {
            walk(open(&top), &mut |found| {
                match found {
                    Found::Folder(..) => folders += 1,
                    Found::Other { .. } => others += 1,
                }
                Ok(())
            })
            .expect("walked");
            assert_eq!((folders, others), (1 + DEEP + 2, 2));
            remove(&top).expect("removed");
            assert!(!top.exists());
        });
        small.expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn a_wide_tree_is_removed_with_few_descriptors() {
        let root = tempfile::tempdir().expect("a folder");
        let top = root.path().join("top");
        for at in 0..600 {
            let folder = top.join(format!("{at}/{}", "x/".repeat(at % 40)));
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("file"), "x").expect("written");
        }
        remove(&top).expect("removed");
        assert!(!top.exists());
        remove(&top).expect("what is not there needs no removing");
    }

    #[test]
    fn links_and_mounts_are_left_alone() {
        let (root, outside) =
            (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let top = root.path().join("top");
        fs::create_dir_all(top.join("mounted")).expect("made");
        fs::write(outside.path().join("kept"), "x").expect("written");
        symlink(outside.path(), top.join("link")).expect("a link");
        let source = crate::descriptor::open_path(outside.path()).expect("open");
        let target = crate::descriptor::open_path(&top.join("mounted")).expect("open");
        mount::attach_tree(mount::clone_tree(source, false).expect("a copy"), target)
            .expect("mounted");
        let mut names = Vec::new();
        walk(open(&top), &mut |found| {
            if let Found::Other { name, .. } = found {
                names.push(name.to_owned());
            }
            Ok(())
        })
        .expect("walked");
        assert_eq!(names, [c"link".to_owned()]);
        let error = remove(&top).expect_err("something is mounted there");
        assert!(error.to_string().contains("mounted"), "{error}");
        assert!(outside.path().join("kept").exists());
        mount::lazy_unmount(&top.join("mounted")).expect("detached");
        remove(&top).expect("removed");
        assert!(outside.path().join("kept").exists());
        symlink(outside.path(), &top).expect("a link");
        remove(&top).expect("only the link");
        assert!(outside.path().join("kept").exists() && !top.is_symlink());
    }
}
