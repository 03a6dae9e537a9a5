//! The end of the log: where batches go, and what happens when there is no room.

use std::io;

use tracing::info;

use super::{
    Inner, RESERVE, STATE_RESERVE,
    files::{LogFiles, SpaceState},
    frame::Frame,
    segment::{self, Segment},
};
use crate::{AppendError, Record, disk::is_no_space};

/// Where there is little room, files of the log are by so much smaller, at most.
const SMALLEST: u64 = 16;
/// And so is the reserve.
const TIGHT: u64 = 4;
/// How much is filled ahead of what is written: so much that far fewer than one small write in a
/// hundred waits for it, with those that come meanwhile.
const ZERO_FILL_AHEAD: u64 = 4 << 20;

impl Inner {
    /// Cuts off a torn tail, and sees to it that there is something to write to.
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
            files.room = SpaceState::Reserve; // then the last is what it has become
        }
        Ok(())
    }

    pub(super) fn append(&self, files: &mut LogFiles, batch: &[Record]) -> Result<(), AppendError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let deletions = batch.iter().all(Record::may_use_reserve);
        let frame = Frame::of(batch);
        let length = frame.len() as u64;
        if !files.end().fits(length) || files.room == SpaceState::Reserve {
            self.rotate(files, length, deletions)?;
        }
        let segment = files.end();
        let bytes = frame.finish(segment.salt, first.revision);
        // Room that is set aside and was never written takes a change of the file system's own
        // books with every sync. So a part of it is filled ahead, where little comes at a time.
        let (end, mut zeros) = (segment.end + length, 0);
        if end > segment.filled && length < ZERO_FILL_AHEAD {
            segment.filled = (end + ZERO_FILL_AHEAD).min(segment.size);
            zeros = usize::try_from(segment.filled - end).unwrap_or_default();
        }
        match segment.file.append(&bytes, zeros, segment.end) {
            Ok(()) => {}
            Err(error) if is_no_space(&error) => {
                // Room was set aside, and yet there is none. Nothing was promised so far.
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

    /// Goes on in another file, if there is room for one, and for the reserves.
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

    /// Goes on in the reserve.
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

    /// A file to go on in, with the reserves that it needs beside it. Where there is
    /// little room it is smaller.
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

    /// Makes sure of the reserves: one for deletions, and one in which the next state
    /// will fit, also when the next file is full. One that is there may be a torn one, or
    /// larger than need be, unless it is tight.
    fn reserve(&self, files: &LogFiles, next: u64, tight: bool) -> io::Result<()> {
        let state = files.snapshots.last().map_or(0, |snapshot| snapshot.size) + files.grown();
        let reserve = self.options.reserve_size / if tight { TIGHT } else { 1 };
        let sizes = [(RESERVE, reserve), (STATE_RESERVE, state + next + reserve)];
        let names = self.disk.list()?;
        for (name, size) in sizes {
            let there = names.iter().any(|found| found == name);
            if !there && name == STATE_RESERVE && files.compacting {
                return Err(io::ErrorKind::StorageFull.into()); // a state is using it
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
