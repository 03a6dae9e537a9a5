//! Reader for bbolt databases from any source. On arbitrary input it terminates, uses bounded memory and never panics.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use super::{
    BoltError,
    page::{
        BRANCH, BUCKET, ELEMENT, HEADER, LEAF, MAGIC, META, SIZE, SUMMED, VERSION, sum, u16_at,
        u32_at, u64_at,
    },
};

/// Maximum depth of a tree: a terabyte takes 5 levels.
const DEPTH: usize = 24;
/// Maximum size in bytes of one page with its overflow pages.
const LARGEST: usize = 512 << 20;

/// An open database.
#[derive(Debug)]
pub struct Bolt<S = File> {
    source: S,
    page: usize,
    size: u64,
    root: u64,
}

/// Callback for a key and its value. It returns a description of the problem if they are invalid.
pub type EntryVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), &'static str> + 'a;
/// Like `EntryVisitor`, with the element's flags.
type Take<'a> = dyn FnMut(&[u8], &[u8], u32) -> Result<(), &'static str> + 'a;

/// A source of bytes with random access.
pub trait ReadAt {
    fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()>;
    fn size(&self) -> std::io::Result<u64>;
}

impl ReadAt for File {
    fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()> {
        self.read_exact_at(into, at)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for &[u8] {
    fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()> {
        let at = usize::try_from(at).map_err(std::io::Error::other)?;
        let end = at.checked_add(into.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(self.get(at..end).ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl Bolt<File> {
    pub fn open(path: &Path) -> Result<Self, BoltError> {
        Self::new(File::open(path)?)
    }
}

impl<S: ReadAt> Bolt<S> {
    pub fn new(source: S) -> Result<Self, BoltError> {
        let size = source.size()?;
        let mut this = Self { source, page: SIZE, size, root: 0 };
        let mut newest = this.meta(0).ok();
        // The second meta page follows the first, and only the first contains the page size. If the first is damaged,
        // the usual page sizes are tried.
        let lengths =
            newest.as_ref().map_or(vec![4096, 8192, 16384, 65536], |meta| vec![meta.page]);
        for length in lengths {
            if let Ok(meta) = this.meta(length as u64)
                && newest.as_ref().is_none_or(|first| first.transaction < meta.transaction)
            {
                newest = Some(meta);
            }
        }
        let Meta { page, root, .. } =
            newest.ok_or(BoltError::At { page: 0, what: "no bbolt database" })?;
        (this.page, this.root) = (page, root);
        Ok(this)
    }

    /// Visits all keys and values of a bucket, in order; none if the bucket does not exist.
    pub fn for_each(&self, bucket: &str, take: &mut EntryVisitor<'_>) -> Result<(), BoltError> {
        let mut found = None;
        self.walk(self.root, &mut |name, value, flags| {
            if flags & BUCKET != 0 && name == bucket.as_bytes() {
                found = Some(value.to_vec());
            }
            Ok(())
        })?;
        let Some(found) = found else { return Ok(()) };
        let lost = BoltError::At { page: self.root, what: "a bucket without a root" };
        match u64_at(&found, 0) {
            Some(0) => {
                // A small bucket is stored inline in the value.
                let inline = found.get(16..).ok_or(lost)?;
                Self::elements(inline, 0, &mut |key, value, _| take(key, value)).map(drop)
            }
            Some(root) => self.walk(root, &mut |key, value, _| take(key, value)),
            None => Err(lost),
        }
    }

    fn walk(&self, root: u64, take: &mut Take<'_>) -> Result<(), BoltError> {
        // Each page may be visited once, so the walk reads at most as many pages as the file has.
        let mut left = self.size / self.page as u64 + 1;
        let mut stack = vec![(root, 0)];
        while let Some((number, depth)) = stack.pop() {
            let wrong = |what| BoltError::At { page: number, what };
            left = left.checked_sub(1).ok_or(wrong("a page that is reached twice"))?;
            if depth > DEPTH {
                return Err(wrong("a tree that is too deep"));
            }
            let page = self.read(number)?;
            let below = Self::elements(&page, number, take)?;
            stack.extend(below.into_iter().rev().map(|number| (number, depth + 1)));
        }
        Ok(())
    }

    /// Visits the elements of a leaf page, or returns the child pages of a branch page.
    fn elements(page: &[u8], number: u64, take: &mut Take<'_>) -> Result<Vec<u64>, BoltError> {
        let wrong = |what| BoltError::At { page: number, what };
        let torn = || wrong("an element beyond its page");
        let flags = u16_at(page, 8).ok_or_else(torn)?;
        let count = usize::from(u16_at(page, 10).ok_or_else(torn)?);
        let mut below = Vec::new();
        for nth in 0..count {
            let at = HEADER + nth * ELEMENT;
            let word = |nth: usize| u32_at(page, at + nth * 4).ok_or_else(torn);
            let part = |from: usize, length: u32| {
                let length = usize::try_from(length).ok()?;
                page.get(from..from.checked_add(length)?)
            };
            match flags {
                LEAF => {
                    let (kind, place, key, value) = (word(0)?, word(1)?, word(2)?, word(3)?);
                    let from = at + usize::try_from(place).map_err(|_| torn())?;
                    let name = part(from, key).ok_or_else(torn)?;
                    let value = part(from + name.len(), value).ok_or_else(torn)?;
                    take(name, value, kind).map_err(wrong)?;
                }
                BRANCH => below.push(u64_at(page, at + 8).ok_or_else(torn)?),
                _ => return Err(wrong("neither leaf nor branch")),
            }
        }
        Ok(below)
    }

    fn read(&self, number: u64) -> Result<Vec<u8>, BoltError> {
        let wrong = |what| BoltError::At { page: number, what };
        let at = number.checked_mul(self.page as u64).filter(|at| *at < self.size);
        let at = at.ok_or(wrong("a page beyond the end"))?;
        let mut head = [0; HEADER];
        self.source.read(&mut head, at)?;
        let more = usize::try_from(u32_at(&head, 12).unwrap_or_default()).unwrap_or(usize::MAX);
        let length = more.checked_add(1).and_then(|pages| pages.checked_mul(self.page));
        let length =
            length.filter(|length| *length <= LARGEST).ok_or(wrong("a page that is too large"))?;
        if u64_at(&head, 0) != Some(number) || at + length as u64 > self.size {
            return Err(wrong("a page of the wrong type"));
        }
        let mut page = vec![0; length];
        self.source.read(&mut page, at)?;
        Ok(page)
    }

    fn meta(&self, at: u64) -> Result<Meta, BoltError> {
        let wrong = BoltError::At { page: at / SIZE as u64, what: "a meta page that is not whole" };
        let mut bytes = [0; HEADER + SUMMED + 8];
        self.source.read(&mut bytes, at)?;
        let body = &bytes[HEADER..];
        let whole = u16_at(&bytes, 8) == Some(META)
            && u32_at(body, 0) == Some(MAGIC)
            && u32_at(body, 4) == Some(VERSION)
            && u64_at(body, SUMMED) == Some(sum(&body[..SUMMED]));
        let page = u32_at(body, 8).and_then(|page| usize::try_from(page).ok()).unwrap_or_default();
        if !whole || !(1024..=1 << 20).contains(&page) {
            return Err(wrong);
        }
        let number = |at| u64_at(body, at).unwrap_or_default();
        Ok(Meta { page, root: number(16), transaction: number(48) })
    }
}

struct Meta {
    page: usize,
    root: u64,
    transaction: u64,
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::bolt::write;

    type Items = Vec<(Vec<u8>, Vec<u8>)>;

    fn database(items: &Items) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let none: Box<dyn Iterator<Item = _>> = Box::new(std::iter::empty());
        let all: Box<dyn Iterator<Item = _>> =
            Box::new(items.iter().map(|(k, v)| (k.as_slice(), v.as_slice())));
        write(&mut out, [("alarm", none), ("key", all)]).unwrap();
        out.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Items, BoltError> {
        let mut items = Items::new();
        Bolt::new(bytes)?.for_each("key", &mut |key, value| {
            items.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(items)
    }

    fn items(count: usize) -> Items {
        let value = |nth: usize| vec![7; if nth % 97 == 3 { 9_000 } else { nth % 300 }];
        (0..count).map(|nth| (format!("{nth:08}").into_bytes(), value(nth))).collect()
    }

    #[test]
    fn what_is_written_can_be_read() {
        for count in [0, 1, 100, 20_000] {
            let items = items(count);
            let bytes = database(&items);
            assert_eq!(bytes.len() % SIZE, 0);
            assert!(read(&bytes).unwrap() == items, "{count} keys");
        }
        assert!(read(b"nothing of the kind").is_err());
    }

    #[test]
    fn any_damage_is_an_answer_and_no_panic() {
        let bytes = database(&items(300));
        let mut dice = 7_u64;
        let mut throw = |limit: usize| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(dice >> 33).unwrap() % limit
        };
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut torn = bytes.clone();
            for _ in 0..=throw(4) {
                let at = if throw(2) == 0 {
                    throw(bytes.len())
                } else {
                    throw(bytes.len() / SIZE) * SIZE + throw(64)
                };
                torn[at] = u8::try_from(throw(256)).unwrap();
            }
            if throw(8) == 0 {
                torn.truncate(throw(bytes.len()));
            }
            refused += usize::from(read(&torn).is_err());
        }
        assert!(refused > 1_000, "{refused}");
    }
}
