//! The watch caches of all served resources.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use object::Text;
use tracing::error;

use crate::{Engine, Error, Record, RingLimits, Topic, WatchCache, progress::Progress};

/// How the values of one resource are decoded, indexed and compressed.
pub trait CacheCodec<V>: fmt::Debug + Send + Sync {
    /// Decodes stored bytes; the error says why they are invalid.
    fn decode(&self, key: &str, bytes: &Bytes) -> Result<V, String>;

    /// The topics under which watches find the object.
    fn topics(&self, key: &str, object: &V) -> Vec<Topic>;

    /// Whether objects that have not been read for a while are compressed: for kinds with many, seldom-read objects.
    fn packs(&self) -> bool {
        false
    }

    /// Encodes the object for `unpack`; `None` if it must not be compressed.
    fn pack(&self, _object: &V) -> Option<Vec<u8>> {
        None
    }

    /// Decodes what `pack` has encoded.
    fn unpack(&self, key: &str, bytes: &[u8]) -> Result<V, String> {
        self.decode(key, &Bytes::copy_from_slice(bytes))
    }

    /// Approximate memory in bytes that an event retains, for the ring's budget: mainly the old object.
    fn weight(&self, old: Option<&V>, new: Option<&V>) -> usize;
}

/// What a watch cache holds in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub objects: usize,
    /// Number of events in its ring, for watches that start in the past.
    pub events: usize,
    /// Approximate bytes that the events retain in addition to the current objects.
    pub event_bytes: usize,
}

/// How much larger an object may be on disk than its weight in the ring.
const DENSE: usize = 2;

/// The watch caches by resource. The API server keeps decoded objects in them.
#[derive(Debug)]
pub struct WatchCacheSet<V> {
    /// By prefix, with a trailing slash.
    resources: RwLock<HashMap<Text, Arc<WatchCache<V>>>>,
    bounds: RingLimits,
    progress: Arc<Progress>,
}

impl<V: fmt::Debug + Send + Sync> WatchCacheSet<V> {
    pub fn new(bounds: RingLimits) -> Arc<Self> {
        let (resources, progress) = (RwLock::default(), Arc::default());
        Arc::new(Self { resources, bounds, progress })
    }

    /// Starts to serve the keys under `prefix`, or restarts; existing watches end. Index and ring are filled from the
    /// engine, so that a watch can resume where it was before a restart.
    ///
    /// A key belongs to the longest served prefix. A prefix within another one must be served before anything is
    /// written under it.
    ///
    /// # Panics
    /// If `prefix` does not end with a slash.
    #[expect(clippy::needless_pass_by_value, reason = "whoever serves gives it away")]
    pub fn start(
        &self,
        prefix: &str,
        resident: Arc<dyn CacheCodec<V>>,
        engine: &dyn Engine<V>,
    ) -> Result<Arc<WatchCache<V>>, Error> {
        assert!(prefix.ends_with('/'), "a key has one resource");
        let room = self.bounds.max_bytes.saturating_mul(DENSE);
        let progress =
            if engine.has_external_writers() { Arc::default() } else { self.progress.clone() };
        let filled = || {
            let (mut through, mut now) = (0, 0);
            let resource = WatchCache::new(resident.clone(), self.bounds, progress.clone());
            engine.replay(prefix, room, &mut |replay| {
                (through, now) = (replay.end_revision, replay.now);
                resource.fill(replay);
                Ok(())
            })?;
            Ok::<_, Error>((resource, through, now))
        };
        let (mut resource, through, now) = filled()?;
        // Most records are read by now; writers wait only for the remaining ones.
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        match engine.replay_after(prefix, through) {
            // Records that `apply` delivers again are skipped.
            Ok(since) => resource.replay_events(&since.iter().collect::<Vec<_>>(), 0, now),
            Err(Error::Compacted { .. }) => {
                (resource, ..) = filled()?;
            }
            Err(error) => return Err(error),
        }
        for error in resource.undecodable("") {
            error!(%error, "stored object cannot be decoded; reads of it fail until it is deleted or rewritten");
        }
        let resource = Arc::new(resource);
        if let Some(earlier) = resources.insert(prefix.into(), resource.clone()) {
            earlier.close();
        }
        drop(resources);
        if engine.has_external_writers() {
            resource.complete(through);
        }
        engine.start_watch(prefix, resource.progress_revision().max(through), &resource);
        Ok(resource)
    }

    /// Stops serving a prefix; its watches end. The engine keeps the data.
    pub fn stop(&self, prefix: &str) {
        let earlier = self.resources.write().unwrap_or_else(PoisonError::into_inner).remove(prefix);
        if let Some(earlier) = earlier {
            earlier.close();
        }
    }

    /// Rejects lists at revisions before `revision` from now on, even where they could still be served, so that a
    /// client that pages through a list learns in time that it must restart.
    pub fn compact(&self, revision: u64) {
        self.progress.compact(revision);
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.values().for_each(|resource| resource.compact(revision));
    }

    /// Drops old events where no newer ones displace them, and compresses seldom-read objects. The results live long,
    /// so this should run on a thread of its own, with its own allocator arena.
    pub fn trim(&self, now: i64, engine: &dyn Engine<V>)
    where
        V: PartialEq,
    {
        for resource in self.all() {
            resource.state().ring.trim(now);
            resource.pack(|keys| engine.share_keys(keys));
        }
    }

    /// What each watch cache holds in memory, by prefix.
    pub fn held(&self) -> Vec<(Text, Held)> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let held = |resource: &WatchCache<V>| {
            let state = resource.state();
            let (events, event_bytes) = state.ring.held();
            Held { objects: state.len(), events, event_bytes }
        };
        resources.iter().map(|(prefix, resource)| (prefix.clone(), held(resource))).collect()
    }

    fn all(&self) -> Vec<Arc<WatchCache<V>>> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.values().cloned().collect()
    }

    /// The watch cache that a key belongs to, by the longest prefix.
    pub fn resource(&self, key: &str) -> Option<Arc<WatchCache<V>>> {
        find(&self.resources.read().unwrap_or_else(PoisonError::into_inner), key).cloned()
    }
}

impl<V> WatchCacheSet<V> {
    /// Applies durable records, in order. Afterwards the caches are complete up to `through`.
    pub(crate) fn apply(
        &self,
        batch: impl Iterator<Item = (Record, Option<V>)>,
        through: u64,
        now: i64,
    ) {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        for (record, value) in batch {
            let Some(resource) = find(&resources, &record.key) else { continue }; // not served yet
            if let Err(error) = resource.apply(record, value, now) {
                error!(%error, "cannot apply a write to the watch cache");
            }
        }
        self.advance(through);
    }

    pub(crate) fn advance(&self, through: u64) {
        self.progress.advance(through);
    }
}

fn find<'a, V>(
    resources: &'a HashMap<Text, Arc<WatchCache<V>>>,
    key: &str,
) -> Option<&'a Arc<WatchCache<V>>> {
    key.rmatch_indices('/').find_map(|(at, _)| resources.get(&key[..=at]))
}
