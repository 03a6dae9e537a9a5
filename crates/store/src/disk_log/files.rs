//! The files of a log directory, and the check that none of them is missing.

use std::io;

use super::{DiskLogOptions, segment::Segment, snapshot::Snapshot};
use crate::{
    Error, Record,
    disk::Disk,
    engine::INITIAL_REVISION,
    parallel::{parallel_map, parallelism},
};

/// Files of at least this many bytes are read in parallel.
const LARGE: u64 = 1 << 20;

/// The snapshots and segments of a log, and the state of the directory.
#[derive(Debug, Default)]
pub(super) struct LogFiles {
    /// Oldest first. Reading begins with the first.
    pub(super) snapshots: Vec<Snapshot>,
    /// The segments since the first snapshot, without a gap. The last one is appended to.
    pub(super) segments: Vec<Segment>,
    pub(super) room: SpaceState,
    pub(super) broken: bool,
    pub(super) compacting: bool,
    /// The last revision when the previous snapshot was started.
    pub(super) snapshot_started_at: u64,
    /// After a failed snapshot, how many bytes the log must grow before the next attempt.
    pub(super) snapshot_backoff_bytes: u64,
    /// The records found on opening, for the first reader, so that the segments are read only once.
    pub(super) preloaded: Option<Vec<Record>>,
}

/// How much space the disk has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum SpaceState {
    #[default]
    Enough,
    /// No further segment could be created. The last one may have space left.
    Full,
    /// The last segment is the reserve, for deletions only.
    Reserve,
}

impl LogFiles {
    pub(super) fn open(disk: &dyn Disk) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Disk(format!("list the folder: {error}"));
        let mut names = disk.list().map_err(failed)?;
        names.sort_unstable(); // by revision: names have a fixed number of digits
        let mut this = Self::default();
        for name in names.iter().filter(|name| Snapshot::revision_of(name).is_some()) {
            this.snapshots.push(Snapshot::open(disk, name)?);
        }
        let base = this.snapshots.first().map_or(INITIAL_REVISION, |snapshot| snapshot.revision);
        let names: Vec<_> = names.iter().filter(|name| Segment::base_of(name).is_some()).collect();
        // The segments before these are replaced by a snapshot; the next snapshot removes them.
        let next = |nth: usize| names.get(nth + 1).and_then(|next| Segment::base_of(next));
        let replaced = (0..names.len()).take_while(|nth| next(*nth).is_some_and(|at| at <= base));
        let names = &names[replaced.count()..];
        let (first, rest) = names.split_at(names.len().min(1));
        let mut read: Vec<_> = first.iter().map(|name| open(disk, name)).collect();
        let large = read.iter().flatten().any(|(first, _)| first.size >= LARGE);
        let hands = if large { parallelism() } else { 1 };
        read.extend(parallel_map(hands, rest, |name| open(disk, name)));
        let count = read.iter().flatten().map(|(_, records)| records.len()).sum();
        let mut found: Vec<Record> = Vec::with_capacity(count);
        for read in read {
            let (segment, mut records) = read?;
            // Segments may overlap where one has replaced another with the same records.
            let last = found.last().map_or(0, |last| last.revision);
            let known = records.partition_point(|record| record.revision <= last);
            found.extend(records.drain(known..));
            this.segments.push(segment);
        }
        this.check(base)?;
        this.preloaded = Some(found);
        Ok(this)
    }

    /// Checks that nothing is missing between the first snapshot and the last record.
    fn check(&self, base: u64) -> Result<(), Error> {
        let missing =
            |file: &str, offset, what| Err(Error::Damaged { file: file.to_owned(), offset, what });
        let mut before: Option<&Segment> = None;
        for segment in &self.segments {
            let reached = before.map_or(base, |before| before.last);
            match before {
                _ if segment.base <= reached => {}
                Some(Segment { name, end, .. }) => {
                    return missing(name, *end, "its last record is not what was written");
                }
                None => return missing(&segment.name, 0, "records before it are missing"),
            }
            before = Some(segment);
        }
        let newest = self.snapshots.last().map_or(0, |snapshot| snapshot.revision);
        match before {
            Some(Segment { name, last, end, .. }) if *last < newest => {
                missing(name, *end, "its last record is not what was written")
            }
            _ => Ok(()),
        }
    }

    /// The segment that is appended to.
    pub(super) fn end(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("there is one since it was opened")
    }

    /// Makes this the segment that is appended to.
    pub(super) fn push(&mut self, segment: Segment, room: SpaceState) {
        if self.end().base == segment.base {
            self.segments.pop(); // empty, and of the same name
        }
        self.segments.push(segment);
        self.room = room;
    }

    /// The newest revision.
    pub(super) fn last(&self) -> u64 {
        let state = self.snapshots.last().map_or(0, |snapshot| snapshot.revision);
        self.segments.last().map_or(state, |segment| segment.last.max(state)).max(INITIAL_REVISION)
    }

    /// How many bytes the log has grown since the newest snapshot.
    pub(super) fn grown(&self) -> u64 {
        let state = self.snapshots.last().map_or(0, |snapshot| snapshot.revision);
        self.segments.iter().filter(|segment| segment.last > state).map(|s| s.end).sum()
    }

    /// Whether a new snapshot is due: the log has grown enough, or the disk is full and the log has changed.
    pub(super) fn needs_snapshot(&self, options: &DiskLogOptions) -> bool {
        let state = self.snapshots.last().map_or(0, |snapshot| snapshot.size);
        let grown = self.grown();
        let enough =
            grown >= options.compact_threshold.max(state) && grown >= self.snapshot_backoff_bytes;
        let urgent = self.room != SpaceState::Enough && self.last() > self.snapshot_started_at;
        !self.compacting && !self.broken && (enough || urgent)
    }
}

fn open(disk: &dyn Disk, name: &str) -> Result<(Segment, Vec<Record>), Error> {
    let mut records = Vec::new();
    let segment = Segment::open(disk, name, &mut |record| records.push(record))?;
    Ok((segment, records))
}

/// Reads the records after a revision.
pub(super) fn read(
    segments: &[Segment],
    after: u64,
    take: &mut dyn FnMut(Record),
) -> Result<(), Error> {
    for segment in segments.iter().filter(|segment| segment.last > after) {
        segment.read(&mut |record| {
            if record.revision > after {
                take(record);
            }
        })?;
    }
    Ok(())
}
