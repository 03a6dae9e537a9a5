//! Records of sandboxes and containers on disk, with a directory for each.
//!
//! A directory contains the record as it was when the creation began (`pending`), and the final record (`record`),
//! which exists once the creation is complete. After a crash one of them is readable even if the other is damaged.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message;
use sys::durable_record::{self, Durability};

use super::state::{ContainerRecord, SandboxRecord};

/// A record of a sandbox or container.
pub(super) trait Record: Message + Default {
    fn id(&self) -> &str;

    /// Whether all required fields are set.
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

/// The records that were found in a directory.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) known: Vec<T>,
    /// The creation began and was not completed.
    pub(super) unfinished: Vec<T>,
    /// Restored from `pending`, because `record` cannot be read. The shim knows what has happened since.
    pub(super) restored: Vec<T>,
    /// Directories without any readable record.
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
/// Maximum size of a record; no CRI message is larger.
const LARGEST: u64 = super::LARGEST_MESSAGE as u64 + (1 << 20);

/// Reads all records below `folder`. Unreadable files are logged and moved aside.
pub(super) fn load<T: Record>(folder: &Path) -> io::Result<Found<T>> {
    if !folder.is_dir() && fs::symlink_metadata(folder).is_ok() {
        let aside = durable_record::put_aside(folder)?;
        tracing::error!(path = %aside.display(), "the path of a record directory was a file; moved it aside");
    }
    fs::create_dir_all(folder)?;
    let mut found = Found::default();
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if durable_record::is_aside(&path) {
            continue;
        }
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tracing::error!(path = %path.display(), "unexpected file among the record directories");
            continue;
        }
        match (read::<T>(&path, RECORD), read::<T>(&path, PENDING)) {
            (Read::Good(record), _) => found.known.push(record),
            (Read::Bad, Read::Good(begun)) if begun.is_complete() => found.restored.push(begun),
            (Read::None, Read::Good(begun)) => found.unfinished.push(begun),
            (Read::None, Read::None) => {
                // the record is written before anything else is created
                if let Err(error) = remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "cannot remove an empty folder");
                }
            }
            _ => found.unreadable.push(path),
        }
    }
    Ok(found)
}

/// Records that a creation begins. Not synced: after a power failure nothing of it is left to undo.
pub(super) fn begin(folder: &Path, record: &impl Record) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    durable_record::write(&folder.join(PENDING), &record.encode_to_vec(), Durability::None)
}

/// Records a completed creation or a change. After a power failure there is this record or the previous one, and
/// nothing runs.
pub(super) fn write(folder: &Path, record: &impl Record) -> io::Result<()> {
    durable_record::write(&folder.join(RECORD), &record.encode_to_vec(), Durability::Whole)
}

/// Removes a directory, with everything that is mounted below it.
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

/// Result of reading a record file.
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
        // a pending record may contain only the id
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
            tracing::error!(path = %path.display(), %error, "cannot read a record; moving it aside");
            if let Err(error) = durable_record::put_aside(&path) {
                tracing::error!(path = %path.display(), %error, "cannot move a record aside");
            }
            Read::Bad
        }
    }
}
