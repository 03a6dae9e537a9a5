//! The write-ahead log on disk, with snapshots.
//!
//! ```text
//!  state-0c │ log-0c │ log-1f │ log-30 …zeros      the files that are read on opening
//!                     state-30                     a snapshot, written in the background; once it is old
//!                                                  enough, everything before it is removed. Until then
//!                                                  watch caches can still be filled with older events
//!  reserve                                         becomes a segment for deletions when the disk is full
//! ```

mod append;
mod compact;
mod files;
mod frame;
mod segment;
mod snapshot;

use std::{
    io, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use object::Clock;
use tracing::{error, warn};

use self::{
    files::{LogFiles, read},
    segment::Segment,
    snapshot::Snapshot,
};
use crate::{
    AppendError, Checkpoint, Error, LastDeletions, Log, LogBase, Notes, Record, disk::Disk,
    keys::KeyIndex, parallel::parallelism,
};

const RESERVE: &str = "reserve";
/// A file of allocated space that is given up to write a snapshot when the disk is full.
const STATE_RESERVE: &str = "reserve-state";

/// Sizes and behaviour of a `DiskLog`.
#[derive(Clone, Copy, Debug)]
pub struct DiskLogOptions {
    /// Size of a segment file in bytes.
    pub segment_size: u64,
    /// Bytes reserved for deletions on a full disk. The reserve for a snapshot is as large as the snapshot needs.
    pub reserve_size: u64,
    /// Prefixes of the keys whose renewal may use the reserve too. If a full disk prevented the renewal of node leases,
    /// all nodes would become NotReady and their pods would be evicted.
    pub essential_prefixes: &'static [&'static str],
    /// Minimum size in bytes of the log before a snapshot replaces it.
    pub compact_threshold: u64,
    /// Minimum age of events before they are removed: watch caches are filled with the events that are left.
    pub retain: Duration,
    /// Whether snapshots are written by a background thread. Tests may write them synchronously.
    pub background: bool,
    /// Whether the process aborts after a failed write or sync, because the content of the disk is unknown then. Tests
    /// turn this off to check the behaviour afterwards.
    pub exit_on_failure: bool,
}

impl Default for DiskLogOptions {
    fn default() -> Self {
        let (segment, reserve, compact) = (16 << 20, 4 << 20, 32 << 20);
        let retain = Duration::from_secs(75);
        Self {
            segment_size: segment,
            reserve_size: reserve,
            essential_prefixes: &[],
            compact_threshold: compact,
            retain,
            background: true,
            exit_on_failure: true,
        }
    }
}

/// The log on disk.
#[derive(Debug)]
pub struct DiskLog {
    inner: Arc<Inner>,
    compaction: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: DiskLogOptions,
    files: Mutex<LogFiles>,
}

impl DiskLog {
    /// Opens the log in the directory, or creates one.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: DiskLogOptions,
    ) -> Result<Arc<Self>, Error> {
        if !disk.lock().map_err(|error| Error::Disk(format!("lock the folder: {error}")))? {
            return Err(Error::InUse);
        }
        let files = Mutex::new(LogFiles::open(&*disk)?);
        let inner = Inner { disk, clock, options, files };
        inner.prepare().map_err(|error| Error::Disk(format!("write to the folder: {error}")))?;
        Ok(Arc::new(Self { inner: Arc::new(inner), compaction: Mutex::default() }))
    }

    /// Creates a log in an empty directory, beginning with a snapshot.
    pub(crate) fn create_with_snapshot(
        disk: &dyn Disk,
        records: Vec<Record>,
        revision: u64,
        made: i64,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Disk(format!("write to the folder: {error}"));
        if !disk.lock().map_err(failed)? {
            return Err(Error::InUse);
        }
        let ours = |name: &String| Segment::base_of(name).or(Snapshot::revision_of(name)).is_some();
        if disk.list().map_err(failed)?.iter().any(ours) {
            return Err(Error::Disk("begin there: the folder holds a store already".to_owned()));
        }
        let mut keys = KeyIndex::default();
        for record in &records {
            keys.apply(record);
        }
        let (heads, removals, notes) = (
            keys.heads(),
            LastDeletions { rest: revision, ..LastDeletions::default() },
            Notes::default(),
        );
        let image = Checkpoint { revision, floor: revision, heads: None, removals, notes };
        let written = Snapshot::write(disk, &image, &heads, made, |take| {
            records.into_iter().for_each(take);
            Ok(())
        });
        written.map(drop).map_err(|error| Error::Disk(format!("begin there: {error}")))
    }

    /// Reads a directory that another process may be writing to, up to the last complete record. Returns the records,
    /// oldest first, and the revision up to which only the current values are known, not the history.
    pub(crate) fn read_shared(disk: &dyn Disk) -> Result<(u64, Vec<Record>), Error> {
        let mut tries = 5;
        loop {
            let read = || {
                let mut files = LogFiles::open(disk)?;
                let mut records = Vec::new();
                let snapshot = files.snapshots.first().cloned();
                let base =
                    snapshot.map(|s| s.read(1, &mut |record| records.push(record))).transpose()?;
                let base = base.unwrap_or_default();
                let found = files.preloaded.take().unwrap_or_default();
                records
                    .extend(found.into_iter().filter(|record| record.revision > base.end_revision));
                Ok((base.floor, records))
            };
            match read() {
                // While the directory is read, files may be removed, and a write may be incomplete.
                Err(Error::Disk(_) | Error::Damaged { .. }) if tries > 0 => tries -= 1,
                done => return done,
            }
        }
    }

    fn wait(&self) {
        let running = self.compaction.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            let _ = running.join(); // a panic has been counted and logged
        }
    }
}

impl Log for DiskLog {
    fn essential_prefixes(&self) -> &'static [&'static str] {
        self.inner.options.essential_prefixes
    }

    fn append(&self, batch: &[Record]) -> Result<(), AppendError> {
        let mut files = self.inner.files();
        if files.broken {
            return Err(AppendError::Broken(io::Error::other("an earlier write has failed")));
        }
        files.preloaded = None; // the records found on opening are no longer complete
        let done = self.inner.append(&mut files, batch);
        if let Err(AppendError::Broken(error)) = &done {
            files.broken = true;
            if self.inner.options.exit_on_failure {
                error!(%error, "write to the log failed: the content of the disk is unknown; aborting");
                process::abort();
            }
        }
        done
    }

    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        // Open files stay readable when they are removed meanwhile.
        let (snapshot, segments, found) = {
            let mut files = self.inner.files();
            (files.snapshots.first().cloned(), files.segments.clone(), files.preloaded.take())
        };
        let base = match snapshot {
            Some(snapshot) if snapshot.revision > after => snapshot.read(parallelism(), take)?,
            Some(Snapshot { floor, revision, .. }) => {
                LogBase { floor, end_revision: revision, ..LogBase::default() }
            }
            None => LogBase::default(),
        };
        let from = after.max(base.end_revision);
        match found {
            Some(found) => found.into_iter().filter(|r| r.revision > from).for_each(take),
            None => read(&segments, from, take)?,
        }
        Ok(base)
    }

    fn load(&self) -> Result<(LogBase, Vec<Record>), Error> {
        let (snapshot, found) = {
            let mut files = self.inner.files();
            (files.snapshots.first().cloned(), files.preloaded.take())
        };
        let mut records = Vec::new();
        let Some(mut found) = found else {
            let base = self.read(0, &mut |record| records.push(record))?;
            return Ok((base, records)); // records already loaded on opening
        };
        let mut base = LogBase::default();
        if let Some(snapshot) = snapshot {
            base = snapshot.read(parallelism(), &mut |record| records.push(record))?;
        }
        let known = found.partition_point(|record| record.revision <= base.end_revision);
        if records.is_empty() {
            found.drain(..known);
            return Ok((base, found));
        }
        records.extend(found.drain(known..));
        Ok((base, records))
    }

    fn read_until(&self, revision: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        let (snapshot, segments) = {
            let files = self.inner.files();
            let before = files.snapshots.iter().rfind(|snapshot| snapshot.revision <= revision);
            let snapshot = before.or(files.snapshots.first()).cloned();
            let until = files.segments.partition_point(|segment| segment.base < revision);
            (snapshot, files.segments[..until].to_vec())
        };
        let base = snapshot.map(|snapshot| snapshot.read(1, take)).transpose()?.unwrap_or_default();
        read(&segments, base.end_revision, take)?;
        Ok(base)
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn needs_compaction(&self) -> bool {
        self.inner.files().needs_snapshot(&self.inner.options)
    }

    fn compact(&self, image: Checkpoint) {
        {
            let mut files = self.inner.files();
            files.compacting = true;
            files.snapshot_started_at = image.revision;
        }
        let inner = self.inner.clone();
        let compact = move || {
            if panics::catch("store state", || inner.compact(&image)).is_err() {
                inner.files().compacting = false; // the files that it would have replaced are still there
            }
        };
        if !self.inner.options.background {
            return compact();
        }
        self.wait(); // it has finished: no compaction starts while another is running
        match thread::Builder::new().name("store-state".into()).spawn(compact) {
            Ok(running) => {
                *self.compaction.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
            }
            Err(error) => {
                warn!(%error, "cannot start a thread to write a snapshot");
                self.inner.files().compacting = false;
            }
        }
    }
}

impl Drop for DiskLog {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Inner {
    fn files(&self) -> MutexGuard<'_, LogFiles> {
        self.files.lock().unwrap_or_else(|poisoned| {
            let mut files = poisoned.into_inner();
            files.broken = true; // what the disk holds is unknown
            files
        })
    }
}
