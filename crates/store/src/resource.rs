//! The watch cache of one resource: an index of current objects and a ring of recent events.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use imbl::OrdMap;
use object::Text;
use tokio::sync::Notify;
use tracing::warn;

use crate::{
    CacheCodec, Engine, Error, Event, Record, Replay, RingLimits, Topic, Version,
    compressed::{Entry, Found, pack},
    parallel::{parallel_map, parallelism},
    progress::Progress,
    ring::Ring,
};

/// Number of records that one thread decodes at a time.
const MANY: usize = 2_048;

/// Keys are shared, so that copying a node of the index copies no text.
type Index<V> = OrdMap<Arc<str>, Entry<V>>;

/// The watch cache of one resource.
pub struct WatchCache<V> {
    resident: Arc<dyn CacheCodec<V>>,
    bounds: RingLimits,
    state: Mutex<State<V>>,
    progress: Arc<Progress>,
    ended: Notify,
    /// The last list that was loaded from before the ring, because a client may be paging through it.
    past: Mutex<Option<CacheSnapshot<V>>>,
    /// The dictionary that objects were last compressed with.
    dictionary: Mutex<Option<Arc<[u8]>>>,
}

/// The index and the ring of a watch cache.
pub(crate) struct State<V> {
    index: Index<V>,
    /// Keys whose last write could not be decoded. For these the index holds the previous object.
    unreadable: BTreeMap<Text, Error>,
    pub(crate) ring: Ring<V>,
}

impl<V> State<V> {
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}

impl<V> fmt::Debug for WatchCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.resident).finish()
    }
}

impl<V> WatchCache<V> {
    pub(crate) fn new(
        resident: Arc<dyn CacheCodec<V>>,
        bounds: RingLimits,
        progress: Arc<Progress>,
    ) -> Self {
        let state = State {
            index: OrdMap::new(),
            unreadable: BTreeMap::new(),
            ring: Ring::begin(bounds, 0),
        };
        let (state, ended, past) = (Mutex::new(state), Notify::new(), Mutex::new(None));
        Self { resident, bounds, state, progress, ended, past, dictionary: Mutex::default() }
    }

    pub fn get(&self, key: &str) -> Option<Arc<Version<V>>> {
        let entry = self.state().index.get(key).cloned();
        entry.map(|entry| entry.open(key, &*self.resident))
    }

    /// Like `get`, but a key whose last write cannot be decoded is an error.
    pub fn try_get(&self, key: &str) -> Result<Option<Arc<Version<V>>>, Error> {
        let entry = {
            let state = self.state();
            state.unreadable.get(key).cloned().map_or(Ok(()), Err)?;
            state.index.get(key).cloned()
        };
        Ok(entry.map(|entry| entry.open(key, &*self.resident)))
    }

    /// A snapshot of the current state. It copies one pointer and does not block writers.
    pub fn snapshot(&self) -> CacheSnapshot<V> {
        let state = self.state();
        self.pinned(self.newest(&state), state.index.clone())
    }

    fn pinned(&self, revision: u64, index: Index<V>) -> CacheSnapshot<V> {
        CacheSnapshot { revision, index, resident: self.resident.clone() }
    }

    /// The state at `revision`: the current one with later events undone. The time is proportional to the number of
    /// later events; writers are not blocked.
    pub fn snapshot_at(&self, revision: u64) -> Result<CacheSnapshot<V>, Error> {
        let (mut index, later) = {
            let state = self.state();
            self.reached(&state, revision)?;
            self.not_compacted(revision)?;
            (state.index.clone(), state.ring.after(revision)?)
        };
        for event in later.iter().rev() {
            match &event.old {
                Some(old) => index.insert(event.key.as_str().into(), Entry::Plain(old.clone())),
                None => index.remove(event.key.as_str()),
            };
        }
        Ok(self.pinned(revision, index))
    }

    /// Like `snapshot_at`, but loads the state from the engine if the ring does not reach back that far. The last one
    /// is kept, because a list is read page by page.
    pub fn snapshot_at_or_load(
        &self,
        engine: &dyn Engine<V>,
        prefix: &str,
        revision: u64,
    ) -> Result<CacheSnapshot<V>, Error> {
        match self.snapshot_at(revision) {
            Err(Error::Compacted { .. }) => self.not_compacted(revision)?,
            done => return done,
        }
        let known = self.past.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.revision == revision) {
            return Ok(known);
        }
        let mut index = OrdMap::new();
        for record in engine.list_at(prefix, revision)? {
            let Some(object) = self.decode(&record)? else { continue };
            let version = Version { revision: record.revision, object };
            index.insert(record.key.as_str().into(), Entry::Plain(Arc::new(version)));
        }
        let pinned = self.pinned(revision, index);
        *self.past.lock().unwrap_or_else(PoisonError::into_inner) = Some(pinned.clone());
        Ok(pinned)
    }

    /// The revision up to which the cache is complete. Bookmarks and consistent reads use it; it advances even when
    /// this resource does not change.
    pub fn progress_revision(&self) -> u64 {
        self.progress.get()
    }

    /// Waits until the cache is complete up to `revision`. That may never happen, so the caller sets a timeout.
    pub async fn wait_for(&self, revision: u64) {
        self.progress.wait_for(revision).await;
    }

    /// The oldest revision that a watch or an exact list can start from.
    pub fn floor(&self) -> u64 {
        self.state().ring.floor()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.state().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers a cursor for events of `topic` after `revision`, and returns its number and position.
    pub(crate) fn open(&self, topic: &Topic, revision: u64) -> Result<(u64, u64), Error> {
        let mut state = self.state();
        self.reached(&state, revision)?;
        state.ring.open(topic, revision)
    }

    /// Applies a record, decoding it unless the writer passed its value on.
    pub(crate) fn apply(&self, record: Record, value: Option<V>, now: i64) -> Result<(), Error> {
        let object = match value.filter(|_| record.bytes.is_some()) {
            Some(value) => Some(value),
            None => match self.decode(&record) {
                Ok(object) => object,
                Err(error) => return Err(self.fail_watches(record.key, error)),
            },
        };
        let Record { revision, key, .. } = record;
        let described = match object.as_ref().map(|object| self.describe(&key, object)).transpose()
        {
            Ok(described) => described,
            Err(panicked) => {
                let why = panicked.to_string();
                let error = Error::Corrupt { key: key.to_string(), revision, why };
                return Err(self.fail_watches(key, error));
            }
        };
        let new = object.map(|object| Arc::new(Version { revision, object }));
        let mut state = self.state();
        // Several keys may be written at one revision.
        let newest = state.ring.newest();
        let have = state.index.get(key.as_str()).map(Entry::revision);
        let known = have == new.as_ref().map(|_| revision);
        if revision < newest || (revision == newest && known) {
            return Ok(()); // already read from the log
        }
        let old = match &new {
            Some(new) => state.index.insert(key.as_str().into(), Entry::Plain(new.clone())),
            None => state.index.remove(key.as_str()),
        };
        let old = old.map(|old| old.open(&key, &*self.resident));
        if state.unreadable.remove(&key).is_some() && state.unreadable.is_empty() {
            state.ring.restart_after(revision); // watches cannot be told what came between
            return Ok(());
        }
        let before = old.as_ref().and_then(|old| self.describe(&key, &old.object).ok());
        let topics = joined(before, described);
        let [before, after] = [&old, &new].map(|it| it.as_ref().map(|version| &version.object));
        let weight = panics::catch("store index", || self.resident.weight(before, after));
        let weight = weight.unwrap_or_default().saturating_add(size_of::<Event<V>>());
        let event = Event { revision, key, old, new, topics };
        let wake = state.ring.push(event, weight, now);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// An error if an object under a prefix, or at a key, cannot be decoded.
    pub fn check_decodable(&self, prefix: &str) -> Result<(), Error> {
        self.undecodable(prefix).into_iter().next().map_or(Ok(()), Err)
    }

    /// The undecodable objects under a prefix, sorted by key.
    pub fn undecodable(&self, prefix: &str) -> Vec<Error> {
        let state = self.state();
        let under = state.unreadable.iter().filter(|(key, _)| key.starts_with(prefix));
        under.map(|(_, error)| error.clone()).collect()
    }

    /// Decodes a record; `None` for a deletion.
    fn decode(&self, record: &Record) -> Result<Option<V>, Error> {
        let Record { key, revision, bytes, .. } = record;
        let decode = |bytes| {
            let decoded = panics::catch("store decode", || self.resident.decode(key, bytes));
            decoded.unwrap_or_else(|panicked| Err(panicked.to_string()))
        };
        let object = bytes.as_ref().map(decode).transpose();
        object.map_err(|why| Error::Corrupt { key: key.to_string(), revision: *revision, why })
    }

    /// Records that the last write to a key cannot be decoded. Watches end with an error until the key is written
    /// again; otherwise clients would assume that they have seen all events.
    fn fail_watches(&self, key: Text, error: Error) -> Error {
        let mut state = self.state();
        state.unreadable.insert(key, error.clone());
        let wake = state.ring.fail(error.clone());
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        error
    }

    pub(crate) fn compact(&self, revision: u64) {
        self.progress.compact(revision);
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.take_if(|past| past.revision < revision);
    }

    fn not_compacted(&self, revision: u64) -> Result<(), Error> {
        let floor = self.progress.compacted();
        if revision < floor { Err(Error::Compacted { floor }) } else { Ok(()) }
    }

    /// Marks the cache as complete up to `revision`.
    pub(crate) fn complete(&self, revision: u64) {
        self.progress.advance(revision);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().ring.is_closed()
    }

    /// Waits until the resource is no longer served.
    pub(crate) async fn closed(&self) {
        let told = self.ended.notified();
        let mut told = std::pin::pin!(told);
        told.as_mut().enable();
        if !self.is_closed() {
            told.await;
        }
    }

    pub(crate) fn close(&self) {
        let wake = self.state().ring.close();
        self.ended.notify_waiters();
        wake.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<V>> {
        panics::lock_or_abort(&self.state)
    }

    /// The newest revision; slightly ahead of the progress revision while a batch is applied.
    fn newest(&self, state: &State<V>) -> u64 {
        self.progress_revision().max(state.ring.newest())
    }

    /// An error if `revision` is in the future. A client may have got it from a server that is ahead of this one.
    fn reached(&self, state: &State<V>, revision: u64) -> Result<(), Error> {
        if revision > self.newest(state) { Err(Error::FutureRevision { revision }) } else { Ok(()) }
    }

    /// The topics of an object. The kind's own code determines them and may panic, so this is called before anything is
    /// changed.
    fn describe(&self, key: &str, object: &V) -> Result<Vec<Topic>, panics::Panicked> {
        panics::catch("store index", || self.resident.topics(key, object))
    }
}

/// The topics of an event: those of the old object and of the new one.
fn joined(before: Option<Vec<Topic>>, now: Option<Vec<Topic>>) -> Vec<Topic> {
    let mut topics = before.unwrap_or_default();
    for topic in now.into_iter().flatten() {
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    topics
}

/// Number of objects that are compressed before the index is unlocked.
const TOGETHER: usize = 256;

impl<V: PartialEq> WatchCache<V> {
    /// Compresses the objects that only the index refers to, if the codec supports that. Passes on their newly
    /// allocated keys, so that others can share them.
    pub(crate) fn pack(&self, mut packed_keys: impl FnMut(&[Arc<str>])) {
        if !self.resident.packs() {
            return;
        }
        let index = self.state().index.clone();
        let idle: Vec<_> = index
            .iter()
            .filter_map(|(key, entry)| Some((key.clone(), entry.unused()?.clone())))
            .collect();
        drop(index);
        let mut dictionary = self.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
        for idle in idle.chunks(TOGETHER) {
            let (block, places) = match pack(&*self.resident, idle, &mut dictionary) {
                Ok(packed) => packed,
                Err(error) => return warn!(%error, "cannot compress objects"),
            };
            let keys: Vec<Arc<str>> = idle.iter().map(|(key, _)| Arc::from(&**key)).collect();
            let mut state = self.state();
            for (((_, version), place), key) in idle.iter().zip(places).zip(&keys) {
                if let Some(nth) = place
                    && state.index.get(key).is_some_and(|entry| entry.is(version))
                {
                    state.index.insert(key.clone(), Entry::Packed(block.clone(), nth));
                }
            }
            drop(state);
            packed_keys(&keys);
        }
    }
}

impl<V: Send + Sync> WatchCache<V> {
    /// Fills the cache with an engine's replay. Undecodable objects are recorded, unless they were replaced later: then
    /// the ring begins after that.
    pub(crate) fn fill(&self, replay: Replay<'_>) {
        let Replay { floor, state, events, now, .. } = replay;
        let (mut index, mut begin, mut unreadable) = (Index::default(), 0, BTreeMap::new());
        for (record, object) in state.iter().zip(self.decode_all(&state)) {
            match object {
                Ok(Some(object)) => {
                    let version = Arc::new(Version { revision: record.revision, object });
                    index.insert(record.key.as_str().into(), Entry::Plain(version));
                }
                Ok(None) => {}
                Err(error) => match replaced(record, &events) {
                    Some(passed) => begin = begin.max(passed),
                    None => drop(unreadable.insert(record.key.clone(), error)),
                },
            }
        }
        *self.state() = State { index, unreadable, ring: Ring::begin(self.bounds, floor) };
        self.replay_events(&events, begin, now);
    }

    /// Applies the events since then. The ring begins after the first `begin` events.
    pub(crate) fn replay_events(&self, events: &[&Record], mut begin: usize, now: i64) {
        let news = self.decode_all(events);
        for (nth, new) in news.iter().enumerate() {
            let later = nth + 1;
            if new.is_err()
                && let Some(mended) = replaced(events[nth], &events[later..])
            {
                begin = begin.max(later + mended);
            }
        }
        let mut events = events.iter().zip(news);
        for (record, new) in events.by_ref().take(begin) {
            let (revision, key) = (record.revision, &record.key);
            let mut state = self.state();
            state.unreadable.remove(key);
            match new {
                Ok(Some(object)) => {
                    let version = Arc::new(Version { revision, object });
                    drop(state.index.insert(key.as_str().into(), Entry::Plain(version)));
                }
                Ok(None) => drop(state.index.remove(key.as_str())),
                Err(error) => drop(state.unreadable.insert(key.clone(), error)),
            }
            state.ring = Ring::begin(self.bounds, revision);
        }
        for (record, new) in events {
            let _ = self.apply(Record::clone(record), new.ok().flatten(), now); // the error is recorded
        }
        let mut state = self.state();
        if let Some(error) = state.unreadable.values().next().cloned() {
            state.ring.fail(error);
        }
    }

    /// Decodes the records, in parallel if there are many.
    fn decode_all(&self, records: &[&Record]) -> Vec<Result<Option<V>, Error>> {
        let decode = |record: &&Record| self.decode(record);
        let parts: Vec<_> = records.chunks(MANY).collect();
        let parts = parallel_map(parallelism(), &parts, |part| part.iter().map(decode).collect());
        parts.into_iter().flat_map(|part: Vec<_>| part).collect()
    }
}

/// The number of events up to the one that replaces a record.
fn replaced(record: &Record, events: &[&Record]) -> Option<usize> {
    Some(1 + events.iter().position(|event| event.key == record.key)?)
}

/// All objects of a resource as of one revision.
pub struct CacheSnapshot<V> {
    pub revision: u64,
    index: Index<V>,
    resident: Arc<dyn CacheCodec<V>>,
}

impl<V> Clone for CacheSnapshot<V> {
    fn clone(&self) -> Self {
        let (index, resident) = (self.index.clone(), self.resident.clone());
        Self { revision: self.revision, index, resident }
    }
}

impl<V> CacheSnapshot<V> {
    pub fn get(&self, key: &str) -> Option<Arc<Version<V>>> {
        self.index.get(key).map(|entry| entry.open(key, &*self.resident))
    }

    /// The objects under `prefix`, sorted by key, after `after`.
    pub fn range(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&str, Found<'_, V>)> {
        self.entries(prefix, after).map(|(key, entry)| match entry {
            Entry::Plain(version) => (key, Found::Shared(version)),
            packed @ Entry::Packed(..) => (key, Found::Made(packed.open(key, &*self.resident))),
        })
    }

    fn entries(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&str, &Entry<V>)> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let range = self.index.range::<_, str>((from, Bound::Unbounded));
        range.take_while(move |(key, _)| key.starts_with(prefix)).map(|(key, v)| (&**key, v))
    }

    /// The number of objects under `prefix` after `after`. The total is known; a subset is counted by walking over its
    /// keys.
    pub fn count(&self, prefix: &str, after: Option<&str>) -> usize {
        let all = after.is_none()
            && self.index.get_min().is_none_or(|(key, _)| key.starts_with(prefix))
            && self.index.get_max().is_none_or(|(key, _)| key.starts_with(prefix));
        if all { self.index.len() } else { self.entries(prefix, after).count() }
    }
}

impl<V> fmt::Debug for CacheSnapshot<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({})", self.revision)
    }
}
