//! Provenance of the recent writes. All but the newest entries are compressed: they are many, similar to each other,
//! and seldom read.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Buf, BufMut, Bytes};
use tracing::error;

use crate::Provenance;

/// Maximum size of all notes in bytes, after compression.
const BUDGET: usize = 4 << 20;
/// Number of notes that are compressed together.
const BLOCK: usize = 128;
/// Compression level: the fastest, because writers wait for it.
const LEVEL: i32 = 1;

/// The notes in order. A clone shares the compressed blocks.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    blocks: VecDeque<Arc<Block>>,
    newest: Vec<Provenance>,
    bytes: usize,
}

#[derive(Debug)]
struct Block {
    /// The revision of its last note.
    last: u64,
    /// Uncompressed length in bytes.
    length: usize,
    compressed: Box<[u8]>,
}

impl Notes {
    pub(crate) fn push(&mut self, note: Provenance) {
        self.bytes += weight(&note);
        self.newest.push(note);
        if self.newest.len() >= BLOCK {
            self.pack();
        }
        while self.bytes > BUDGET {
            let Some(oldest) = self.blocks.pop_front() else {
                self.pack(); // a few large ones
                if self.blocks.is_empty() {
                    return;
                }
                continue;
            };
            self.bytes -= oldest.compressed.len();
        }
    }

    /// The notes after a revision, oldest first.
    pub(crate) fn after(&self, revision: u64) -> Vec<Provenance> {
        let blocks = self.blocks.iter().skip_while(|block| block.last <= revision);
        let packed = blocks.flat_map(|block| block.open());
        let newest = self.newest.iter().cloned();
        packed.chain(newest).filter(|note| note.revision > revision).collect()
    }

    /// All notes, oldest first; one block at a time is decompressed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Provenance> {
        self.blocks.iter().flat_map(|block| block.open()).chain(self.newest.iter().cloned())
    }

    /// Approximate size in bytes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn pack(&mut self) {
        let Some(last) = self.newest.last().map(|note| note.revision) else { return };
        let mut plain = Vec::with_capacity(self.newest.iter().map(weight).sum());
        for note in self.newest.drain(..) {
            self.bytes -= weight(&note);
            plain.put_u64_le(note.revision);
            for part in [note.key.as_bytes(), &note.note] {
                plain.put_u32_le(u32::try_from(part.len()).expect("a write is smaller"));
                plain.put_slice(part);
            }
        }
        match zstd::bulk::compress(&plain, LEVEL) {
            Ok(compressed) => {
                let compressed = compressed.into_boxed_slice();
                self.bytes += compressed.len();
                let block = Block { last, length: plain.len(), compressed };
                self.blocks.push_back(Arc::new(block));
            }
            Err(error) => error!(%error, "cannot compress the provenance of writes"),
        }
    }
}

impl Block {
    fn open(&self) -> Vec<Provenance> {
        let plain = zstd::bulk::decompress(&self.compressed, self.length);
        let mut plain = Bytes::from(plain.expect("it was compressed here"));
        let mut notes = Vec::with_capacity(BLOCK);
        while plain.has_remaining() {
            let revision = plain.get_u64_le();
            let [key, note] = [(); 2].map(|()| {
                let length = plain.get_u32_le();
                plain.split_to(length as usize)
            });
            let key = std::str::from_utf8(&key).expect("it was text").into();
            notes.push(Provenance { revision, key, note });
        }
        notes
    }
}

fn weight(note: &Provenance) -> usize {
    note.note.len() + note.key.len() + size_of::<Provenance>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(revision: u64, text: &str) -> Provenance {
        let note = Bytes::from(format!(r#"{{"user":"system:node:n1","manager":"{text}"}}"#));
        Provenance { revision, key: format!("/registry/pods/default/web-{revision}").into(), note }
    }

    #[test]
    fn notes_read_as_they_were_written() {
        let mut notes = Notes::default();
        let all: Vec<_> = (1..=3_000).map(|nth| note(nth * 2, "kubelet")).collect();
        all.iter().for_each(|note| notes.push(note.clone()));
        assert_eq!(notes.after(0), all);
        for behind in [1, 2, 1_023, 1_024, 1_025, 5_999, 6_000, 9_000] {
            let expected: Vec<_> =
                all.iter().filter(|note| note.revision > behind).cloned().collect();
            assert_eq!(notes.after(behind), expected, "behind {behind}");
        }
        assert!(notes.bytes() < 300 << 10, "{}", notes.bytes());
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut notes = Notes::default();
        let mut random = 1_u64;
        for revision in 0..200 {
            let mut text = String::new();
            while text.len() < 100_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(&format!("{random:x}"));
            }
            notes.push(note(revision, &text));
            assert!(notes.bytes() <= BUDGET + (200 << 10), "{}", notes.bytes());
        }
        let left = notes.after(0);
        assert_eq!(left.last().map(|note| note.revision), Some(199));
        assert!(left.len() < 199);
        notes.push(note(200, &"x".repeat(8 << 20)));
        assert!(notes.bytes() <= BUDGET);
    }
}
