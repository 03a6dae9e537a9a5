//! Appends to the last segment, and the handling of a full disk.

use std::io;

use tracing::info;

use super::{
    Inner, RESERVE, STATE_RESERVE,
    files::{LogFiles, SpaceState},
    frame::Frame,
    segment::{self, Segment},
};
use crate::{AppendError, Record, disk::is_no_space};

/// On a nearly full disk, segments shrink to this fraction of their size (1/16).
const SMALLEST: u64 = 16;
/// On a nearly full disk, the reserve shrinks to this fraction of its size (1/4).
const TIGHT: u64 = 4;
/// Number of bytes that are zero-filled ahead of the written ones: enough that far fewer than one in a hundred small
/// writes waits for it.
const ZERO_FILL_AHEAD: u64 = 4 << 20;

impl Inner {
    /// Cuts off a torn tail, and creates the first segment if there is none.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let mut files = self.files();
        if let Some(last) = files.segments.last_mut()
            && last.cut()?
        {
            info!(file = last.name, offset = last.end, "cut off a write that was not acknowledged");
        }
        if files.segments.is_empty() {
            let first = self.extend(&files, 0)?;
            files.segments.push(first);
        } else if !self.disk.list()?.iter().any(|name| name == RESERVE) {
            files.room = SpaceState::Reserve; // the last segment is the former reserve
        }
        Ok(())
    }

    pub(super) fn append(&self, files: &mut LogFiles, batch: &[Record]) -> Result<(), AppendError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let deletions =
            batch.iter().all(|record| record.may_use_reserve(self.options.essential_prefixes));
        let frame = Frame::of(batch);
        let length = frame.len() as u64;
        if !files.end().fits(length) || files.room == SpaceState::Reserve {
            self.rotate(files, length, deletions)?;
        }
        let segment = files.end();
        let bytes = frame.finish(segment.salt, first.revision);
        // A sync after a write to allocated but unwritten space also changes the file system's metadata. For small
        // writes the space is therefore filled with zeros ahead.
        let (end, mut zeros) = (segment.end + length, 0);
        if end > segment.filled && length < ZERO_FILL_AHEAD {
            segment.filled = (end + ZERO_FILL_AHEAD).min(segment.size);
            zeros = usize::try_from(segment.filled - end).unwrap_or_default();
        }
        match segment.file.append(&bytes, zeros, segment.end) {
            Ok(()) => {}
            Err(error) if is_no_space(&error) => {
                // The space was allocated, and yet the disk is full. The batch has not been acknowledged.
                segment.torn = true;
                segment.cut().map_err(AppendError::Broken)?;
                files.room = SpaceState::Full;
                return Err(AppendError::Full);
            }
            Err(error) => return Err(AppendError::Broken(error)),
        }
        segment.file.sync().map_err(AppendError::Broken)?;
        segment.end = end;
        segment.last = last.revision;
        Ok(())
    }

    /// Starts a new segment, if there is space for it and for the reserves.
    fn rotate(
        &self,
        files: &mut LogFiles,
        length: u64,
        deletions: bool,
    ) -> Result<(), AppendError> {
        match self.extend(files, length) {
            Ok(segment) => {
                files.push(segment, SpaceState::Enough);
                Ok(())
            }
            Err(error) if is_no_space(&error) => {
                self.retain(files, true);
                if files.room == SpaceState::Enough {
                    files.room = SpaceState::Full;
                }
                if deletions {
                    self.switch_to_reserve(files, length)
                } else {
                    Err(AppendError::Full)
                }
            }
            Err(error) => Err(AppendError::Broken(error)),
        }
    }

    /// Continues in the reserve file.
    fn switch_to_reserve(&self, files: &mut LogFiles, length: u64) -> Result<(), AppendError> {
        if files.room == SpaceState::Reserve && files.end().fits(length) {
            return Ok(());
        }
        let Ok(file) = self.disk.open(RESERVE) else { return Err(AppendError::Full) };
        let size = file.size().map_err(AppendError::Broken)?;
        if segment::HEADER + length > size {
            return Err(AppendError::Full);
        }
        let begun = Segment::begin(&*self.disk, RESERVE, file, files.last(), size);
        files.push(begun.map_err(AppendError::Broken)?, SpaceState::Reserve);
        Ok(())
    }

    /// Creates a new segment, and the reserves that it needs. On a nearly full disk both are smaller.
    fn extend(&self, files: &LogFiles, length: u64) -> io::Result<Segment> {
        let least = (self.options.segment_size / SMALLEST).max(segment::HEADER + length);
        let (mut size, mut tight) = (self.options.segment_size.max(least), false);
        loop {
            let reserved = self.reserve(files, size, tight);
            let made = reserved.and_then(|()| Segment::create(&*self.disk, files.last(), size));
            match made {
                Err(error) if is_no_space(&error) && (size > least || !tight) => {
                    (size, tight) = ((size / 2).max(least), true);
                }
                made => return made,
            }
        }
    }

    /// Creates or resizes the reserves: one for deletions, and one large enough for the next snapshot even when the
    /// next segment is full. An existing reserve may be too small, left from an interrupted resize. It may be larger
    /// than needed, unless `tight`.
    fn reserve(&self, files: &LogFiles, next: u64, tight: bool) -> io::Result<()> {
        let state = files.snapshots.last().map_or(0, |snapshot| snapshot.size) + files.grown();
        let reserve = self.options.reserve_size / if tight { TIGHT } else { 1 };
        let sizes = [(RESERVE, reserve), (STATE_RESERVE, state + next + reserve)];
        let names = self.disk.list()?;
        for (name, size) in sizes {
            let there = names.iter().any(|found| found == name);
            if !there && name == STATE_RESERVE && files.compacting {
                return Err(io::ErrorKind::StorageFull.into()); // a snapshot is being written in its space
            } else if !there {
                self.disk.create(name, size)?.sync()?;
                continue;
            }
            let file = self.disk.open(name)?;
            match file.size()? {
                have if have < size => file.allocate(size)?,
                have if have / 2 > size || (tight && have > size) => file.truncate(size)?,
                _ => continue,
            }
            file.sync()?;
        }
        Ok(())
    }
}
