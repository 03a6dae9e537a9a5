//! fsGroup ownership of volumes.

use std::{io, os::fd::AsRawFd, path::Path};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, chmod, chownat, fchmod, fchown,
        fstat, openat, openat2,
    },
    io::Errno,
};
use sys::tree::{Found, walk};

use crate::Error;

const DIR_MODE_BITS: u32 = 0o2770;
const FILE_MODE_BITS: u32 = 0o660;

/// Gives `group` read and write access to everything below `folder`. With `trust_root`, nothing is done if the root has
/// the group already (`fsGroupChangePolicy: OnRootMismatch`). Symlinks are not followed and mounts not crossed.
pub fn apply_fs_group(folder: &Path, group: u32, trust_root: bool) -> Result<(), Error> {
    let what = folder.display().to_string();
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, folder, flags, Mode::empty()).map_err(Error::io(&what))?;
    if trust_root {
        let stat = fstat(&root).map_err(Error::io(&what))?;
        if stat.st_gid == group && stat.st_mode & DIR_MODE_BITS == DIR_MODE_BITS {
            return Ok(());
        }
    }
    let group = Gid::from_raw(group);
    walk(root, &mut |found| change(found, group)).map_err(Error::io(what))
}

#[expect(clippy::needless_pass_by_value, reason = "what a walk finds is given away")]
fn change(found: Found<'_>, group: Gid) -> io::Result<()> {
    match found {
        Found::Folder(folder, stat) => {
            fchown(folder, None, Some(group))?;
            fchmod(folder, Mode::from_raw_mode(stat.st_mode & 0o7777 | DIR_MODE_BITS))?;
        }
        Found::Other { folder, name, .. } => {
            // Opened with O_PATH: opening a file has effects if it was replaced meanwhile.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
            let place = match openat2(folder, name, flags, Mode::empty(), inside) {
                Err(Errno::NOENT | Errno::XDEV) => return Ok(()),
                place => place?,
            };
            let stat = fstat(&place)?;
            chownat(&place, c"", None, Some(group), AtFlags::EMPTY_PATH)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let path = format!("/proc/self/fd/{}", place.as_raw_fd());
                chmod(path, Mode::from_raw_mode(stat.st_mode & 0o7777 | FILE_MODE_BITS))?;
            }
        }
    }
    Ok(())
}

#[test]
fn all_below_gets_the_group_and_links_are_not_followed() {
    use std::os::unix::fs::MetadataExt;
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(root.path().join("deep")).unwrap();
    std::fs::write(root.path().join("deep/file"), "").unwrap();
    std::fs::write(outside.path().join("secret"), "").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.path().join("file")).unwrap();
    std::fs::create_dir(root.path().join("mounted")).unwrap();
    crate::bind_mount(
        sys::descriptor::open_path(outside.path()).unwrap(),
        &root.path().join("mounted"),
    )
    .unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, root.path().join("fifo"), fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    apply_fs_group(root.path(), 77, false).unwrap();
    let of = |path: &Path| std::fs::metadata(path).map(|m| (m.gid(), m.mode() & 0o7777)).unwrap();
    assert_eq!(of(&root.path().join("deep")), (77, 0o2775));
    assert_eq!(of(&root.path().join("deep/file")), (77, 0o664));
    assert_eq!(of(&root.path().join("fifo")), (77, 0o600));
    assert_ne!(of(&outside.path().join("secret")).0, 77);
    assert_ne!(of(outside.path()).0, 77);
    crate::unmount_and_remove(&root.path().join("mounted")).unwrap();
}
