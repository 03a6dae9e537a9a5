//! A folder of files: all that the log asks of an operating system, so that tests
//! can take the disk away at any moment.

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

/// A flat folder. Names last once the folder is synced.
pub trait Disk: fmt::Debug + Send + Sync {
    fn list(&self) -> io::Result<Vec<String>>;

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// A new file of that many zeros, for which room is set aside; whatever had the
    /// name before is gone.
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;

    /// Keeps others out for as long as this lives; false: another is in.
    fn lock(&self) -> io::Result<bool>;
}

/// Bytes last once the file is synced.
pub trait File: fmt::Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// As much as there is, up to the length of `into`.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// All of it, or an error after any part of it.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// The same where there are only zeros behind it, and some of those as well.
    fn append(&self, bytes: &[u8], zeros: usize, offset: u64) -> io::Result<()> {
        self.write_at(&with_zeros(bytes, zeros), offset)
    }

    /// Grows to that size, with zeros for which room is set aside, or stays as it is.
    fn allocate(&self, size: u64) -> io::Result<()>;

    fn truncate(&self, size: u64) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;
}

/// Whether there is no room: the one failure after which one can go on.
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
