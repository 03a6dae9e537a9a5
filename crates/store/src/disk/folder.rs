//! A folder of the machine, held by its descriptor: whoever has it needs no path.

use std::{
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex},
};

use rustix::{
    fs::{self, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags},
    io::{Errno, pread, pwrite},
};

use super::{Disk, File};

const LOCK: &str = "lock";

#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    lock: Mutex<Option<OwnedFd>>,
}

impl Folder {
    /// Opens the folder, and makes it if its parent is there.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        match fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(fs::open(path, flags, Mode::empty())?))
    }

    /// A folder that somebody else has opened, maybe where we could not.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, lock: Mutex::default() }
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?)
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Opened(self.file(name, OFlags::empty())?)))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let fd = self.file(name, OFlags::CREATE | OFlags::EXCL)?;
        let file = Opened(fd);
        if size > 0
            && let Err(error) = file.allocate(size)
        {
            self.remove(name)?;
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }

    fn lock(&self) -> io::Result<bool> {
        let fd = self.file(LOCK, OFlags::CREATE)?;
        match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                *self.lock.lock().expect("not poisoned") = Some(fd);
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[derive(Debug)]
struct Opened(OwnedFd);

impl File for Opened {
    fn size(&self) -> io::Result<u64> {
        u64::try_from(fs::fstat(&self.0)?.st_size).map_err(io::Error::other)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match pread(&self.0, &mut *into, offset) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match pwrite(&self.0, bytes, offset) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        match fs::fallocate(&self.0, FallocateFlags::empty(), 0, size) {
            // No promise of room then, and a write may find none.
            Err(Errno::OPNOTSUPP) => Ok(fs::ftruncate(&self.0, size)?),
            other => Ok(other?),
        }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        Ok(fs::ftruncate(&self.0, size)?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fdatasync(&self.0)?)
    }
}
