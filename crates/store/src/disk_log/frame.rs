//! The on-disk format of records: one frame per batch, so that a batch is stored completely or not at all.
//!
//! ```text
//!  salt 8 │ number 8 │ length 4 │ sum of payload 4 │ sum of header 4 │ payload: records
//! ```
//!
//! Numbers are little-endian, checksums are CRC-32C. Each file has its own random salt, so that bytes stored by a
//! client cannot be mistaken for a frame.

use bytes::Bytes;

use crate::{KeyMetadata, Record};

pub(super) const HEADER: usize = 28;

const PUT: u8 = 1;
const EXPIRES: u8 = 2;
const NOTE: u8 = 4;
/// Not the first write of its key: create revision and version follow.
const LATER: u8 = 8;
const LEASE: u8 = 16;
/// The mod revision differs from the record's own: several records share one revision, or the record has none.
const APART: u8 = 32;

/// A frame that is being built.
#[derive(Debug)]
pub(super) struct Frame(Vec<u8>);

impl Frame {
    pub(super) fn new() -> Self {
        Self(vec![0; HEADER])
    }

    pub(super) fn of(records: &[Record]) -> Self {
        let mut frame = Self::new();
        for record in records {
            frame.push(record);
        }
        frame
    }

    pub(super) fn push(&mut self, record: &Record) {
        let Record { revision, key, bytes, expires, note, lineage } = record;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let later = bytes.is_some() && lineage.version != 1;
        let flags = flag(bytes.is_some(), PUT)
            | flag(expires.is_some(), EXPIRES)
            | flag(note.is_some(), NOTE)
            | flag(later, LATER)
            | flag(lineage.lease != 0, LEASE)
            | flag(lineage.mod_revision != *revision, APART);
        self.0.extend_from_slice(&revision.to_le_bytes());
        self.0.push(flags);
        self.text(key.as_bytes());
        if let Some(bytes) = bytes {
            self.text(bytes);
        }
        if let Some(expires) = expires {
            self.0.extend_from_slice(&expires.to_le_bytes());
        }
        if let Some(note) = note {
            self.text(note);
        }
        if lineage.mod_revision != *revision {
            self.0.extend_from_slice(&lineage.mod_revision.to_le_bytes());
        }
        if later {
            self.0.extend_from_slice(&lineage.create_revision.to_le_bytes());
            self.0.extend_from_slice(&lineage.version.to_le_bytes());
        }
        if lineage.lease != 0 {
            self.0.extend_from_slice(&lineage.lease.to_le_bytes());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Completes the header and returns the bytes to write.
    pub(super) fn finish(mut self, salt: u64, number: u64) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - HEADER).expect("a batch is bounded");
        let sum = crc32c::crc32c(&self.0[HEADER..]);
        self.0[..8].copy_from_slice(&salt.to_le_bytes());
        self.0[8..16].copy_from_slice(&number.to_le_bytes());
        self.0[16..20].copy_from_slice(&length.to_le_bytes());
        self.0[20..24].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&self.0[..24]);
        self.0[24..HEADER].copy_from_slice(&sum.to_le_bytes());
        self.0
    }

    fn text(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a write is bounded");
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

/// A frame that was read and has valid checksums.
#[derive(Debug)]
pub(super) struct FrameReader<'a> {
    pub(super) number: u64,
    payload: &'a [u8],
}

impl<'a> FrameReader<'a> {
    /// Parses the frame at the beginning of `bytes`; `None` if there is no valid one.
    pub(super) fn parse(bytes: &'a [u8], salt: u64) -> Option<Self> {
        let mut header = Parser(bytes.get(..HEADER)?);
        let (found, number, length) = (header.u64()?, header.u64()?, header.u32()?);
        let (payload_sum, header_sum) = (header.u32()?, header.u32()?);
        if found != salt || crc32c::crc32c(&bytes[..24]) != header_sum {
            return None;
        }
        let payload = bytes[HEADER..].get(..usize::try_from(length).ok()?)?;
        (crc32c::crc32c(payload) == payload_sum).then_some(Self { number, payload })
    }

    pub(super) fn len(&self) -> usize {
        HEADER + self.payload.len()
    }

    /// Passes the records to `take`; false if a record is malformed. Their values are slices of `all`, which contains
    /// the frame, so that reading a million records makes no million copies.
    pub(super) fn records(&self, all: &Bytes, take: &mut dyn FnMut(Record)) -> bool {
        let mut parser = Parser(self.payload);
        while !parser.0.is_empty() {
            let Some(record) = parser.record(all) else { return false };
            take(record);
        }
        true
    }
}

struct Parser<'a>(&'a [u8]);

impl<'a> Parser<'a> {
    fn record(&mut self, all: &Bytes) -> Option<Record> {
        let (revision, flags) = (self.u64()?, self.take(1)?[0]);
        let key = std::str::from_utf8(self.text()?).ok()?.into();
        let has = |flag: u8| flags & flag != 0;
        let bytes = if has(PUT) { Some(all.slice_ref(self.text()?)) } else { None };
        let expires = if has(EXPIRES) { Some(self.u64()?.cast_signed()) } else { None };
        let note = if has(NOTE) { Some(Bytes::copy_from_slice(self.text()?)) } else { None };
        let own = if has(APART) { self.u64()? } else { revision };
        let mut lineage = match bytes {
            Some(_) if has(LATER) => KeyMetadata {
                mod_revision: own,
                create_revision: self.u64()?,
                version: self.u64()?,
                lease: 0,
            },
            Some(_) => KeyMetadata::new(own),
            None => KeyMetadata::tombstone(own),
        };
        if has(LEASE) {
            lineage.lease = self.u64()?.cast_signed();
        }
        Some(Record { revision, key, bytes, expires, note, lineage })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_it_was_written_and_not_otherwise() {
        let bytes = Some(Bytes::from_static(b"bytes"));
        let lineage = KeyMetadata { mod_revision: 6, create_revision: 3, version: 2, lease: -4 };
        let (revision, expires) = (7, Some(-9));
        let put = Record { revision, key: "/a/b".into(), bytes, expires, note: None, lineage };
        let (note, lineage) = (Some(Bytes::from_static(b"why")), KeyMetadata::tombstone(8));
        let (revision, expires, bytes) = (8, None, None);
        let delete = Record { revision, key: "/a/c".into(), bytes, expires, note, lineage };
        let frame = Frame::of(&[put.clone(), delete.clone()]).finish(5, 7);
        let (frame, mut records) = (Bytes::from(frame), Vec::new());
        let read = FrameReader::parse(&frame, 5).expect("whole");
        assert!(read.records(&frame, &mut |record| records.push(record)));
        assert_eq!((read.number, read.len(), records), (7, frame.len(), vec![put, delete]));
        assert!(FrameReader::parse(&frame, 6).is_none(), "of another file");
        for at in 0..frame.len() {
            let mut torn = frame.to_vec();
            torn[at] ^= 1;
            assert!(
                FrameReader::parse(&torn, 5).is_none()
                    && FrameReader::parse(&frame[..at], 5).is_none()
            );
        }
    }
}
