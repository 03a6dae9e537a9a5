//! The log on disk.
//!
//! ```text
//!  state-0c │ log-0c │ log-1f │ log-30 …zeros      what is read when it is opened
//!                     state-30                     made meanwhile; once it is old enough, all
//!                                                  before it goes, and rings can still be filled
//!  reserve                                          becomes a log for deletions when the disk is full
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
/// Given up while a state is written for which there is no room otherwise.
const STATE_RESERVE: &str = "reserve-state";

#[derive(Clone, Copy, Debug)]
pub struct DiskLogOptions {
    /// How large a file of the log becomes.
    pub segment_size: u64,
    /// How much is set aside for deletions; for a state it is as much as that needs.
    pub reserve_size: u64,
    /// How large the log becomes, at least, before it begins anew with a state.
    pub compact_threshold: u64,
    /// How much can be read back, at least: what rings are filled with.
    pub retain: Duration,
    /// Whether states are written by a thread. In tests the caller may wait.
    pub background: bool,
    /// Whether the process ends when a write or a sync has failed: then nobody knows
    /// what the disk holds. Tests look at what comes after.
    pub exit_on_failure: bool,
}

impl Default for DiskLogOptions {
    fn default() -> Self {
        let (segment, reserve, compact) = (16 << 20, 4 << 20, 32 << 20);
        let retain = Duration::from_secs(75);
        Self {
            segment_size: segment,
            reserve_size: reserve,
            compact_threshold: compact,
            retain,
            background: true,
            exit_on_failure: true,
        }
    }
}

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
    /// Opens what is in the folder, or begins there.
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

    /// Begins in an empty folder, with a state.
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

    /// What a folder holds, though another process may write to it: up to where it was
    /// whole, oldest first, and up to which revision it is only a state.
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
                // Files may go, and a write may be seen in part, while it is looked at.
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
    fn append(&self, batch: &[Record]) -> Result<(), AppendError> {
        let mut files = self.inner.files();
        if files.broken {
            return Err(AppendError::Broken(io::Error::other("an earlier write has failed")));
        }
        files.preloaded = None; // what was found when it was opened is no longer all
        let done = self.inner.append(&mut files, batch);
        if let Err(AppendError::Broken(error)) = &done {
            files.broken = true;
            if self.inner.options.exit_on_failure {
                error!(%error, "a write to the log has failed: what the disk holds is unknown; ending");
                process::abort();
            }
        }
        done
    }

    fn read(&self, after: u64, take: &mut dyn FnMut(Record)) -> Result<LogBase, Error> {
        // Files that are open can be read though they are removed meanwhile.
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
            return Ok((base, records)); // it was read before
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
                inner.files().compacting = false; // what it was made from is still there
            }
        };
        if !self.inner.options.background {
            return compact();
        }
        self.wait(); // it has ended: none is due while one is compacting
        match thread::Builder::new().name("store-state".into()).spawn(compact) {
            Ok(running) => {
                *self.compaction.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
            }
            Err(error) => {
                warn!(%error, "cannot start a thread to write a state");
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
