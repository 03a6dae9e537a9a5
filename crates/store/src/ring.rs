//! The recent events of one resource, and the watches that wait for them.
//!
//! Each event belongs to a few topics, and each topic is a chain through the ring:
//!
//! ```text
//!  position        4    5    6    7    8    9          floor: the revision of event 3
//!  All            [4]  [5]  [6]  [7]  [8]  [9]
//!  node n1         4 ───────────► 7                    a cursor that has read 7 sleeps here, and
//!  node n2              5 ──► 6 ────► 8 ──► 9          events of n2 never wake or expire it
//! ```

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use object::Text;

use crate::{Error, Version};

/// The set of events that a watch receives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    All,
    Namespace(Text),
    /// `namespace/name`.
    Name(Text),
    /// An index of the kind, and a value, such as the pods of one node.
    Index(Text, Text),
}

/// A change of one object. The old and the new value share equal subtrees.
#[derive(Debug)]
pub struct Event<V> {
    pub revision: u64,
    pub key: Text,
    pub old: Option<Arc<Version<V>>>,
    /// `None` for a deletion.
    pub new: Option<Arc<Version<V>>>,
    /// Topics of the old object as well as the new one, so that a watch learns when an object stops matching.
    pub(crate) topics: Vec<Topic>,
}

/// How many events a ring retains.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// Up to this many bytes, events are retained whatever their age.
    pub min_bytes: usize,
    /// Younger events are retained, as long as `max_bytes` suffices.
    pub min_age: Duration,
    pub max_bytes: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { min_bytes: 64 << 10, min_age: Duration::from_secs(75), max_bytes: 64 << 20 }
    }
}

/// The event ring of one resource.
#[derive(Debug)]
pub(crate) struct Ring<V> {
    events: VecDeque<Slot<V>>,
    bounds: RingLimits,
    weight: usize,
    /// The position of the oldest event. Positions count from 0 and never repeat.
    first: u64,
    /// The revision of the newest event that was dropped.
    floor: u64,
    chains: HashMap<Topic, Chain>,
    cursors: u64,
    closed: bool,
    /// The error that cursors get instead of events.
    broken: Option<Error>,
}

#[derive(Debug)]
struct Slot<V> {
    event: Arc<Event<V>>,
    /// Time of the event in seconds since 1970.
    at: i64,
    weight: usize,
}

/// The events of one topic, and its cursors. Removed when both are empty.
#[derive(Debug, Default)]
struct Chain {
    at: VecDeque<u64>,
    /// Position of the first event that can still be in the ring.
    from: u64,
    /// Every open cursor by its number, with its waker while it waits.
    cursors: HashMap<u64, Option<Waker>>,
}

impl<V> Ring<V> {
    /// An empty ring that begins after a revision.
    pub(crate) fn begin(bounds: RingLimits, floor: u64) -> Self {
        let (events, chains) = (VecDeque::new(), HashMap::new());
        let (weight, first, cursors, closed, broken) = (0, 0, 0, false, None);
        Self { events, bounds, weight, first, floor, chains, cursors, closed, broken }
    }

    /// The revision of the newest event.
    pub(crate) fn newest(&self) -> u64 {
        self.events.back().map_or(self.floor, |slot| slot.event.revision)
    }

    /// Events up to this revision have been dropped.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Adds an event and returns the wakers of the cursors that follow it.
    pub(crate) fn push(&mut self, event: Event<V>, weight: usize, now: i64) -> Vec<Waker> {
        let (position, mut wake) = (self.end(), Vec::new());
        for topic in &event.topics {
            let chain = self.chains.entry(topic.clone()).or_default();
            chain.at.push_back(position);
            wake.extend(chain.cursors.values_mut().filter_map(Option::take));
        }
        self.events.push_back(Slot { event: Arc::new(event), at: now, weight });
        self.weight += weight;
        self.trim(now);
        wake
    }

    /// Drops events that need not be retained. Called for each new event, and by a timer where there are none.
    pub(crate) fn trim(&mut self, now: i64) {
        let before = self.events.len();
        while self.too_much(now) {
            self.drop_oldest();
        }
        if self.events.len() < before && self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to(self.events.len() * 2);
            self.chains.shrink_to(self.chains.len() * 2);
        }
    }

    /// The number of events, and their approximate size in bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.events.len(), self.weight)
    }

    fn too_much(&self, now: i64) -> bool {
        let Some(oldest) = self.events.front() else { return false };
        let age = u64::try_from(now.saturating_sub(oldest.at)).unwrap_or_default();
        self.weight > self.bounds.max_bytes
            || (self.weight > self.bounds.min_bytes && age > self.bounds.min_age.as_secs())
    }

    fn drop_oldest(&mut self) {
        let Some(Slot { event, weight, .. }) = self.events.pop_front() else { return };
        self.first += 1;
        self.weight -= weight;
        self.floor = event.revision;
        for topic in &event.topics {
            let Some(chain) = self.chains.get_mut(topic) else { continue };
            chain.at.pop_front();
            chain.from = self.first;
            self.tidy(topic);
        }
    }

    /// The events after `revision`, if none of them has been dropped.
    pub(crate) fn after(&self, revision: u64) -> Result<Vec<Arc<Event<V>>>, Error> {
        let from = self.events_up_to(revision)?;
        Ok(self.events.range(from..).map(|slot| slot.event.clone()).collect())
    }

    /// Registers a cursor and returns its number and position. It expires only if an event of its own topic is dropped
    /// before it was read.
    pub(crate) fn open(&mut self, topic: &Topic, after: u64) -> Result<(u64, u64), Error> {
        let skip = self.events_up_to(after)?;
        self.cursors += 1;
        self.chains.entry(topic.clone()).or_default().cursors.insert(self.cursors, None);
        Ok((self.cursors, self.first + skip as u64))
    }

    /// The number of events up to `revision`.
    fn events_up_to(&self, revision: u64) -> Result<usize, Error> {
        if self.closed {
            return Err(Error::Closed);
        } else if let Some(error) = &self.broken {
            return Err(error.clone());
        } else if revision < self.floor {
            return Err(Error::Compacted { floor: self.floor });
        }
        Ok(self.events.partition_point(|slot| slot.event.revision <= revision))
    }

    /// The first event of `topic` at or after `position`, which is advanced past it. If there is none, the waker is
    /// registered.
    pub(crate) fn poll(
        &mut self,
        topic: &Topic,
        cursor: u64,
        position: &mut u64,
        waker: &Waker,
    ) -> Poll<Result<Arc<Event<V>>, Error>> {
        let end = self.end();
        let chain = self.chains.get_mut(topic).expect("kept while a cursor is open");
        if self.closed {
            return Poll::Ready(Err(Error::Closed));
        } else if let Some(error) = &self.broken {
            return Poll::Ready(Err(error.clone()));
        } else if *position < chain.from {
            return Poll::Ready(Err(Error::Compacted { floor: self.floor }));
        }
        let next = chain.at.partition_point(|at| at < position);
        let Some(&at) = chain.at.get(next) else {
            chain.cursors.insert(cursor, Some(waker.clone()));
            *position = end;
            return Poll::Pending;
        };
        *position = at + 1;
        let index = usize::try_from(at - self.first).expect("a ring fits in memory");
        Poll::Ready(Ok(self.events[index].event.clone()))
    }

    pub(crate) fn leave(&mut self, topic: &Topic, cursor: u64) {
        if let Some(chain) = self.chains.get_mut(topic) {
            chain.cursors.remove(&cursor);
            self.tidy(topic);
        }
    }

    /// Ends every cursor and returns the wakers.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.sleeping()
    }

    /// Makes every cursor return an error from now on, and returns the wakers.
    pub(crate) fn fail(&mut self, error: Error) -> Vec<Waker> {
        self.broken = Some(error);
        self.sleeping()
    }

    /// Restarts the ring after a revision; existing cursors expire.
    pub(crate) fn restart_after(&mut self, floor: u64) {
        self.first = self.end() + 1;
        self.events.clear();
        (self.weight, self.floor, self.broken) = (0, floor, None);
        self.chains.retain(|_, chain| !chain.cursors.is_empty());
        for chain in self.chains.values_mut() {
            chain.at.clear();
            chain.from = self.first;
        }
    }

    fn sleeping(&mut self) -> Vec<Waker> {
        let cursors = self.chains.values_mut().flat_map(|chain| chain.cursors.values_mut());
        cursors.filter_map(Option::take).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn tidy(&mut self, topic: &Topic) {
        if self.chains.get(topic).is_some_and(|c| c.at.is_empty() && c.cursors.is_empty()) {
            self.chains.remove(topic);
        }
    }

    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}
