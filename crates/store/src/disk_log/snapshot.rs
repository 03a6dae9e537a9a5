//! Snapshot files, which let old segments be removed.
//!
//! A snapshot is written in the background. It copies the live records of the previous snapshot and of the log since
//! then, in order of revisions. It is renamed to its final name after it is synced, so a file with that name is
//! complete.

use std::{io, sync::Arc};

use bytes::Bytes;

use super::frame::{Frame, FrameReader, HEADER};
use crate::{
    Checkpoint, Error, KeyMetadata, KeyStates, LastDeletions, LogBase, Provenance, Record,
    disk::{Disk, File},
    parallel::parallel_map,
};

const PREFIX: &str = "state-";
pub(super) const NEXT: &str = "state.tmp";

/// Salt of the frames of every snapshot. It can be constant, because a snapshot is never read before it is complete.
const SALT: u64 = u64::from_le_bytes(*b"TIPHYSS1");

/// Approximate size of a frame in bytes.
const CHUNK: usize = 1 << 20;
/// Number of bytes written between syncs. One sync of the whole file at the end would delay concurrent syncs of the
/// log.
const SYNC: u64 = 8 << 20;
/// Number of frames that are located and then read in parallel.
const AT_ONCE: usize = 16;

// The content of a frame, stored as its number.
const BEGIN: u64 = 1;
const REMOVALS: u64 = 2;
const NOTES: u64 = 3;
const STATE: u64 = 4;
const END: u64 = 5;

/// A snapshot file.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) name: String,
    file: Arc<dyn File>,
    /// The last revision that the snapshot covers.
    pub(super) revision: u64,
    /// Up to this revision only current values are stored; later changes are all in the file.
    pub(super) floor: u64,
    /// Creation time in seconds since 1970.
    pub(super) made: i64,
    pub(super) size: u64,
}

impl Snapshot {
    /// The revision of the snapshot with this file name.
    pub(super) fn revision_of(name: &str) -> Option<u64> {
        u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()
    }

    /// Writes those of `records` that are still live in `image`. Up to its floor only the last record of each key is,
    /// as listed in `heads`.
    pub(super) fn write(
        disk: &dyn Disk,
        image: &Checkpoint,
        heads: &KeyStates,
        made: i64,
        records: impl FnOnce(&mut dyn FnMut(Record)) -> Result<(), Error>,
    ) -> Result<Self, SnapshotError> {
        let file = disk.create(NEXT, 0)?;
        let mut out =
            SnapshotWriter { file: &*file, frame: Frame::new(), at: 0, synced: 0, failed: None };
        out.push(&record(image.revision, "", Some(made)));
        out.push(&record(image.floor, "", None));
        out.flush(BEGIN);
        let LastDeletions { by_prefix, rest } = &image.removals;
        out.push(&record(*rest, "", None));
        for (prefix, last) in by_prefix {
            out.push(&record(*last, prefix, None));
        }
        out.flush(REMOVALS);
        for Provenance { revision, key, note } in image.notes.iter() {
            out.push(&Record { note: Some(note), ..record(revision, &key, None) });
            out.flush_if_large(NOTES);
        }
        out.flush(NOTES);
        let (mut count, mut found) = (0, 0);
        records(&mut |record| {
            let head = heads.get(record.key.as_str());
            let counts = head.is_some_and(|head| head.revision == record.revision);
            if record.revision > image.floor || (counts && record.bytes.is_some()) {
                found += usize::from(record.revision <= image.floor);
                count += 1;
                out.push(&Record { note: None, ..record });
                out.flush_if_large(STATE);
            }
        })?;
        out.flush(STATE);
        out.push(&record(count, "", None));
        out.flush(END);
        let size = out.finish()?;
        if found != heads.len() {
            let what = "not all keys were found";
            return Err(Error::Damaged { file: NEXT.into(), offset: size, what }.into());
        }
        file.sync()?;
        let (revision, name) = (image.revision, format!("{PREFIX}{:016x}", image.revision));
        disk.rename(NEXT, &name)?;
        disk.sync()?;
        Ok(Self { name, file, revision, floor: image.floor, made, size })
    }

    pub(super) fn open(disk: &dyn Disk, name: &str) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Disk(format!("read {name}: {error}"));
        let file = disk.open(name).map_err(failed)?;
        let (size, name) = (file.size().map_err(failed)?, name.to_owned());
        let mut this = Self { name, file, revision: 0, floor: 0, made: 0, size };
        let (number, begin) = this.frame(&this.place(0)?)?;
        if number != BEGIN {
            return Err(this.damaged(0));
        }
        let (begin, floor) = (begin.first().ok_or(this.damaged(0))?, begin.get(1));
        (this.revision, this.made) = (begin.revision, begin.expires.unwrap_or_default());
        this.floor = floor.map_or(this.revision, |floor| floor.revision);
        Ok(this)
    }

    /// Passes the records to `take` and returns the rest of the content. A large file is read by `hands` threads.
    pub(super) fn read(
        &self,
        hands: usize,
        take: &mut dyn FnMut(Record),
    ) -> Result<LogBase, Error> {
        let hands = if self.size < (2 * CHUNK) as u64 { 1 } else { hands };
        let (mut at, mut count) = (0, 0);
        let mut base =
            LogBase { floor: self.floor, end_revision: self.revision, ..LogBase::default() };
        loop {
            let places = self.places(at)?;
            at = places.last().map_or(at, |last| last.at + last.length as u64);
            for read in parallel_map(hands, &places, |place| self.frame(place)) {
                let (number, records) = read?;
                for record in records {
                    match number {
                        REMOVALS if record.key.is_empty() => base.removals.rest = record.revision,
                        REMOVALS => {
                            base.removals.by_prefix.insert(record.key, record.revision);
                        }
                        NOTES => {
                            let Record { revision, key, note, .. } = record;
                            base.notes.extend(note.map(|note| Provenance { revision, key, note }));
                        }
                        STATE => {
                            count += 1;
                            take(record);
                        }
                        END if record.revision == count => return Ok(base),
                        END => return Err(self.damaged(at)),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads one frame: its number and its records.
    fn frame(
        &self,
        FrameLocation { at, length, .. }: &FrameLocation,
    ) -> Result<(u64, Vec<Record>), Error> {
        let failed = |error: io::Error| Error::Disk(format!("read {}: {error}", self.name));
        let mut bytes = vec![0; *length];
        let mut have = 0;
        while have < *length {
            match self.file.read_at(&mut bytes[have..], at + have as u64).map_err(failed)? {
                0 => return Err(self.damaged(*at)),
                count => have += count,
            }
        }
        let (bytes, mut records) = (Bytes::from(bytes), Vec::new());
        let frame = FrameReader::parse(&bytes, SALT).ok_or(self.damaged(*at))?;
        if !frame.records(&bytes, &mut |record| records.push(record)) {
            return Err(self.damaged(*at));
        }
        Ok((frame.number, records))
    }

    /// Locates the next frames, up to the last frame of the file.
    fn places(&self, mut at: u64) -> Result<Vec<FrameLocation>, Error> {
        let mut places = Vec::with_capacity(AT_ONCE);
        while places.len() < AT_ONCE
            && places.last().is_none_or(|last: &FrameLocation| last.number != END)
        {
            let place = self.place(at)?;
            at += place.length as u64;
            places.push(place);
        }
        Ok(places)
    }

    /// Reads the header of the frame at `at`, without checking its checksum.
    fn place(&self, at: u64) -> Result<FrameLocation, Error> {
        let failed = |error: io::Error| Error::Disk(format!("read {}: {error}", self.name));
        let mut head = [0; 12];
        let count = self.file.read_at(&mut head, at + 8).map_err(failed)?;
        let (number, length) = head.split_at(8);
        let number = u64::from_le_bytes(number.try_into().expect("eight"));
        let length = u32::from_le_bytes(length.try_into().expect("four"));
        let length = HEADER + usize::try_from(length).map_err(|_| self.damaged(at))?;
        if count < head.len() || at + length as u64 > self.size {
            return Err(self.damaged(at));
        }
        Ok(FrameLocation { at, number, length })
    }

    fn damaged(&self, offset: u64) -> Error {
        let what = "the state is not what was written";
        Error::Damaged { file: self.name.clone(), offset, what }
    }
}

/// The location of a frame in the file.
struct FrameLocation {
    at: u64,
    number: u64,
    length: usize,
}

/// Why no new snapshot was written. The previous one and the log are still there.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] Error),
}

struct SnapshotWriter<'a> {
    file: &'a dyn File,
    frame: Frame,
    at: u64,
    synced: u64,
    failed: Option<io::Error>,
}

impl SnapshotWriter<'_> {
    fn push(&mut self, record: &Record) {
        self.frame.push(record);
    }

    fn flush_if_large(&mut self, number: u64) {
        if self.frame.len() >= CHUNK {
            self.flush(number);
        }
    }

    fn flush(&mut self, number: u64) {
        let bytes = std::mem::replace(&mut self.frame, Frame::new()).finish(SALT, number);
        if self.failed.is_none() {
            self.failed = self.file.write_at(&bytes, self.at).err();
            self.at += bytes.len() as u64;
        }
        if self.failed.is_none() && self.at - self.synced >= SYNC {
            self.failed = self.file.sync().err();
            self.synced = self.at;
        }
    }

    fn finish(self) -> io::Result<u64> {
        self.failed.map_or(Ok(self.at), Err)
    }
}

fn record(revision: u64, key: &str, expires: Option<i64>) -> Record {
    let lineage = KeyMetadata::tombstone(revision);
    Record { revision, key: key.into(), bytes: None, expires, note: None, lineage }
}
