//! Container logs in the CRI format: time, stream, tag, text.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use rustix::fs::OFlags;

/// Longer lines are split into parts with the tag `P`.
const MAX_LINE_BYTES: usize = 16 << 10;

/// The output stream of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The log of one container.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

/// The incomplete line of a stream.
#[derive(Debug, Default)]
pub(super) struct PartialLine {
    begun: Vec<u8>,
}

impl Log {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
        let options = &mut OpenOptions::new();
        let file =
            options.append(true).create(true).mode(0o640).custom_flags(no_link).open(&path)?;
        Ok(Self { path, file })
    }

    /// Reopens the log after rotation.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(self.path.clone())?;
        Ok(())
    }

    /// Adds output and writes complete lines. Returns the number of bytes to account for, and the result.
    pub(super) fn write(
        &mut self,
        stream: Stream,
        line: &mut PartialLine,
        bytes: &[u8],
    ) -> (usize, io::Result<()>) {
        let mut out = Vec::with_capacity(bytes.len() + 128);
        let stamp = stamp(sys::descriptor::now());
        entries(&stamp, stream, line, bytes, &mut out);
        (out.len().max(bytes.len()), self.file.write_all(&out))
    }

    /// Writes an incomplete last line when the stream has ended.
    pub(super) fn finish(&mut self, stream: Stream, line: &mut PartialLine) -> io::Result<()> {
        if line.begun.is_empty() {
            return Ok(());
        }
        let mut out = Vec::new();
        entry(
            &stamp(sys::descriptor::now()),
            stream,
            b'P',
            &std::mem::take(&mut line.begun),
            &mut out,
        );
        self.file.write_all(&out)
    }
}

fn entries(
    stamp: &str,
    stream: Stream,
    line: &mut PartialLine,
    mut bytes: &[u8],
    out: &mut Vec<u8>,
) {
    while let Some((whole, [_, rest @ ..])) =
        bytes.iter().position(|byte| *byte == b'\n').and_then(|end| bytes.split_at_checked(end))
    {
        parts(stamp, stream, line, whole, out);
        entry(stamp, stream, b'F', &std::mem::take(&mut line.begun), out);
        bytes = rest;
    }
    parts(stamp, stream, line, bytes, out);
}

fn parts(stamp: &str, stream: Stream, line: &mut PartialLine, mut bytes: &[u8], out: &mut Vec<u8>) {
    while line.begun.len() + bytes.len() > MAX_LINE_BYTES {
        let (head, tail) = bytes.split_at(MAX_LINE_BYTES - line.begun.len());
        line.begun.extend_from_slice(head);
        entry(stamp, stream, b'P', &std::mem::take(&mut line.begun), out);
        bytes = tail;
    }
    line.begun.extend_from_slice(bytes);
}

fn entry(stamp: &str, stream: Stream, tag: u8, text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(stamp.as_bytes());
    out.extend_from_slice(if stream == Stream::Stdout { b" stdout " } else { b" stderr " });
    out.extend_from_slice(&[tag, b' ']);
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Formats a time as RFC 3339 with nanoseconds, in UTC.
fn stamp((seconds, nanos): (i64, u32)) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from March, so that the leap day is the last one.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let of_era_year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * march + 2) / 5 + 1, (march + 2) % 12 + 1);
    let year = of_era_year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        assert_eq!(stamp((0, 1)), "1970-01-01T00:00:00.000000001Z");
        assert_eq!(stamp((951_782_400, 0)), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(stamp((1_798_761_599, 5)), "2026-12-31T23:59:59.000000005Z");
    }

    #[test]
    fn lines_and_parts() {
        let (mut line, mut out) = (PartialLine::default(), Vec::new());
        entries("T", Stream::Stdout, &mut line, b"one\ntw", &mut out);
        entries("T", Stream::Stdout, &mut line, b"o\n", &mut out);
        assert_eq!(out, b"T stdout F one\nT stdout F two\n");
        out.clear();
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        entries("T", Stream::Stderr, &mut line, &long, &mut out);
        assert!(out.starts_with(b"T stderr P xxx"));
        assert_eq!(line.begun, b"x");
    }
}
