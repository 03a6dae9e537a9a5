//! What an engine keeps, as values in memory, by resource.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use object::Text;
use tracing::error;

use crate::{Engine, Error, Record, RingLimits, Topic, WatchCache, progress::Progress};

/// What a mirror must be told about the values of one resource.
pub trait CacheCodec<V>: fmt::Debug + Send + Sync {
    /// The error says why not.
    fn decode(&self, key: &str, bytes: &Bytes) -> Result<V, String>;

    /// What the object is found under, and watched by.
    fn topics(&self, key: &str, object: &V) -> Vec<Topic>;

    /// Whether objects that nobody has read for a while are kept packed: those of a kind that
    /// come in great numbers and are seldom read.
    fn packs(&self) -> bool {
        false
    }

    /// The object as bytes that `unpack` reads; `None`: it stays as it is.
    fn pack(&self, _object: &V) -> Option<Vec<u8>> {
        None
    }

    /// The error says why not.
    fn unpack(&self, key: &str, bytes: &[u8]) -> Result<V, String> {
        self.decode(key, &Bytes::copy_from_slice(bytes))
    }

    /// About how many bytes an event keeps in memory, for the ring's budget: above all what an
    /// object was before it became `new`, or was deleted.
    fn weight(&self, old: Option<&V>, new: Option<&V>) -> usize;
}

/// What a resource has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub objects: usize,
    /// In its ring, for watches that begin in the past.
    pub events: usize,
    /// About how many bytes the events take beside the objects that there are now.
    pub event_bytes: usize,
}

/// How much larger an object may be on disk than it is to the ring.
const DENSE: usize = 2;

/// The API server has trees in it, `etcd` would have bytes.
#[derive(Debug)]
pub struct WatchCacheSet<V> {
    /// By prefix; each ends with a slash.
    resources: RwLock<HashMap<Text, Arc<WatchCache<V>>>>,
    bounds: RingLimits,
    progress: Arc<Progress>,
}

impl<V: fmt::Debug + Send + Sync> WatchCacheSet<V> {
    pub fn new(bounds: RingLimits) -> Arc<Self> {
        let (resources, progress) = (RwLock::default(), Arc::default());
        Arc::new(Self { resources, bounds, progress })
    }

    /// Begins to mirror what is under `prefix`, or begins anew; watches of the
    /// earlier form end. Index and ring are filled from what the engine holds, so
    /// a watch can go on where it was before a restart.
    ///
    /// A key belongs to the longest prefix that is served; one that lies within another
    /// must be served before anything is written under it.
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
        // The most is read by now; writers wait only for what has come since.
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        match engine.replay_after(prefix, through) {
            // Those that come again by `apply` are skipped.
            Ok(since) => resource.replay_events(&since.iter().collect::<Vec<_>>(), 0, now),
            Err(Error::Compacted { .. }) => {
                (resource, ..) = filled()?;
            }
            Err(error) => return Err(error),
        }
        for error in resource.undecodable("") {
            error!(%error, "it is there, and nobody can read it");
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

    /// Mirrors it no more; its watches end. What the engine holds stays there.
    pub fn stop(&self, prefix: &str) {
        let earlier = self.resources.write().unwrap_or_else(PoisonError::into_inner).remove(prefix);
        if let Some(earlier) = earlier {
            earlier.close();
        }
    }

    /// Lists of before `revision` are refused from now on, though some could be made
    /// for longer: whoever pages through one learns in time that he must begin anew.
    pub fn compact(&self, revision: u64) {
        self.progress.compact(revision);
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.values().for_each(|resource| resource.compact(revision));
    }

    /// Forgets the events that are old enough, where no newer ones push them out, and packs
    /// what is seldom read. What it makes lives long: a thread that does nothing else has memory
    /// of its own for it.
    pub fn trim(&self, now: i64, engine: &dyn Engine<V>)
    where
        V: PartialEq,
    {
        for resource in self.all() {
            resource.state().ring.trim(now);
            resource.pack(|keys| engine.share_keys(keys));
        }
    }

    /// What each resource has in memory, by prefix.
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

    /// The resource that a key belongs to: that of the longest prefix.
    pub fn resource(&self, key: &str) -> Option<Arc<WatchCache<V>>> {
        find(&self.resources.read().unwrap_or_else(PoisonError::into_inner), key).cloned()
    }
}

impl<V> WatchCacheSet<V> {
    /// Takes in durable records, in order. Nothing up to `through` is missing then.
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
                error!(%error, "cannot mirror a write");
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
