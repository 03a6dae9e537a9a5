//! Disk reserve: pulling and unpacking images never fills the disk completely.

use std::{
    io::{self, Read, Write},
    os::fd::OwnedFd,
};

use rustix::fs::{StatVfs, fstatvfs};

use super::{Error, Result};

/// Number of bytes between two checks of the disk.
const STEP: u64 = 1 << 20;
/// Upper limit of the reserve in bytes. The reserve is a twentieth of the disk and of its inodes.
const RESERVE: u64 = 1 << 30;

/// The file system of a directory, a part of which is kept free.
#[derive(Debug)]
pub(super) struct DiskReserve {
    folder: OwnedFd,
}

/// Reader or writer that fails once the file system of a directory has less free than the reserve.
#[derive(Debug)]
pub(super) struct Reserving<T> {
    inner: T,
    reserve: DiskReserve,
    passed: u64,
}

impl DiskReserve {
    pub(super) fn new(folder: impl Into<OwnedFd>) -> Result<Self> {
        let new = Self { folder: folder.into() };
        new.check()?;
        Ok(new)
    }

    /// Fails if the file system has less free than the reserve.
    pub(super) fn check(&self) -> io::Result<()> {
        if has_room(&fstatvfs(&self.folder)?) {
            return Ok(());
        }
        let what = "no space left on device: the rest of the image file system is kept free";
        Err(Error::Io(io::Error::new(io::ErrorKind::StorageFull, what).into()).into())
    }
}

impl<T> Reserving<T> {
    pub(super) fn new(inner: T, folder: impl Into<OwnedFd>) -> Result<Self> {
        Ok(Self { inner, reserve: DiskReserve::new(folder)?, passed: 0 })
    }

    fn pass(&mut self, count: usize) -> io::Result<()> {
        self.passed += count as u64;
        if self.passed < STEP {
            return Ok(());
        }
        self.passed = 0;
        self.reserve.check()
    }
}

fn has_room(disk: &StatVfs) -> bool {
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let enough_bytes = bytes(disk.f_bavail) >= (bytes(disk.f_blocks) / 20).min(RESERVE);
    // Some file systems report no inode counts.
    let enough_inodes = disk.f_files == 0 || disk.f_favail >= disk.f_files / 20;
    enough_bytes && enough_inodes
}

impl<R: Read> Read for Reserving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.pass(count)?;
        Ok(count)
    }
}

impl<W: Write> Write for Reserving<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.pass(count)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
