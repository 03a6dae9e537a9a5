//! Volumes that a group shares.

use std::{os::fd::OwnedFd, path::Path};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, chownat, fchmod, fchown, fstat, openat, statat,
};

use crate::Error;

const FOLDER: u32 = 0o2770;
const FILE: u32 = 0o660;

/// Lets `group` read and write all below `folder`. With `trust_root`, a root that already
/// has the group says that all below has.
pub fn give_to_group(folder: &Path, group: u32, trust_root: bool) -> Result<(), Error> {
    let what = folder.display().to_string();
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, folder, flags, Mode::empty()).map_err(Error::io(&what))?;
    if trust_root {
        let stat = fstat(&root).map_err(Error::io(&what))?;
        if stat.st_gid == group && stat.st_mode & FOLDER == FOLDER {
            return Ok(());
        }
    }
    walk(root, Gid::from_raw(group)).map_err(Error::io(what))
}

fn walk(root: OwnedFd, group: Gid) -> rustix::io::Result<()> {
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    folders.push(openat(&folder, name, flags, Mode::empty())?);
                }
                FileType::Symlink => {
                    chownat(&folder, name, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                FileType::RegularFile => {
                    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let file = openat(&folder, name, flags, Mode::empty())?;
                    fchown(&file, None, Some(group))?;
                    fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o7777 | FILE))?;
                }
                _ => chownat(&folder, name, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?,
            }
        }
        let mode = fstat(&folder)?.st_mode & 0o7777;
        fchown(&folder, None, Some(group))?;
        fchmod(&folder, Mode::from_raw_mode(mode | FOLDER))?;
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
    give_to_group(root.path(), 77, false).unwrap();
    let of = |path: &Path| std::fs::metadata(path).map(|m| (m.gid(), m.mode() & 0o7777)).unwrap();
    assert_eq!(of(&root.path().join("deep")), (77, 0o2775));
    assert_eq!(of(&root.path().join("deep/file")), (77, 0o664));
    assert_ne!(of(&outside.path().join("secret")).0, 77);
}
