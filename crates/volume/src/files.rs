//! Files that are replaced all at once.
//!
//! ```text
//!  folder/..2026_x/key     the files
//!  folder/..data       ──► ..2026_x       replaced by one rename
//!  folder/key          ──► ..data/key     what containers open
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Component, Path},
};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat, readlinkat, renameat,
    symlinkat, unlinkat,
};

use crate::Error;

const DATA: &str = "..data";
const NEXT: &str = "..data_tmp";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub content: Vec<u8>,
    pub mode: u32,
    pub user: Option<u32>,
}

/// By path below the volume.
pub type Files = BTreeMap<String, File>;

/// Makes `folder` hold exactly `files`. Says whether anything changed.
pub fn write(folder: &Path, files: &Files, group: Option<u32>) -> Result<bool, Error> {
    for path in files.keys() {
        check(path)?;
    }
    let what = folder.display().to_string();
    fs::create_dir_all(folder).map_err(Error::io(&what))?;
    let root = openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::io(&what))?;
    let old = readlinkat(&root, DATA, Vec::new()).ok().and_then(|name| name.into_string().ok());
    if let Some(old) = &old
        && current(&folder.join(old), files, group)
    {
        return Ok(false);
    }
    let new = fresh(&root, folder)?;
    fill(&folder.join(&new), files, group)?;
    let _ = unlinkat(&root, NEXT, AtFlags::empty()); // of an interrupted write
    symlinkat(&*new, &root, NEXT).map_err(Error::io(&what))?;
    renameat(&root, NEXT, &root, DATA).map_err(Error::io(&what))?;
    show(&root, folder, files)?;
    if let Some(old) = old.filter(|old| *old != new) {
        fs::remove_dir_all(folder.join(old)).map_err(Error::io(&what))?;
    }
    Ok(true)
}

fn check(path: &str) -> Result<(), Error> {
    let mut parts = Path::new(path).components();
    let plain = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    match first {
        Some(first) if plain && !first.starts_with("..") => Ok(()),
        _ => {
            Err(Error::Invalid(format!("invalid path {path:?}: must be relative and not lead up")))
        }
    }
}

fn mode(file: &File, group: Option<u32>) -> u32 {
    file.mode | if group.is_some() { 0o440 } else { 0 }
}

/// Whether the folder holds these files and no others.
fn current(folder: &Path, files: &Files, group: Option<u32>) -> bool {
    let mut found = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&next) else { return false };
        for entry in entries.flatten() {
            if entry.path().is_dir() {
                waiting.push(entry.path());
            } else {
                found += 1;
            }
        }
    }
    found == files.len()
        && files.iter().all(|(path, file)| {
            let at = folder.join(path);
            let Ok(meta) = fs::metadata(&at) else { return false };
            meta.mode() & 0o7777 == mode(file, group)
                && file.user.is_none_or(|user| user == meta.uid())
                && fs::read(at).is_ok_and(|content| content == file.content)
        })
}

/// A new folder beside the current one; names count up.
fn fresh(root: &OwnedFd, folder: &Path) -> Result<String, Error> {
    let (seconds, nanos) = sys::descriptor::now();
    for attempt in 0..1000 {
        let name = format!("..{seconds}_{:09}", nanos + attempt);
        match mkdirat(root, &*name, Mode::from_raw_mode(0o755)) {
            Ok(()) => return Ok(name),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Error::io(folder.display().to_string())(error)),
        }
    }
    Err(Error::Invalid(format!("{}: no name is free", folder.display())))
}

fn fill(folder: &Path, files: &Files, group: Option<u32>) -> Result<(), Error> {
    let what = folder.display().to_string();
    let top = openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::io(&what))?;
    dress(&top, 0o755, None, group).map_err(Error::io(&what))?;
    for (path, file) in files {
        let mut at = top.try_clone().map_err(Error::io(&what))?;
        let parts: Vec<_> = Path::new(path).components().collect();
        let (name, parents) = parts.split_last().expect("checked to have a name");
        for parent in parents {
            let parent = parent.as_os_str();
            let _ = mkdirat(&at, parent, Mode::from_raw_mode(0o755)); // shared by several files
            at = openat(
                &at,
                parent,
                OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map_err(Error::io(path))?;
            dress(&at, 0o755, None, group).map_err(Error::io(path))?;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = openat(&at, name.as_os_str(), flags, Mode::from_raw_mode(0o600))
            .map_err(Error::io(path))?;
        let mut opened = fs::File::from(opened);
        opened.write_all(&file.content).map_err(Error::io(path))?;
        dress(&opened, mode(file, group), file.user, group).map_err(Error::io(path))?;
    }
    Ok(())
}

fn dress(
    fd: impl AsFd,
    mode: u32,
    user: Option<u32>,
    group: Option<u32>,
) -> rustix::io::Result<()> {
    if user.is_some() || group.is_some() {
        fchown(&fd, user.map(Uid::from_raw), group.map(Gid::from_raw))?;
    }
    fchmod(&fd, Mode::from_raw_mode(mode))
}

/// Links for what containers see; none for what is no longer there.
fn show(root: &OwnedFd, folder: &Path, files: &Files) -> Result<(), Error> {
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let wanted: BTreeSet<String> = files.keys().map(|path| first(path)).collect();
    let what = folder.display().to_string();
    for entry in fs::read_dir(folder).map_err(Error::io(&what))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !wanted.contains(&name) {
            let _ = unlinkat(root, &*name, AtFlags::empty()); // a container's own file stays
        }
    }
    for name in wanted {
        match symlinkat(format!("{DATA}/{name}"), root, &*name) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Error::io(what)(error)),
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).map_err(Error::io(&what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let file = |text: &str| File { content: text.into(), mode: 0o644, user: None };
        entries.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    #[test]
    fn files_change_together_and_old_ones_go() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        assert!(write(at, &files(&[("a", "1"), ("deep/b", "2")]), None).unwrap());
        assert_eq!(fs::read_to_string(at.join("deep/b")).unwrap(), "2");
        assert!(!write(at, &files(&[("a", "1"), ("deep/b", "2")]), None).unwrap());
        assert!(write(at, &files(&[("a", "3")]), Some(77)).unwrap());
        assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "3");
        assert!(fs::symlink_metadata(at.join("deep")).is_err());
        let meta = fs::metadata(at.join("a")).unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (77, 0o644));
        assert_eq!(fs::read_dir(at).unwrap().count(), 3, "a, ..data and the files");
    }

    #[test]
    fn paths_stay_below() {
        let root = tempfile::tempdir().unwrap();
        for path in ["../x", "/etc/x", "a/../../x", "..data", ""] {
            assert!(write(root.path(), &files(&[(path, "")]), None).is_err(), "{path:?}");
        }
    }
}
