//! Tar reader. Long names and PAX records are kept in memory, so their size is limited here: the size fields of an
//! untrusted archive cannot be relied on.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
};

use tar::{EntryType, Header, PaxExtensions};

use super::{Error, Result};

const BLOCK: u64 = 512;
/// Maximum size of all extension headers before one entry.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;
const OVERSIZED: &str = "archive entry with an oversized name or extended header";

/// One entry of a tar archive.
#[derive(Debug)]
pub(super) struct TarEntry {
    pub(super) path: PathBuf,
    pub(super) link: PathBuf,
    pub(super) kind: EntryType,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) modified: (i64, u32),
    pub(super) device: (u32, u32),
    pub(super) xattrs: Vec<(String, Vec<u8>)>,
}

/// Reads entries: call `next`, read the entry's data, then call `next` again.
pub(super) struct TarReader<R> {
    reader: R,
    left: u64,
    padding: u64,
}

/// The attributes of an entry from the PAX and GNU extension headers before it.
#[derive(Default)]
struct PaxHeaders {
    /// Size of all headers so far, in bytes.
    length: u64,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    modified: Option<(i64, u32)>,
    xattrs: Vec<(String, Vec<u8>)>,
}

impl<R: Read> TarReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, left: 0, padding: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<TarEntry>> {
        let mut extensions = PaxHeaders::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = match extensions.size {
                Some(size) => size,
                None => number(&header.as_old().size, || header.entry_size())?,
            };
            self.expect(size);
            let kind = header.entry_type();
            if kind.is_gnu_longname() || kind.is_gnu_longlink() || kind.is_pax_local_extensions() {
                extensions.length = extensions.length.saturating_add(size);
                if extensions.length > MAX_EXTENSION_BYTES {
                    return Err(Error::malformed(OVERSIZED));
                }
            }
            match kind {
                EntryType::GNULongName => extensions.path = Some(self.extension()?),
                EntryType::GNULongLink => extensions.link = Some(self.extension()?),
                EntryType::XHeader => extensions.read_pax(&self.extension()?)?,
                EntryType::XGlobalHeader => drop(self.extension()?),
                EntryType::GNUSparse => {
                    return Err(Error::malformed("sparse archive entries are not supported"));
                }
                kind => {
                    if !(kind.is_file() || kind.is_contiguous()) {
                        self.expect(0); // links may state a size and still have no data
                    }
                    return entry(&header, kind, extensions).map(Some);
                }
            }
        }
    }

    pub(super) fn into_inner(self) -> R {
        self.reader
    }

    fn expect(&mut self, size: u64) {
        self.left = size;
        self.padding = (BLOCK - size % BLOCK) % BLOCK;
    }

    /// Skips the unread data of the last entry.
    fn skip(&mut self) -> Result<()> {
        let rest = self.left.saturating_add(self.padding);
        self.expect(0);
        if io::copy(&mut (&mut self.reader).take(rest), &mut io::sink())? < rest {
            return Err(Error::malformed("archive ends within an entry"));
        }
        Ok(())
    }

    /// Reads a header; `None` at the end: a block of zeros, or the end of the stream.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        let bytes = header.as_mut_bytes();
        let mut length = 0;
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) if length == 0 => return Ok(None),
                Ok(0) => return Err(Error::malformed("archive ends within a header")),
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        // The checksum is computed with spaces in its own field.
        let others = bytes.iter().take(148).chain(bytes.iter().skip(156));
        let sum = others.map(|&b| u32::from(b)).sum::<u32>() + 8 * u32::from(b' ');
        if header.cksum().ok() == Some(sum) {
            Ok(Some(header))
        } else {
            Err(Error::malformed("not a tar archive"))
        }
    }

    fn extension(&mut self) -> Result<Vec<u8>> {
        if self.left > MAX_EXTENSION_BYTES {
            return Err(Error::malformed(OVERSIZED));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if want == 0 {
            return Ok(0);
        }
        let (buffer, _) = buffer.split_at_mut(want);
        let count = self.reader.read(buffer)?;
        if count == 0 {
            return Err(Error::malformed("archive ends within an entry").into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

impl PaxHeaders {
    fn read_pax(&mut self, bytes: &[u8]) -> Result<()> {
        for record in PaxExtensions::new(bytes) {
            let record = record?;
            let key = record
                .key()
                .map_err(|_| Error::malformed("extended header with an invalid key"))?;
            let value = record.value_bytes();
            let text = || std::str::from_utf8(value).unwrap_or_default();
            let invalid = || Error::malformed(format!("extended header with an invalid {key}"));
            match key {
                "path" => self.path = Some(value.to_vec()),
                "linkpath" => self.link = Some(value.to_vec()),
                "size" => self.size = Some(text().parse().map_err(|_| invalid())?),
                "uid" => self.uid = Some(text().parse().map_err(|_| invalid())?),
                "gid" => self.gid = Some(text().parse().map_err(|_| invalid())?),
                "mtime" => self.modified = Some(time(text()).ok_or_else(invalid)?),
                _ if key.starts_with("GNU.sparse.") => {
                    return Err(Error::malformed("sparse archive entries are not supported"));
                }
                _ => {
                    if let Some(name) = key.strip_prefix("SCHILY.xattr.") {
                        self.xattrs.push((name.to_owned(), value.to_vec()));
                    }
                }
            }
        }
        Ok(())
    }
}

fn entry(header: &Header, kind: EntryType, extensions: PaxHeaders) -> Result<TarEntry> {
    let narrow = |id: u64| {
        u32::try_from(id).map_err(|_| Error::malformed("archive entry with an invalid owner"))
    };
    let fields = header.as_old();
    let seconds = i64::try_from(number(&fields.mtime, || header.mtime())?).unwrap_or(0);
    let device = |number: io::Result<Option<u32>>| number.ok().flatten().unwrap_or(0);
    Ok(TarEntry {
        path: path(extensions.path.unwrap_or_else(|| header.path_bytes().into_owned())),
        link: path(
            extensions
                .link
                .unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned()),
        ),
        kind,
        mode: number(&fields.mode, || header.mode())? & 0o7777,
        owner: (
            extensions.uid.map_or_else(|| narrow(number(&fields.uid, || header.uid())?), Ok)?,
            extensions.gid.map_or_else(|| narrow(number(&fields.gid, || header.gid())?), Ok)?,
        ),
        modified: extensions.modified.unwrap_or((seconds, 0)),
        device: (device(header.device_major()), device(header.device_minor())),
        xattrs: extensions.xattrs,
    })
}

/// Parses a numeric field. A blank field is zero, as in every other tar reader.
fn number<T: Default>(field: &[u8], read: impl FnOnce() -> io::Result<T>) -> Result<T> {
    if field.iter().all(|b| matches!(b, 0 | b' ')) { Ok(T::default()) } else { Ok(read()?) }
}

/// Makes a path of a name; GNU long names end in a zero byte.
fn path(mut bytes: Vec<u8>) -> PathBuf {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}

/// Parses a time such as `1350244992.023960108`. It may be negative; the resulting nanoseconds always count forward.
fn time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanos) = (whole.parse::<i64>().ok()?, digits.parse::<u32>().ok()?);
    if whole.starts_with('-') && nanos > 0 {
        Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos))
    } else {
        Some((seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_data() {
        let long = format!("{}/file", "d".repeat(150));
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o640);
        builder.append_data(&mut header, &long, &b"hello"[..]).expect("in memory");
        header.set_size(0);
        builder.append_data(&mut header, "empty", io::empty()).expect("in memory");
        let bytes = builder.into_inner().expect("in memory");

        let mut entries = TarReader::new(&bytes[..]);
        let entry = entries.next().expect("valid").expect("first");
        assert_eq!((entry.path, entry.mode), (PathBuf::from(long), 0o640));
        let mut data = String::new();
        entries.read_to_string(&mut data).expect("in memory");
        assert_eq!(data, "hello");
        assert_eq!(entries.next().expect("valid").expect("second").path, PathBuf::from("empty"));
        assert!(entries.next().expect("valid").is_none());
    }

    #[test]
    fn hostile_sizes() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        assert!(TarReader::new(&header.as_bytes()[..]).next().is_err());
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        let mut entries = TarReader::new(&header.as_bytes()[..]);
        entries.next().expect("header is valid");
        assert!(entries.next().is_err(), "ends within the entry");
    }

    #[test]
    fn sizes_that_overflow_and_headers_without_end() {
        let pax = |record: &str| {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::XHeader);
            header.set_size(record.len() as u64);
            header.set_cksum();
            let mut bytes = header.as_bytes().to_vec();
            bytes.extend(record.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            bytes
        };
        let mut file = Header::new_ustar();
        file.set_entry_type(EntryType::Regular);
        file.set_size(0);
        file.set_cksum();
        let mut archive = pax("29 size=18446744073709551615\n");
        archive.extend(file.as_bytes());
        let mut entries = TarReader::new(&archive[..]);
        entries.next().expect("header is valid");
        assert!(entries.next().is_err(), "ends within the entry");

        let value = "x".repeat(99_900);
        let record = format!("100000 SCHILY.xattr.user.a={value}\n");
        let record = format!("{} SCHILY.xattr.user.a={value}\n", record.len() - 1);
        let many: Vec<u8> = std::iter::repeat_n(pax(&record), 20).flatten().collect();
        assert!(TarReader::new(&many[..]).next().is_err(), "2 MB of headers before an entry");
    }

    #[test]
    fn times() {
        assert_eq!(time("12.5"), Some((12, 500_000_000)));
        assert_eq!(time("-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time("x"), None);
    }
}
