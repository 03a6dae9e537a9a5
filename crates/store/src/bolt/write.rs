//! Writes a new bbolt database from sorted buckets.

use std::io::{self, Seek, SeekFrom, Write};

use super::page::{
    BRANCH, BUCKET, ELEMENT, FREE, HEADER, LEAF, MAGIC, META, SIZE, SUMMED, VERSION, sum,
};

/// The first data page.
const FIRST: u64 = 3;

/// Writes a database. The buckets and the keys within each bucket must be sorted.
pub fn write<'a, K, V>(
    out: &mut (impl Write + Seek),
    buckets: impl IntoIterator<Item = (&'a str, Box<dyn Iterator<Item = (K, V)> + 'a>)>,
) -> io::Result<()>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    out.seek(SeekFrom::Start(FIRST * SIZE as u64))?;
    let mut pages = Pages { out, next: FIRST };
    let mut roots = Vec::new();
    for (name, items) in buckets {
        let mut tree = Tree::new(0);
        for (key, value) in items {
            tree.push(&mut pages, key.as_ref(), value.as_ref())?;
        }
        roots.push((name, tree.finish(&mut pages)?));
    }
    let mut tree = Tree::new(BUCKET);
    for (name, root) in roots {
        let mut value = root.to_le_bytes().to_vec();
        value.extend_from_slice(&[0; 8]); // no sequence
        tree.push(&mut pages, name.as_bytes(), &value)?;
    }
    let root = tree.finish(&mut pages)?;
    let Pages { out, next } = pages;
    out.seek(SeekFrom::Start(0))?;
    for number in 0..2 {
        out.write_all(&meta(number, root, next))?;
    }
    let mut free = page(2, FREE, 0, SIZE);
    free.resize(SIZE, 0);
    out.write_all(&free)?;
    out.flush()
}

struct Pages<'a, W> {
    out: &'a mut W,
    next: u64,
}

impl<W: Write> Pages<'_, W> {
    /// Writes a page with its overflow pages and returns its page number.
    fn write(&mut self, flags: u16, count: usize, body: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let mut bytes = page(number, flags, count, HEADER + body.len());
        bytes.extend_from_slice(body);
        let whole = bytes.len().div_ceil(SIZE);
        bytes.resize(whole * SIZE, 0);
        self.out.write_all(&bytes)?;
        self.next += whole as u64;
        Ok(number)
    }
}

/// The B+ tree of one bucket, filled from left to right.
struct Tree {
    flags: u32,
    leaf: Level,
    /// The branch levels from the bottom up: first keys, and the pages that they point to.
    branches: Vec<Level>,
}

#[derive(Default)]
struct Level {
    items: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Level {
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += ELEMENT + key.len() + value.len();
        self.items.push((key, value));
    }

    fn is_full_with(&self, more: usize) -> bool {
        !self.items.is_empty() && HEADER + self.bytes + ELEMENT + more > SIZE
    }
}

impl Tree {
    fn new(flags: u32) -> Self {
        Self { flags, leaf: Level::default(), branches: Vec::new() }
    }

    fn push<W: Write>(
        &mut self,
        pages: &mut Pages<'_, W>,
        key: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        if self.leaf.is_full_with(key.len() + value.len()) {
            self.end_leaf(pages)?;
        }
        self.leaf.add(key.to_vec(), value.to_vec());
        Ok(())
    }

    /// Writes the remaining pages and returns the page number of the root.
    fn finish<W: Write>(mut self, pages: &mut Pages<'_, W>) -> io::Result<u64> {
        if self.branches.is_empty() {
            return leaf(pages, self.flags, &self.leaf);
        }
        self.end_leaf(pages)?;
        let mut nth = 0;
        while nth + 1 < self.branches.len() || self.branches[nth].items.len() > 1 {
            if nth + 1 == self.branches.len() {
                return branch(pages, &self.branches[nth]);
            }
            self.end_branch(pages, nth)?;
            nth += 1;
        }
        let (_, only) = &self.branches[nth].items[0];
        Ok(u64::from_le_bytes(only.as_slice().try_into().expect("a page's number")))
    }

    fn end_leaf<W: Write>(&mut self, pages: &mut Pages<'_, W>) -> io::Result<()> {
        let ended = std::mem::take(&mut self.leaf);
        let Some((first, _)) = ended.items.first().cloned() else { return Ok(()) };
        let number = leaf(pages, self.flags, &ended)?;
        self.above(pages, 0, first, number)
    }

    fn end_branch<W: Write>(&mut self, pages: &mut Pages<'_, W>, nth: usize) -> io::Result<()> {
        let ended = std::mem::take(&mut self.branches[nth]);
        let Some((first, _)) = ended.items.first().cloned() else { return Ok(()) };
        let number = branch(pages, &ended)?;
        self.above(pages, nth + 1, first, number)
    }

    fn above<W: Write>(
        &mut self,
        pages: &mut Pages<'_, W>,
        nth: usize,
        first: Vec<u8>,
        number: u64,
    ) -> io::Result<()> {
        if self.branches.len() == nth {
            self.branches.push(Level::default());
        }
        if self.branches[nth].is_full_with(first.len()) {
            self.end_branch(pages, nth)?;
        }
        let level = &mut self.branches[nth];
        level.add(first, number.to_le_bytes().to_vec());
        level.bytes -= 8; // a branch element holds the page number itself, not as a value
        Ok(())
    }
}

fn leaf<W: Write>(pages: &mut Pages<'_, W>, flags: u32, level: &Level) -> io::Result<u64> {
    let count = level.items.len();
    let mut body = Vec::with_capacity(level.bytes);
    let mut place = count * ELEMENT;
    for (nth, (key, value)) in level.items.iter().enumerate() {
        body.extend_from_slice(&flags.to_le_bytes());
        body.extend_from_slice(&length(place - nth * ELEMENT)?);
        body.extend_from_slice(&length(key.len())?);
        body.extend_from_slice(&length(value.len())?);
        place += key.len() + value.len();
    }
    for (key, value) in &level.items {
        body.extend_from_slice(key);
        body.extend_from_slice(value);
    }
    pages.write(LEAF, count, &body)
}

fn branch<W: Write>(pages: &mut Pages<'_, W>, level: &Level) -> io::Result<u64> {
    let count = level.items.len();
    let mut body = Vec::with_capacity(level.bytes);
    let mut place = count * ELEMENT;
    for (nth, (key, number)) in level.items.iter().enumerate() {
        body.extend_from_slice(&length(place - nth * ELEMENT)?);
        body.extend_from_slice(&length(key.len())?);
        body.extend_from_slice(number);
        place += key.len();
    }
    level.items.iter().for_each(|(key, _)| body.extend_from_slice(key));
    pages.write(BRANCH, count, &body)
}

fn length(length: usize) -> io::Result<[u8; 4]> {
    Ok(u32::try_from(length).map_err(io::Error::other)?.to_le_bytes())
}

/// The header of a page that will be `length` bytes long.
fn page(number: u64, flags: u16, count: usize, length: usize) -> Vec<u8> {
    let more = u32::try_from(length.div_ceil(SIZE).saturating_sub(1)).unwrap_or(u32::MAX);
    let count = u16::try_from(count).expect("elements of a page of 4096 bytes");
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&more.to_le_bytes());
    bytes
}

fn meta(number: u64, root: u64, end: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(SUMMED + 8);
    body.extend_from_slice(&MAGIC.to_le_bytes());
    body.extend_from_slice(&VERSION.to_le_bytes());
    body.extend_from_slice(&u32::try_from(SIZE).expect("small").to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    for number in [root, 0, 2, end, number] {
        body.extend_from_slice(&number.to_le_bytes()); // root, sequence, free, end, transaction
    }
    let sum = sum(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    let mut bytes = page(number, META, 0, SIZE);
    bytes.extend_from_slice(&body);
    bytes.resize(SIZE, 0);
    bytes
}
