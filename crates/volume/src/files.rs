//! Atomic updates of projected files (ConfigMap, Secret, downward API, tokens).
//!
//! ```text
//!  dir/..2026_x/key        the files
//!  dir/..data          ──► ..2026_x       replaced by one rename
//!  dir/key             ──► ..data/key     what containers open
//! ```
//!
//! Containers get the directory read-only, but a privileged one, or one that an older kubelet started, may write to it.
//! So its content is not trusted: symlinks are compared, never followed, and unexpected entries are removed through
//! descriptors.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt, fs::MetadataExt},
    },
    path::{Component, Path},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat, readlinkat,
        renameat, statat, symlinkat,
    },
    io::Errno,
};
use sys::{
    container_file,
    tree::{self, Found},
};

use crate::Error;

const DATA_DIR_NAME: &str = "..data";
const NEW_DATA_DIR_NAME: &str = "..data_tmp";
const FOLDER: u32 = 0o755;

/// The content, mode and owner of one projected file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProjection {
    pub content: Vec<u8>,
    pub mode: u32,
    pub uid: Option<u32>,
}

/// The files by path below the volume.
pub type Payload = BTreeMap<String, FileProjection>;

/// Makes `folder` contain exactly `files`. Returns whether they changed.
pub fn write_atomically(folder: &Path, files: &Payload, group: Option<u32>) -> Result<bool, Error> {
    for path in files.keys() {
        validate_path(path)?;
    }
    let what = || folder.display().to_string();
    fs::create_dir_all(folder).map_err(Error::io(what()))?;
    let root = open_folder(CWD, folder.as_os_str()).map_err(Error::io(what()))?;
    fchmod(&root, Mode::from_raw_mode(FOLDER)).map_err(Error::io(what()))?;
    let old = is_up_to_date(&root).filter(|name| {
        open_folder(&root, OsStr::new(name)).is_ok_and(|old| holds(&old, files, group))
    });
    let changed = old.is_none();
    let now = match old {
        Some(old) => old,
        None => replace(&root, files, group).map_err(Error::io(what()))?,
    };
    sync_user_visible_links(&root, &now, files).map_err(Error::io(what()))?;
    Ok(changed)
}

fn validate_path(path: &str) -> Result<(), Error> {
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

fn open_folder(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

fn effective_mode(file: &FileProjection, group: Option<u32>) -> u32 {
    file.mode | if group.is_some() { 0o440 } else { 0 }
}

/// The directory that `..data` points to, if its name is one that we create.
fn is_up_to_date(root: &OwnedFd) -> Option<String> {
    let name = readlinkat(root, DATA_DIR_NAME, Vec::new()).ok()?.into_string().ok()?;
    let (seconds, nanos) = name.strip_prefix("..")?.split_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(seconds) && digits(nanos)).then_some(name)
}

/// Whether the directory contains these files and no others.
fn holds(folder: &OwnedFd, files: &Payload, group: Option<u32>) -> bool {
    let mut others = 0;
    let Ok(root) = folder.try_clone() else { return false };
    let counted = tree::walk(root, &mut |found| {
        others += usize::from(matches!(found, Found::Other { .. }));
        if others > files.len() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    });
    let same = |(path, file): (&String, &FileProjection)| {
        let found = container_file::open_beneath(folder, Path::new(path)).ok()?;
        let meta = found.metadata().ok()?;
        let owned = meta.mode() & 0o7777 == effective_mode(file, group)
            && file.uid.is_none_or(|user| user == meta.uid())
            && group.is_none_or(|group| group == meta.gid());
        let content = container_file::read_head(&found, file.content.len() + 1).ok()?;
        (owned && content == file.content).then_some(())
    };
    counted.is_ok() && others == files.len() && files.iter().all(|file| same(file).is_some())
}

/// Writes the files to a new directory and points `..data` to it.
fn replace(root: &OwnedFd, files: &Payload, group: Option<u32>) -> io::Result<String> {
    let new = create_timestamped_dir(root)?;
    write_payload(&open_folder(root, OsStr::new(&new))?, files, group)?;
    tree::remove_at(root, OsStr::new(NEW_DATA_DIR_NAME))?; // left by an interrupted write
    symlinkat(&*new, root, NEW_DATA_DIR_NAME)?;
    match renameat(root, NEW_DATA_DIR_NAME, root, DATA_DIR_NAME) {
        Err(Errno::ISDIR) => {
            tree::remove_at(root, OsStr::new(DATA_DIR_NAME))?;
            renameat(root, NEW_DATA_DIR_NAME, root, DATA_DIR_NAME)?;
        }
        renamed => renamed?,
    }
    Ok(new)
}

/// Creates a new timestamped directory.
fn create_timestamped_dir(root: &OwnedFd) -> io::Result<String> {
    let (seconds, nanos) = sys::descriptor::now();
    for attempt in 0..1000 {
        let name = format!("..{seconds}_{:09}", nanos + attempt);
        match mkdirat(root, &*name, Mode::from_raw_mode(FOLDER)) {
            Err(Errno::EXIST) => {}
            made => return made.map(|()| name).map_err(io::Error::from),
        }
    }
    Err(Errno::EXIST.into())
}

fn write_payload(top: &OwnedFd, files: &Payload, group: Option<u32>) -> io::Result<()> {
    chown_and_chmod(top, FOLDER, None, group)?;
    for (path, file) in files {
        let mut at = top.try_clone()?;
        let mut parts = Path::new(path).components();
        let name = parts.next_back().ok_or(io::ErrorKind::InvalidInput)?;
        for parent in parts {
            let _ = mkdirat(&at, parent.as_os_str(), Mode::from_raw_mode(FOLDER)); // may exist
            at = open_folder(&at, parent.as_os_str())?;
            chown_and_chmod(&at, FOLDER, None, group)?;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = openat(&at, name.as_os_str(), flags, Mode::from_raw_mode(0o600))?;
        let opened = fs::File::from(opened);
        opened.write_all_at(&file.content, 0)?;
        chown_and_chmod(&opened, effective_mode(file, group), file.uid, group)?;
    }
    Ok(())
}

fn chown_and_chmod(
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

/// Creates the symlinks that containers see, and removes everything else except the current files.
fn sync_user_visible_links(root: &OwnedFd, now: &str, files: &Payload) -> io::Result<()> {
    let first = |path: &str| OsString::from(path.split('/').next().unwrap_or_default());
    let wanted: BTreeSet<OsString> = files.keys().map(|path| first(path)).collect();
    for entry in Dir::read_from(root)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let stays = [".", "..", DATA_DIR_NAME, now].iter().any(|known| *known == name);
        if !stays && !wanted.contains(name) {
            tree::remove_at(root, name)?;
        }
    }
    for name in wanted {
        let target = Path::new(DATA_DIR_NAME).join(&name);
        let is_link = readlinkat(root, &name, Vec::new())
            .is_ok_and(|found| found.to_bytes() == target.as_os_str().as_bytes());
        if !is_link {
            if statat(root, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                tree::remove_at(root, &name)?;
            }
            symlinkat(&target, root, &name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files(entries: &[(&str, &str)]) -> Payload {
        let file = |text: &str| FileProjection { content: text.into(), mode: 0o644, uid: None };
        entries.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    #[test]
    fn files_change_together_and_old_ones_go() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        assert!(write_atomically(at, &files(&[("a", "1"), ("deep/b", "2")]), None).unwrap());
        assert_eq!(fs::read_to_string(at.join("deep/b")).unwrap(), "2");
        assert!(!write_atomically(at, &files(&[("a", "1"), ("deep/b", "2")]), None).unwrap());
        assert!(write_atomically(at, &files(&[("a", "3")]), Some(77)).unwrap());
        assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "3");
        assert!(fs::symlink_metadata(at.join("deep")).is_err());
        let meta = fs::metadata(at.join("a")).unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (77, 0o644));
        assert_eq!(fs::metadata(at).unwrap().mode() & 0o7777, 0o755, "nobody else writes here");
        assert_eq!(fs::read_dir(at).unwrap().count(), 3, "a, ..data and the files");
    }

    #[test]
    fn paths_stay_below() {
        let root = tempfile::tempdir().unwrap();
        for path in ["../x", "/etc/x", "a/../../x", "..data", ""] {
            assert!(
                write_atomically(root.path(), &files(&[(path, "")]), None).is_err(),
                "{path:?}"
            );
        }
    }

    /// A volume, and next to it a directory of the host that must not change.
    struct Attack {
        root: tempfile::TempDir,
    }

    impl Attack {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("host")).unwrap();
            fs::write(root.path().join("host/a"), "host").unwrap();
            let attack = Self { root };
            write_atomically(&attack.volume(), &files(&[("a", "1")]), None).unwrap();
            attack
        }

        fn volume(&self) -> std::path::PathBuf {
            self.root.path().join("volume")
        }

        fn host(&self) -> std::path::PathBuf {
            self.root.path().join("host")
        }

        /// Points `..data` elsewhere, as a container with write access could.
        fn lead(&self, data: &Path) {
            fs::remove_file(self.volume().join(DATA_DIR_NAME)).unwrap();
            symlink(data, self.volume().join(DATA_DIR_NAME)).unwrap();
        }

        /// Updates twice and checks that the volume is right and the host's file unchanged.
        fn assert_harmless(&self) {
            for content in ["1", "2"] {
                write_atomically(&self.volume(), &files(&[("a", content)]), None).unwrap();
                assert_eq!(fs::read_to_string(self.volume().join("a")).unwrap(), content);
            }
            assert_eq!(fs::read_dir(self.volume()).unwrap().count(), 3);
            assert_eq!(fs::read_dir(self.host()).unwrap().count(), 1);
            assert_eq!(fs::read_to_string(self.host().join("a")).unwrap(), "host");
        }
    }

    #[test]
    fn data_that_leads_out_is_not_followed() {
        for relative in [false, true] {
            let attack = Attack::new();
            attack.lead(&if relative { "../host".into() } else { attack.host() });
            attack.assert_harmless();
        }
    }

    #[test]
    fn a_link_in_place_of_the_files_is_not_followed() {
        let attack = Attack::new();
        symlink(attack.host(), attack.volume().join("..1_1")).unwrap();
        attack.lead(Path::new("..1_1"));
        attack.assert_harmless();
    }

    #[test]
    fn folders_in_place_of_links_go() {
        let attack = Attack::new();
        let volume = attack.volume();
        for name in [DATA_DIR_NAME, "a"] {
            fs::remove_file(volume.join(name)).unwrap();
        }
        for name in [DATA_DIR_NAME, NEW_DATA_DIR_NAME, "a", "other", "..other"] {
            fs::create_dir_all(volume.join(name).join("deep")).unwrap();
            symlink(attack.host(), volume.join(name).join("deep/link")).unwrap();
        }
        symlink(attack.host(), volume.join("link")).unwrap();
        attack.assert_harmless();
    }

    /// Neither a FIFO nor a huge sparse file blocks the next update.
    #[test]
    fn what_cannot_be_read_is_replaced() {
        let attack = Attack::new();
        let volume = attack.volume();
        let file = volume.join(fs::read_link(volume.join(DATA_DIR_NAME)).unwrap()).join("a");
        fs::remove_file(&file).unwrap();
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &file, kind, Mode::from_raw_mode(0o644), 0).unwrap();
        attack.assert_harmless();
        let file = volume.join(fs::read_link(volume.join(DATA_DIR_NAME)).unwrap()).join("a");
        fs::File::options().write(true).open(&file).unwrap().set_len(8 << 40).unwrap();
        attack.assert_harmless();
    }

    /// `..data`, its target and the visible files are exchanged during updates.
    #[test]
    fn a_race_leads_nowhere() {
        let rounds = std::env::var_os("TIPHYS_RACES").and_then(|text| text.to_str()?.parse().ok());
        let attack = Attack::new();
        let (volume, host) = (attack.volume(), attack.host());
        // The attacker follows no symlink of its own either: in a container its links to the host lead nowhere.
        let plant = |folder: &Path, name: &str| {
            let Ok(folder) = open_folder(CWD, folder.as_os_str()) else { return };
            let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
            let _ = symlinkat(&host, &folder, name);
        };
        let swap = |name: &str| {
            let at = volume.join(name);
            plant(&volume, name);
            let _ = fs::rename(&at, volume.join("..aside"));
            let _ = fs::create_dir(&at);
            plant(&at, "link");
            plant(&at, "a");
            let _ = fs::rename(&at, volume.join("..moved"));
            let kind = rustix::fs::FileType::Fifo;
            let _ = rustix::fs::mknodat(CWD, &at, kind, Mode::from_raw_mode(0o666), 0);
            let _ = fs::rename(volume.join("..aside"), &at);
        };
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let now = fs::read_link(volume.join(DATA_DIR_NAME)).unwrap_or_default();
                    let now = now.to_string_lossy().into_owned();
                    let is_name = now.starts_with("..") && now.len() > 2 && !now.contains('/');
                    let names = [DATA_DIR_NAME, NEW_DATA_DIR_NAME, "a", "..1_1", &now];
                    for name in names.into_iter().take(4 + usize::from(is_name)) {
                        swap(name);
                    }
                    if is_name {
                        plant(&volume.join(&now), "a");
                    }
                }
            });
            let (mut good, mut refused) = (0_u32, 0_u32);
            for round in 0..rounds.unwrap_or(1000) {
                let content = format!("{round}");
                match write_atomically(
                    &volume,
                    &files(&[("a", &content), ("deep/b", &content)]),
                    None,
                ) {
                    Ok(_) => good += 1,
                    Err(_) => refused += 1,
                }
                if fs::read_to_string(host.join("a")).is_ok_and(|text| text == "host") {
                    continue;
                }
                refused = u32::MAX; // checked when the other thread has ended
                break;
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_ne!(refused, u32::MAX, "the host's file was changed");
            println!("{good} writes, {refused} refused");
            assert!(good > 0, "no write was possible");
        });
        assert_eq!(fs::read_dir(&host).unwrap().count(), 1);
        crate::unmount_and_remove(&volume).unwrap();
        write_atomically(&volume, &files(&[("a", "1")]), None).unwrap();
        attack.assert_harmless();
    }
}
