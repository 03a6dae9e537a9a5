//! A segment file of the log: a header, frames, and zeros up to the allocated size.
//!
//! A frame is written only after the previous one is synced. So only the last frame can be torn, and then it was not
//! acknowledged and is cut off. An invalid frame that a valid one follows is corruption, and opening fails.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::Arc,
};

use bytes::Bytes;

use super::frame::FrameReader;
use crate::{
    Error, Record,
    disk::{Disk, File, read},
};

const MAGIC: [u8; 8] = *b"TIPHYSLG";
/// The newest version of the format; older versions can be read as well.
const VERSION: u32 = 2;
pub(super) const HEADER: u64 = 32;
const PREFIX: &str = "log-";
const NEXT: &str = "next.tmp";

/// An open segment file.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) salt: u64,
    /// The last revision before this segment.
    pub(super) base: u64,
    /// The last revision in this segment.
    pub(super) last: u64,
    /// Offset of the next frame.
    pub(super) end: u64,
    /// End of the allocated space.
    pub(super) size: u64,
    /// Offset up to which the file has been written, at least with zeros.
    pub(super) filled: u64,
    /// Whether anything but zeros follows the last frame.
    pub(super) torn: bool,
}

impl Segment {
    /// The last revision before the segment with this file name.
    pub(super) fn base_of(name: &str) -> Option<u64> {
        u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()
    }

    /// Creates a segment with room for `size` bytes. It is renamed to its final name once it is complete, so a file
    /// with that name can always be read.
    pub(super) fn create(disk: &dyn Disk, base: u64, size: u64) -> io::Result<Self> {
        let made =
            disk.create(NEXT, size).and_then(|file| Self::begin(disk, NEXT, file, base, size));
        if made.is_err() {
            let _ = disk.remove(NEXT); // the next attempt removes it, too
        }
        made
    }

    /// Turns a file of zeros into a segment.
    pub(super) fn begin(
        disk: &dyn Disk,
        from: &str,
        file: Arc<dyn File>,
        base: u64,
        size: u64,
    ) -> io::Result<Self> {
        let salt = RandomState::new().hash_one(base);
        let mut header = Vec::with_capacity(32);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        header.extend_from_slice(&base.to_le_bytes());
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        file.write_at(&header, 0)?;
        file.sync()?;
        let name = format!("{PREFIX}{base:016x}");
        disk.rename(from, &name)?;
        disk.sync()?;
        Ok(Self { name, file, salt, base, last: base, end: HEADER, size, filled: 0, torn: false })
    }

    /// Opens an existing segment and passes its records to `take`.
    pub(super) fn open(
        disk: &dyn Disk,
        name: &str,
        take: &mut dyn FnMut(Record),
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Disk(format!("read {name}: {error}"));
        let file = disk.open(name).map_err(failed)?;
        let size = file.size().map_err(failed)?;
        let bytes = Bytes::from(read(&*file, size).map_err(failed)?);
        let damaged = |offset, what| Error::Damaged { file: name.to_owned(), offset, what };
        let header = bytes.get(..32).ok_or(damaged(0, "it has no header"))?;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        if header[..8] != MAGIC || word(28) != crc32c::crc32c(&header[..28]) {
            return Err(damaged(0, "its header is not what was written"));
        } else if !(1..=VERSION).contains(&word(8)) {
            return Err(damaged(8, "its version is not known here"));
        }
        let (salt, base) = (number(12), number(20));
        let name = name.to_owned();
        let mut this =
            Self { name, file, salt, base, last: base, end: HEADER, size, filled: 0, torn: false };
        this.scan(&bytes, take)?;
        let end = usize::try_from(this.end).unwrap_or(usize::MAX);
        this.torn = bytes.iter().skip(end).any(|byte| *byte != 0);
        Ok(this)
    }

    /// Whether a frame of that length fits.
    pub(super) fn fits(&self, length: u64) -> bool {
        self.end + length <= self.size
    }

    /// Reads the records again, up to `end`.
    pub(super) fn read(&self, take: &mut dyn FnMut(Record)) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Disk(format!("read {}: {error}", self.name));
        let bytes = Bytes::from(read(&*self.file, self.end).map_err(failed)?);
        let mut again = Self { last: self.base, end: HEADER, ..self.clone() };
        again.scan(&bytes, take)?;
        if again.end < self.end {
            return Err(self.damaged(again.end, "a record is not what was written"));
        }
        Ok(())
    }

    /// Cuts off what follows the last valid frame; true if there was anything.
    pub(super) fn cut(&mut self) -> io::Result<bool> {
        if self.torn {
            self.file.truncate(self.end)?;
            self.file.sync()?;
            (self.size, self.filled, self.torn) = (self.end, 0, false);
            return Ok(true);
        }
        Ok(false)
    }

    fn scan(&mut self, bytes: &Bytes, take: &mut dyn FnMut(Record)) -> Result<(), Error> {
        let mut at = usize::try_from(HEADER).expect("small");
        while let Some(frame) = FrameReader::parse(&bytes[at.min(bytes.len())..], self.salt) {
            let (before, mut gap) = (self.last, false);
            let sense = frame.records(bytes, &mut |record| {
                gap |= record.revision != self.last + 1;
                self.last = record.revision;
                take(record);
            });
            if gap {
                return Err(self.damaged(at as u64, "a revision is missing"));
            } else if !sense || self.last == before {
                return Err(self.damaged(at as u64, "its records make no sense"));
            }
            at += frame.len();
            self.end = at as u64;
        }
        if self.frame_behind(bytes, at) {
            return Err(self.damaged(at as u64, "a record is not what was written"));
        }
        Ok(())
    }

    /// Whether a valid frame follows the invalid one at `at`.
    fn frame_behind(&self, bytes: &[u8], at: usize) -> bool {
        let salt = self.salt.to_le_bytes();
        let rest = bytes.get(at + 1..).unwrap_or_default();
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        let rest = &rest[zeros.saturating_sub(salt.len())..];
        let mut places = rest.windows(salt.len()).enumerate().filter(|(_, found)| **found == salt);
        places.any(|(place, _)| {
            FrameReader::parse(&rest[place..], self.salt)
                .is_some_and(|frame| frame.number > self.last)
        })
    }

    fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::Damaged { file: self.name.clone(), offset, what }
    }
}
