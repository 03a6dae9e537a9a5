//! The records of sandboxes and containers on disk: a folder each.
//!
//! A folder holds the record as it was begun (`pending`) and the record itself (`record`), which
//! is there once all is made. Whoever starts finds one of them even where the other was damaged.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message;
use sys::durable_record::{self, Durability};

use super::state::{ContainerRecord, SandboxRecord};

/// A kind of record.
pub(super) trait Record: Message + Default {
    fn id(&self) -> &str;

    /// Whether all is there that others rely on.
    fn is_complete(&self) -> bool;
}

impl Record for SandboxRecord {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_complete(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.metadata.is_some())
            && !self.cgroup.is_empty()
    }
}

impl Record for ContainerRecord {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_complete(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.metadata.is_some())
            && !self.cgroup.is_empty()
            && !self.sandbox.is_empty()
    }
}

/// What was found below a folder of folders.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) known: Vec<T>,
    /// Begun, and known to nobody.
    pub(super) unfinished: Vec<T>,
    /// Taken from what was begun, because the record itself cannot be read: what has become of
    /// it since, its shim must tell.
    pub(super) restored: Vec<T>,
    /// Folders of which nothing can be read.
    pub(super) unreadable: Vec<PathBuf>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        let (known, unfinished) = (Vec::new(), Vec::new());
        Self { known, unfinished, restored: Vec::new(), unreadable: Vec::new() }
    }
}

const RECORD: &str = "record";
const PENDING: &str = "pending";
/// No message of the interface is larger.
const LARGEST: u64 = super::LARGEST_MESSAGE as u64 + (1 << 20);

/// Reads all records below `folder`. What cannot be read is said and put aside.
pub(super) fn load<T: Record>(folder: &Path) -> io::Result<Found<T>> {
    if !folder.is_dir() && fs::symlink_metadata(folder).is_ok() {
        let aside = durable_record::put_aside(folder)?;
        tracing::error!(path = %aside.display(), "this stood in the place of a folder of records");
    }
    fs::create_dir_all(folder)?;
    let mut found = Found::default();
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if durable_record::is_aside(&path) {
            continue;
        }
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tracing::error!(path = %path.display(), "no folder, where those of records are");
            continue;
        }
        match (read::<T>(&path, RECORD), read::<T>(&path, PENDING)) {
            (Read::Good(record), _) => found.known.push(record),
            (Read::Bad, Read::Good(begun)) if begun.is_complete() => found.restored.push(begun),
            (Read::None, Read::Good(begun)) => found.unfinished.push(begun),
            (Read::None, Read::None) => {
                // nothing was done before that was written
                if let Err(error) = remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "cannot remove an empty folder");
                }
            }
            _ => found.unreadable.push(path),
        }
    }
    Ok(found)
}

/// Notes what is going to be made. After a power cut nothing of it is left to undo.
pub(super) fn begin(folder: &Path, record: &impl Record) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    durable_record::write(&folder.join(PENDING), &record.encode_to_vec(), Durability::None)
}

/// Notes what has been made, or what has become of it. After a power cut there is this record or
/// the one before, and nothing that runs.
pub(super) fn write(folder: &Path, record: &impl Record) -> io::Result<()> {
    durable_record::write(&folder.join(RECORD), &record.encode_to_vec(), Durability::Whole)
}

/// Removes a folder with all that is in it or mounted there.
fn remove(folder: &Path) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    for point in points.rev().filter(|point| point.starts_with(folder)) {
        if let Err(error) = sys::mount::lazy_unmount(point) {
            tracing::warn!(path = %point.display(), %error, "cannot detach a mount");
        }
    }
    sys::tree::remove(folder)
}

enum Read<T> {
    Good(T),
    Bad,
    None,
}

fn read<T: Record>(folder: &Path, name: &str) -> Read<T> {
    let path = folder.join(name);
    let decoded = durable_record::read(&path, LARGEST).and_then(|bytes| {
        let Some(bytes) = bytes else { return Ok(None) };
        let record = T::decode(&*bytes).map_err(io::Error::other)?;
        let named = folder.file_name().is_some_and(|id| id == record.id());
        // what is only begun may have no more than its name
        if !named || name == RECORD && !record.is_complete() {
            return Err(io::Error::other("not the record of this folder"));
        }
        Ok(Some(record))
    });
    match decoded {
        Ok(Some(record)) => Read::Good(record),
        Ok(None) if durable_record::was_put_aside(&path) => Read::Bad, // by an earlier start
        Ok(None) => Read::None,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "a record cannot be read and is put aside");
            if let Err(error) = durable_record::put_aside(&path) {
                tracing::error!(path = %path.display(), %error, "a record cannot be put aside");
            }
            Read::Bad
        }
    }
}
