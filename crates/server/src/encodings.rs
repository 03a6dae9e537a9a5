//! Cache of encoded objects. An object is encoded once, and the bytes are shared by all gets, lists
//! and watches in the same format.
//!
//! ```text
//!  JSON       "metadata":{"resourceVersion":"7",…},"spec":…}      kind and apiVersion are written before it
//!  protobuf   the message                                        without its envelope
//! ```

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use object::{Value, write_json};
use schema::{ResourceDefinition, protobuf};
use store::Version;

use crate::{ServedResource, negotiate::Encoding, respond::to_response_object};

/// Size of a cache generation in bytes. There are two, so the cache holds twice as much at most.
const KEPT: usize = 24 << 20;
/// Larger encodings are not cached.
const LARGEST: usize = 256 << 10;
/// Estimated memory that an entry needs in addition to its bytes.
const OVERHEAD: usize = 160;

/// Cache of encoded objects.
#[derive(Default)]
pub(crate) struct EncodingCache {
    shelves: Mutex<CacheGenerations>,
}

/// The two generations of the cache. When `used` is full it becomes `before`; entries of the old
/// `before` that were not read meanwhile are dropped.
#[derive(Default)]
struct CacheGenerations {
    used: Shelf,
    before: Shelf,
    weight: usize,
}

/// One generation of the cache.
type Shelf = HashMap<Key, CachedEncoding, BuildHasherDefault<Mix>>;

/// Hasher with one multiplication per word. Collision attacks are no concern: keys are addresses
/// and revisions, which clients cannot choose.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_usize(n.cast_unsigned());
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// Cache key: everything that the bytes depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    version: usize,
    definition: usize,
    /// The resourceVersion to encode. In a DELETED event it is newer than that of the object.
    revision: u64,
    format: Encoding,
}

/// A cache entry.
struct CachedEncoding {
    bytes: Bytes,
    /// Weak references keep the allocations alive, so that their addresses, used as key, are not
    /// reused.
    version: Weak<Version<Value>>,
    _definition: Weak<ResourceDefinition>,
}

impl fmt::Debug for EncodingCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encodings")
    }
}

impl EncodingCache {
    /// Encodes a stored object, or returns the bytes from the cache.
    pub(crate) fn encode(
        &self,
        served: &ServedResource,
        format: Encoding,
        revision: u64,
        version: &Arc<Version<Value>>,
    ) -> Bytes {
        // An object that only this reader refers to would not be found in the cache again.
        if served.needs_conversion_webhook() || Arc::strong_count(version) == 1 {
            return encode(served, format, revision, &version.object).into();
        }
        let key = Key::of(served, format, revision, version);
        if let Some(bytes) = self.shelves().find(&key) {
            return bytes.clone();
        }
        let bytes = Bytes::from(encode(served, format, revision, &version.object));
        self.shelves().keep(key, CachedEncoding::of(served, version, &bytes));
        bytes
    }

    /// Encodes several objects; calls `take` with the bytes of each, in order.
    pub(crate) fn encode_all(
        &self,
        served: &ServedResource,
        format: Encoding,
        versions: &[Arc<Version<Value>>],
        mut take: impl FnMut(&Bytes),
    ) {
        let mut rest = versions;
        while let [next, more @ ..] = rest {
            // A run of cached objects is passed on under one lock.
            rest = if served.needs_conversion_webhook() {
                rest
            } else {
                self.shelved(served, format, rest, &mut take)
            };
            if rest.len() == more.len() + 1 {
                take(&self.encode(served, format, next.revision, next));
                rest = more;
            }
        }
    }

    /// Calls `take` for the cached objects up to the first that is not cached; returns the rest,
    /// which begins with that one.
    fn shelved<'a>(
        &self,
        served: &ServedResource,
        format: Encoding,
        versions: &'a [Arc<Version<Value>>],
        take: &mut impl FnMut(&Bytes),
    ) -> &'a [Arc<Version<Value>>] {
        let mut shelves = self.shelves();
        let missing = versions.iter().position(|version| {
            let key = Key::of(served, format, version.revision, version);
            shelves.find(&key).map(&mut *take).is_none()
        });
        missing.and_then(|missing| versions.get(missing..)).unwrap_or_default()
    }

    /// Drops the bytes that were not read since the last but one call, and those of objects that no
    /// longer exist.
    pub(crate) fn trim(&self) {
        let (mut used, unread) = {
            let mut shelves = self.shelves();
            shelves.weight = 0;
            (std::mem::take(&mut shelves.used), std::mem::take(&mut shelves.before))
        };
        // The lock is not held here: readers do not wait, and at worst encode some objects again.
        drop(unread);
        used.retain(|_, piece| piece.version.strong_count() > 0);
        used.shrink_to_fit();
        let mut shelves = self.shelves();
        if shelves.before.is_empty() {
            shelves.before = used;
        }
    }

    /// Size of the cache in bytes.
    pub(crate) fn held(&self) -> usize {
        let shelves = self.shelves();
        let pieces = shelves.used.values().chain(shelves.before.values());
        pieces.map(|piece| piece.bytes.len() + OVERHEAD).sum()
    }

    fn shelves(&self) -> MutexGuard<'_, CacheGenerations> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheGenerations {
    fn find(&mut self, key: &Key) -> Option<&Bytes> {
        if !self.used.contains_key(key) {
            let piece = self.before.remove(key)?;
            self.keep(*key, piece);
        }
        let piece = self.used.get(key).or_else(|| self.before.get(key));
        piece.map(|piece| &piece.bytes)
    }

    fn keep(&mut self, key: Key, piece: CachedEncoding) {
        if piece.bytes.len() > LARGEST {
            return;
        }
        self.weight += piece.bytes.len() + OVERHEAD;
        self.used.insert(key, piece);
        if self.weight > KEPT {
            self.before = std::mem::take(&mut self.used);
            self.weight = 0;
        }
    }
}

impl Key {
    fn of(
        served: &ServedResource,
        format: Encoding,
        revision: u64,
        version: &Arc<Version<Value>>,
    ) -> Self {
        Self {
            version: Arc::as_ptr(version).addr(),
            definition: Arc::as_ptr(&served.definition).addr(),
            revision,
            format,
        }
    }
}

impl CachedEncoding {
    fn of(served: &ServedResource, version: &Arc<Version<Value>>, bytes: &Bytes) -> Self {
        Self {
            bytes: bytes.clone(),
            version: Arc::downgrade(version),
            _definition: Arc::downgrade(&served.definition),
        }
    }
}

/// Writes the opening brace, kind and apiVersion of an object in JSON; its cached bytes follow.
pub(crate) fn write_kind(served: &ServedResource, out: &mut Vec<u8>) {
    let names = &served.definition.names;
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(names.kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(names.api_version().as_bytes());
    out.extend_from_slice(b"\",");
}

/// Encodes a stored object with its resourceVersion, without its kind.
fn encode(served: &ServedResource, format: Encoding, revision: u64, object: &Value) -> Vec<u8> {
    if format == Encoding::Protobuf {
        return protobuf::encode(
            &served.definition.schema,
            &to_response_object(served, revision, object),
        );
    }
    let mut out = Vec::with_capacity(1024);
    if served.is_storage_version() {
        write(revision, object, &mut out);
    } else {
        write(revision, &to_response_object(served, 0, object), &mut out);
    }
    out.shrink_to_fit();
    out
}

/// Writes the fields of an object up to and including the closing brace, metadata first.
fn write(revision: u64, object: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.push(b'"');
    let fields = |fields: &mut dyn Iterator<Item = (&str, &Value)>, out: &mut Vec<u8>| {
        for (name, value) in fields {
            out.push(b',');
            write_json(&name.into(), out);
            out.push(b':');
            write_json(value, out);
        }
        out.push(b'}');
    };
    let meta = object.get("metadata").entries();
    fields(&mut meta.filter(|(name, _)| *name != "resourceVersion"), out);
    let rest = object.entries();
    fields(&mut rest.filter(|(name, _)| !matches!(*name, "metadata" | "apiVersion" | "kind")), out);
}
