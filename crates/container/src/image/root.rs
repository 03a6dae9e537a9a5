//! The directory that a layer is unpacked into. The kernel resolves every path inside this directory (`openat2`,
//! RESOLVE_IN_ROOT), so that neither `..` nor a symlink of an untrusted archive leads out of it.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    fs::File,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, XattrFlags},
    io::Errno,
};

use super::{Error, Result};

const OPAQUE: &str = "trusted.overlay.opaque";
const MAX_PATH_DEPTH: usize = 256;

/// The root directory of a layer that is being unpacked.
#[derive(Debug)]
pub(super) struct ExtractRoot {
    dir: OwnedFd,
    /// The layers below, nearest first. A parent directory that the archive leaves out gets its attributes from there.
    lower_layers: Vec<PathBuf>,
    /// Number of parent directories that were created because the archive leaves them out.
    made_parents: Cell<u64>,
}

/// The location of an entry: an open directory and a name in it.
#[derive(Debug)]
pub(super) struct EntryPath {
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

impl ExtractRoot {
    pub(super) fn open(dir: &Path, below: Vec<PathBuf>) -> Result<Self> {
        let dir = fs::open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let root = Self { dir, lower_layers: below, made_parents: Cell::new(0) };
        root.copy_lower_attributes(&root.dir, Path::new("."))?;
        Ok(root)
    }

    /// Resolves `path` and creates missing parent directories. `None` for the root itself.
    pub(super) fn resolve_creating_parents(&self, path: &Path) -> Result<Option<EntryPath>> {
        let mut names = names(path)?;
        let Some(name) = names.pop() else { return Ok(None) };
        let parent: PathBuf = names.iter().collect();
        let parent = match self.directory(&parent) {
            Err(Errno::NOENT) => self.make(&names)?,
            found => found.map_err(|error| at(path, error))?,
        };
        Ok(Some(EntryPath { parent, name: name.to_owned() }))
    }

    /// Resolves a path that must already exist.
    pub(super) fn resolve_existing(&self, path: &Path) -> Result<EntryPath> {
        let mut names = names(path)?;
        let name = names.pop().ok_or_else(|| Error::malformed("archive links to its root"))?;
        let parent: PathBuf = names.iter().collect();
        let parent = self.directory(&parent).map_err(|error| at(path, error))?;
        Ok(EntryPath { parent, name: name.to_owned() })
    }

    /// The number of parent directories that were created since the last call.
    pub(super) fn take_made_parents(&self) -> u64 {
        self.made_parents.take()
    }

    pub(super) fn as_dir(&self) -> &OwnedFd {
        &self.dir
    }

    fn directory(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // The kernel returns EAGAIN when something was renamed meanwhile.
        loop {
            match fs::openat2(&self.dir, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                answer => return answer,
            }
        }
    }

    fn make(&self, names: &[&OsStr]) -> Result<OwnedFd> {
        let mut current = self.directory(Path::new("."))?;
        let mut path = PathBuf::new();
        for name in names {
            path.push(name);
            current = match self.directory(&path) {
                Err(Errno::NOENT) => {
                    fs::mkdirat(&current, *name, Mode::from_raw_mode(0o755))
                        .map_err(|error| at(&path, error))?;
                    self.made_parents.set(self.made_parents.get() + 1);
                    let made = self.directory(&path).map_err(|error| at(&path, error))?;
                    self.copy_lower_attributes(&made, &path)?;
                    made
                }
                found => found.map_err(|error| at(&path, error))?,
            };
        }
        Ok(current)
    }

    /// Copies owner and mode of the same directory in the layers below; otherwise overlayfs would show those of the new
    /// one.
    fn copy_lower_attributes(&self, made: &OwnedFd, path: &Path) -> Result<()> {
        fs::fchmod(made, Mode::from_raw_mode(0o755))?; // independent of the umask
        for below in &self.lower_layers {
            let below = fs::open(below, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
            let Ok(found) = fs::openat2(&below, path, flags, Mode::empty(), resolve) else {
                continue;
            };
            let stat = fs::fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let (uid, gid) = (fs::Uid::from_raw(stat.st_uid), fs::Gid::from_raw(stat.st_gid));
                fs::fchown(made, Some(uid), Some(gid))?;
                fs::fchmod(made, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
            }
            return Ok(());
        }
        Ok(())
    }
}

impl EntryPath {
    pub(super) fn stat(&self) -> Result<Option<Stat>> {
        match fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A path to this entry through the open directory. The calls that use it do not follow the last component.
    pub(super) fn proc_fd_path(&self) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.parent.as_fd().as_raw_fd().to_string())
            .join(&self.name)
    }

    /// Removes an existing entry with this name, because the later entry wins. Returns whether it was a whiteout.
    pub(super) fn clear(&self) -> Result<bool> {
        let Some(stat) = self.stat()? else { return Ok(false) };
        sys::tree::remove_at(&self.parent, &self.name)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0)
    }

    pub(super) fn open_directory(&self) -> Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.parent, &self.name, flags, Mode::empty())?)
    }

    pub(super) fn create_file(&self) -> Result<File> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.parent, &self.name, flags, Mode::from_raw_mode(0o600))?.into())
    }
}

/// Makes a directory opaque: hides its contents in the layers below.
pub(super) fn make_opaque(dir: &OwnedFd) -> Result<()> {
    Ok(fs::fsetxattr(dir, OPAQUE, b"y", XattrFlags::empty())?)
}

fn names(path: &Path) -> Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => {
                return Err(Error::malformed(format!(
                    "archive entry {} leads out of its root",
                    path.display()
                )));
            }
        }
    }
    if names.len() > MAX_PATH_DEPTH {
        return Err(Error::malformed("archive entry nested too deeply"));
    }
    Ok(names)
}

fn at(path: &Path, error: Errno) -> Error {
    Error::malformed(format!("archive entry {}: {error}", path.display()))
}
