//! The file operations that the log needs, as a trait, so that tests can simulate a crash or a full disk at any point.

mod direct_io;
mod failpoints;
mod folder;
mod simulated;

use std::{borrow::Cow, fmt, io, sync::Arc};

pub use self::{
    failpoints::{FailAction, Failpoints, POINTS},
    folder::Directory,
    simulated::SimulatedDisk,
};

/// A directory without subdirectories. Changes of file names are durable once the directory is synced.
pub trait Disk: fmt::Debug + Send + Sync {
    fn list(&self) -> io::Result<Vec<String>>;

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates a file of `size` zeros with its space allocated. An existing file of that name is replaced.
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;

    /// Locks the directory against other processes for as long as this value lives; false if another process holds the
    /// lock.
    fn lock(&self) -> io::Result<bool>;
}

/// An open file. Its bytes are durable once it is synced.
pub trait File: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Reads up to `into.len()` bytes, as many as there are.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Like `write_at`, followed by `zeros` zeros, for use where the file contains only zeros behind `offset`.
    fn append(&self, bytes: &[u8], zeros: usize, offset: u64) -> io::Result<()> {
        self.write_at(&with_zeros(bytes, zeros), offset)
    }

    /// Grows the file to `size` with allocated zeros; on failure the file keeps its size.
    fn allocate(&self, size: u64) -> io::Result<()>;

    fn truncate(&self, size: u64) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;
}

/// Whether the error says that the disk is full: the only failure after which the log can continue.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn with_zeros(bytes: &[u8], zeros: usize) -> Cow<'_, [u8]> {
    if zeros == 0 {
        return bytes.into();
    }
    let mut all = Vec::with_capacity(bytes.len() + zeros);
    all.extend_from_slice(bytes);
    all.resize(bytes.len() + zeros, 0);
    all.into()
}

/// The first `size` bytes of a file.
pub(crate) fn read(file: &dyn File, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let (mut bytes, mut at) = (vec![0; size], 0);
    while at < size {
        match file.read_at(&mut bytes[at..], at as u64)? {
            0 => break,
            count => at += count,
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}
