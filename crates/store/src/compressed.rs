//! Compressed storage for seldom-read objects of the watch cache, at about a tenth of the memory of decoded objects.
//!
//! Each object is compressed on its own with a dictionary made from a few objects of the same resource, so that one
//! object can be read without the others.

use std::{cell::RefCell, fmt, io, ops::Deref, sync::Arc};

use zstd::bulk::{Compressor, Decompressor};

use crate::{CacheCodec, Version};

/// Number of objects from which a dictionary is made.
const SAMPLES: usize = 16;
/// With fewer new objects than this, the previous dictionary is used again.
const MANY: usize = 64;
const LEVEL: i32 = 3;
/// Larger objects, in bytes, are not compressed.
const LARGEST: usize = 64 << 10;

/// The value that an index holds for a key: a decoded or a compressed object.
pub(crate) enum Entry<V> {
    Plain(Arc<Version<V>>),
    /// The object at this position of a block.
    Packed(Arc<Block>, u32),
}

/// Objects that were compressed together, in one allocation. Many small long-lived allocations would keep the allocator
/// from returning whole pages to the kernel.
#[derive(Debug)]
pub(crate) struct Block {
    dictionary: Arc<[u8]>,
    objects: Box<[Packed]>,
    bytes: Box<[u8]>,
}

#[derive(Debug)]
struct Packed {
    revision: u64,
    from: u32,
    to: u32,
    /// Length in bytes after decompression.
    length: u32,
}

impl<V> Entry<V> {
    pub(crate) fn revision(&self) -> u64 {
        match self {
            Self::Plain(version) => version.revision,
            Self::Packed(block, nth) => block.objects[*nth as usize].revision,
        }
    }

    /// The version, decompressed and decoded if necessary.
    pub(crate) fn open(&self, key: &str, resident: &dyn CacheCodec<V>) -> Arc<Version<V>> {
        match self {
            Self::Plain(version) => version.clone(),
            Self::Packed(block, nth) => block.open(*nth, key, resident),
        }
    }

    /// The decoded version, if only this index refers to it.
    pub(crate) fn unused(&self) -> Option<&Arc<Version<V>>> {
        match self {
            Self::Plain(version) if Arc::strong_count(version) == 1 => Some(version),
            _ => None,
        }
    }

    pub(crate) fn is(&self, other: &Arc<Version<V>>) -> bool {
        matches!(self, Self::Plain(own) if Arc::ptr_eq(own, other))
    }
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Plain(version) => Self::Plain(version.clone()),
            Self::Packed(block, nth) => Self::Packed(block.clone(), *nth),
        }
    }
}

impl Block {
    fn open<V>(&self, nth: u32, key: &str, resident: &dyn CacheCodec<V>) -> Arc<Version<V>> {
        let packed = &self.objects[nth as usize];
        let object = self.plain(packed).ok().and_then(|plain| resident.unpack(key, &plain).ok());
        // The object was decoded successfully when it was packed, and has not changed since.
        let object = object.expect("what was packed here can be read");
        Arc::new(Version { revision: packed.revision, object })
    }

    fn plain(&self, packed: &Packed) -> io::Result<Vec<u8>> {
        let bytes = &self.bytes[packed.from as usize..packed.to as usize];
        LAST.with_borrow_mut(|last| {
            let ready = match last.take() {
                Some((dictionary, ready)) if Arc::ptr_eq(&dictionary, &self.dictionary) => ready,
                _ => Decompressor::with_dictionary(&self.dictionary)?,
            };
            let (_, ready) = last.insert((self.dictionary.clone(), ready));
            ready.decompress(bytes, packed.length as usize)
        })
    }
}

thread_local! {
    /// The last decompressor of this thread. Preparing one takes longer than decompressing an object, and many objects
    /// share a dictionary.
    static LAST: RefCell<Option<(Arc<[u8]>, Decompressor<'static>)>> = const { RefCell::new(None) };
}

/// Compresses the objects that can be encoded and decode to an equal object again. Returns each object's position in
/// the block, or `None` if it was left out.
pub(crate) fn pack<V: PartialEq>(
    resident: &dyn CacheCodec<V>,
    versions: &[(Arc<str>, Arc<Version<V>>)],
    dictionary: &mut Option<Arc<[u8]>>,
) -> io::Result<(Arc<Block>, Vec<Option<u32>>)> {
    let plain: Vec<_> = versions
        .iter()
        .map(|(key, version)| {
            let bytes = resident.pack(&version.object).filter(|bytes| bytes.len() <= LARGEST)?;
            let same = resident.unpack(key, &bytes).is_ok_and(|object| object == version.object);
            same.then_some(bytes)
        })
        .collect();
    if dictionary.is_none() || versions.len() >= MANY {
        let every = plain.len().div_ceil(SAMPLES).max(1);
        let samples: Vec<_> = plain.iter().step_by(every).flatten().collect();
        *dictionary = Some(samples.into_iter().flatten().copied().collect());
    }
    let dictionary = dictionary.clone().unwrap_or_default();
    let mut compressor = Compressor::with_dictionary(LEVEL, &dictionary)?;
    let (mut objects, mut bytes, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for ((_, version), plain) in versions.iter().zip(&plain) {
        let Some(plain) = plain else {
            places.push(None);
            continue;
        };
        let from = offset(bytes.len());
        bytes.extend(compressor.compress(plain)?);
        places.push(Some(offset(objects.len())));
        let (revision, to, length) = (version.revision, offset(bytes.len()), offset(plain.len()));
        objects.push(Packed { revision, from, to, length });
    }
    let block = Block { dictionary, objects: objects.into(), bytes: bytes.into() };
    for (packed, plain) in block.objects.iter().zip(plain.iter().flatten()) {
        if block.plain(packed)? != *plain {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok((Arc::new(block), places))
}

/// Converts an offset in a block, which is always small enough.
fn offset(n: usize) -> u32 {
    u32::try_from(n).expect("a block is small")
}

/// A version of an object in a list: shared with the index, or decompressed for the reader.
pub enum Found<'a, V> {
    Shared(&'a Arc<Version<V>>),
    Made(Arc<Version<V>>),
}

impl<V> Found<'_, V> {
    pub fn into_version(self) -> Arc<Version<V>> {
        match self {
            Self::Shared(version) => version.clone(),
            Self::Made(version) => version,
        }
    }
}

impl<V> Deref for Found<'_, V> {
    type Target = Version<V>;

    fn deref(&self) -> &Version<V> {
        match self {
            Self::Shared(version) => version,
            Self::Made(version) => version,
        }
    }
}

impl<V: fmt::Debug> fmt::Debug for Found<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Version::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Topic;

    #[derive(Debug)]
    struct Texts;

    impl CacheCodec<Bytes> for Texts {
        fn decode(&self, _: &str, bytes: &Bytes) -> Result<Bytes, String> {
            // An object that is not equal after it is decoded again.
            Ok(if bytes.starts_with(b"odd") { Bytes::from_static(b"other") } else { bytes.clone() })
        }

        fn packs(&self) -> bool {
            true
        }

        fn pack(&self, object: &Bytes) -> Option<Vec<u8>> {
            Some(object.to_vec())
        }

        fn topics(&self, _: &str, _: &Bytes) -> Vec<Topic> {
            vec![Topic::All]
        }

        fn weight(&self, _: Option<&Bytes>, _: Option<&Bytes>) -> usize {
            0
        }
    }

    fn versions(texts: impl Iterator<Item = String>) -> Vec<(Arc<str>, Arc<Version<Bytes>>)> {
        let version = |(revision, text): (usize, String)| {
            let (revision, object) = (revision as u64, Bytes::from(text));
            (Arc::from("/a/key"), Arc::new(Version { revision, object }))
        };
        texts.enumerate().map(version).collect()
    }

    #[test]
    fn what_is_packed_is_small_and_opens_as_it_was() {
        let text = |nth: usize| {
            let message = "Successfully assigned default/web to n1. ".repeat(20);
            format!("{{\"name\":\"web.{:x}\",\"message\":\"{message}\"}}", nth * 7_919)
        };
        let all = versions((0..500).map(text));
        let mut dictionary = None;
        let (block, places) = pack(&Texts, &all, &mut dictionary).expect("packed");
        assert!(block.bytes.len() < 500 * 80, "{}", block.bytes.len());
        for ((key, version), place) in all.iter().zip(places) {
            let entry = Entry::Packed(block.clone(), place.expect("it can be packed"));
            assert_eq!(entry.revision(), version.revision);
            assert_eq!(entry.open(key, &Texts), *version);
        }
        let few = versions((500..510).map(text));
        let before = dictionary.clone().expect("made");
        let (_, places) = pack(&Texts, &few, &mut dictionary).expect("packed");
        assert!(places.iter().all(Option::is_some));
        assert!(Arc::ptr_eq(&before, &dictionary.expect("kept")), "a few need none of their own");
    }

    #[test]
    fn what_would_change_or_is_large_stays_as_it_is() {
        let odd = ["odd".to_owned(), "x".repeat(LARGEST + 1), "even".to_owned()];
        let (_, places) = pack(&Texts, &versions(odd.into_iter()), &mut None).expect("packed");
        assert_eq!(places, [None, None, Some(0)]);
    }
}
