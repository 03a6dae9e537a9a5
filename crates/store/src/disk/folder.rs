//! `Disk` on a directory of the host. Files are opened relative to the directory's descriptor, not by path.

use std::{
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    fs::{self, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags},
    io::{Errno, pread, pwrite},
};

use super::{Disk, File, direct_io::DirectWriter, with_zeros};

const LOCK: &str = "lock";
/// Writes of at least this many bytes go through the page cache: it is worthwhile for large ones, and a reader that
/// opens the file soon finds them cached.
const SMALL: usize = 16 << 10;

/// A directory of the host, opened by descriptor.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    lock: Mutex<Option<OwnedFd>>,
}

impl Directory {
    /// Opens the directory, and creates it if its parent exists.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        match fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(fs::open(path, flags, Mode::empty())?))
    }

    /// A directory that another process has opened, possibly in a place that this process cannot access.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, lock: Mutex::default() }
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?)
    }

    fn opened(&self, name: &str, flags: OFlags) -> io::Result<Opened> {
        let fd = self.file(name, flags)?;
        let direct = self.file(name, OFlags::DIRECT).ok(); // without it, writes go through the page cache
        Ok(Opened { fd, direct: direct.map(DirectWriter::new) })
    }
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.opened(name, OFlags::empty())?))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.opened(name, OFlags::CREATE | OFlags::EXCL)?;
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
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(fd);
                Ok(true)
            }
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[derive(Debug)]
struct Opened {
    fd: OwnedFd,
    direct: Option<DirectWriter>,
}

impl File for Opened {
    fn size(&self) -> io::Result<u64> {
        u64::try_from(fs::fstat(&self.fd)?.st_size).map_err(io::Error::other)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match pread(&self.fd, &mut *into, offset) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match pwrite(&self.fd, bytes, offset) {
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

    fn append(&self, bytes: &[u8], zeros: usize, offset: u64) -> io::Result<()> {
        match &self.direct {
            Some(direct)
                if zeros == 0
                    && bytes.len() <= SMALL
                    && direct.append(bytes, offset, &self.fd)? =>
            {
                Ok(())
            }
            _ => self.write_at(&with_zeros(bytes, zeros), offset),
        }
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        match fs::fallocate(&self.fd, FallocateFlags::empty(), 0, size) {
            // The file system cannot allocate space ahead, so a later write may still find the disk full.
            Err(Errno::OPNOTSUPP) => Ok(fs::ftruncate(&self.fd, size)?),
            other => Ok(other?),
        }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        Ok(fs::ftruncate(&self.fd, size)?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fdatasync(&self.fd)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::read;

    #[test]
    fn what_is_appended_in_any_pieces_is_read() {
        let path = tempfile::tempdir().expect("a folder");
        let folder = Directory::open(path.path()).expect("a folder");
        let size = 2 << 20;
        let mut file = folder.create("log", size).expect("room");
        file.write_at(b"a header", 0).expect("room");
        let (mut expected, mut end) = (vec![0; 2 << 20], 8);
        expected[..8].copy_from_slice(b"a header");
        for nth in 0..150_usize {
            let length = if nth % 17 == 0 { 40_000 } else { nth * 977 % 9_000 + 1 };
            let piece = vec![u8::try_from(nth + 1).expect("small"); length];
            let zeros = if nth % 11 == 0 { 50_000 } else { 0 };
            file.append(&piece, zeros, end as u64).expect("room");
            expected[end..end + piece.len()].copy_from_slice(&piece);
            end += piece.len();
            if nth % 7 == 0 {
                file.sync().expect("a disk");
                assert!(read(&*file, size).expect("a file") == expected, "after {nth}");
            }
            if nth % 13 == 0 {
                file = folder.open("log").expect("a file");
            }
        }
        assert!(read(&*file, size).expect("a file") == expected);
    }
}
