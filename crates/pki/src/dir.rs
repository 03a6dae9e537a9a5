//! A directory held by its descriptor: it stays accessible if its path is not, and cannot be replaced by another one.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{self, AtFlags, Mode, OFlags};

use crate::Error;

const LARGEST: u64 = 1 << 20;

/// An open directory.
#[derive(Debug)]
pub struct Dir(OwnedFd);

impl From<OwnedFd> for Dir {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Dir {
    pub fn open(path: &Path) -> Result<Self, Error> {
        fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map(Self)
            .map_err(|error| file(&path.display().to_string(), error))
    }

    /// The content of a file; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let fd = match fs::openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            fd => fd.map_err(|error| file(name, error))?,
        };
        let mut content = Vec::new();
        let read = File::from(fd).take(LARGEST + 1).read_to_end(&mut content);
        match read {
            Ok(length) if length as u64 > LARGEST => {
                Err(file(name, io::Error::other("larger than 1 MiB")))
            }
            Ok(_) => Ok(Some(content)),
            Err(error) => Err(file(name, error)),
        }
    }

    /// Creates a file atomically. Fails if it exists.
    pub fn create(&self, name: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        self.write(name, content, mode, |temporary| {
            fs::linkat(&self.0, temporary, &self.0, name, AtFlags::empty())?;
            fs::unlinkat(&self.0, temporary, AtFlags::empty())
        })
    }

    /// Creates or replaces a file atomically.
    pub fn replace(&self, name: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        self.write(name, content, mode, |temporary| fs::renameat(&self.0, temporary, &self.0, name))
    }

    fn write(
        &self,
        name: &str,
        content: &[u8],
        mode: u32,
        publish: impl FnOnce(&str) -> rustix::io::Result<()>,
    ) -> Result<(), Error> {
        let mut random = [0; 9];
        SystemRandom::new().fill(&mut random).map_err(|_| Error::Random)?;
        let temporary = format!(".{name}.{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let written = fs::openat(&self.0, &*temporary, flags, Mode::from_raw_mode(mode))
            .map_err(io::Error::from)
            .and_then(|fd| {
                let mut new = File::from(fd);
                new.write_all(content)?;
                new.sync_all()
            })
            .and_then(|()| publish(&temporary).map_err(io::Error::from))
            .and_then(|()| fs::fsync(&self.0).map_err(io::Error::from));
        written.map_err(|error| {
            // a leftover temporary file cannot be helped: the first error counts
            let _ = fs::unlinkat(&self.0, &*temporary, AtFlags::empty());
            file(name, error)
        })
    }
}

fn file(name: &str, error: impl Into<io::Error>) -> Error {
    Error::File { name: name.to_owned(), error: error.into() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_made_once_and_leaves_no_traces() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path()).unwrap();
        assert_eq!(dir.read("a").unwrap(), None);
        dir.create("a", b"one", 0o600).unwrap();
        assert!(dir.create("a", b"two", 0o600).is_err());
        assert_eq!(dir.read("a").unwrap().unwrap(), b"one");
        dir.replace("a", b"three", 0o600).unwrap();
        assert_eq!(dir.read("a").unwrap().unwrap(), b"three");
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let mode = std::fs::metadata(folder.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
