//! Registry of the watches of the etcd server, by key and range. A watch has no buffer: the registry only marks the
//! revision from which it has unread events, and the watch reads them when its stream can send.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::{keyspace::Keyspace, range::Range};

/// The watches of one stream that have unread events, each with the revision from which it has.
#[derive(Debug, Default)]
pub(super) struct WatchNotifier {
    due: Mutex<BTreeMap<i64, u64>>,
    rung: Notify,
}

impl WatchNotifier {
    pub(super) fn notify(&self, watches: impl IntoIterator<Item = i64>, from: u64) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        for watch in watches {
            due.entry(watch).or_insert(from);
        }
        drop(due);
        self.rung.notify_one();
    }

    /// Adds the watches with unread events to `known`.
    pub(super) fn take(&self, known: &mut BTreeMap<i64, u64>) {
        let mut due = std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner));
        if known.is_empty() {
            std::mem::swap(known, &mut due);
        }
        for (watch, from) in due {
            known.entry(watch).or_insert(from);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) async fn notified(&self) {
        self.rung.notified().await;
    }
}

/// The watches of one stream on the same key or range.
#[derive(Debug)]
struct WatchGroup {
    bell: Arc<WatchNotifier>,
    /// Registration number and watch id.
    watches: Vec<(u64, i64)>,
}

/// The registered watches.
#[derive(Debug, Default)]
pub(super) struct WatchRegistry {
    /// Watches of a single key, by key, and of ranges, by range. Equal watches of one stream share a group.
    single: HashMap<Bytes, Vec<WatchGroup>>,
    ranges: HashMap<Range, Vec<WatchGroup>>,
    numbers: u64,
}

impl WatchRegistry {
    /// Registers a watch and returns its registration number.
    pub(super) fn register(&mut self, watch: i64, range: Range, bell: &Arc<WatchNotifier>) -> u64 {
        self.numbers += 1;
        let groups = if range.is_single() {
            self.single.entry(range.key).or_default()
        } else {
            self.ranges.entry(range).or_default()
        };
        match groups.iter_mut().find(|group| Arc::ptr_eq(&group.bell, bell)) {
            Some(group) => group.watches.push((self.numbers, watch)),
            None => {
                groups
                    .push(WatchGroup { bell: bell.clone(), watches: vec![(self.numbers, watch)] });
            }
        }
        self.numbers
    }

    pub(super) fn unregister(&mut self, range: &Range, number: u64) {
        if range.is_single() {
            if self.single.get_mut(&range.key).is_some_and(|groups| remove(groups, number)) {
                self.single.remove(&range.key);
            }
        } else if self.ranges.get_mut(range).is_some_and(|groups| remove(groups, number)) {
            self.ranges.remove(range);
        }
    }

    pub(super) fn len(&self) -> usize {
        let all = self.ranges.values().chain(self.single.values()).flatten();
        all.map(|group| group.watches.len()).sum()
    }

    /// Marks the watches that the changes between two revisions concern. No other watch is woken.
    pub(super) fn notify(&self, keys: &Keyspace, from: u64, to: u64) {
        if self.single.is_empty() && self.ranges.is_empty() {
            return;
        }
        for change in keys.changes(from, to) {
            let ranges = self.ranges.iter().filter(|(range, _)| range.contains(&change.key));
            let single = self.single.get(&change.key);
            for group in ranges.map(|(_, groups)| groups).chain(single).flatten() {
                group.bell.notify(group.watches.iter().map(|(_, watch)| *watch), change.revision);
            }
        }
    }
}

/// Removes a registration; true if no watch is left.
fn remove(groups: &mut Vec<WatchGroup>, number: u64) -> bool {
    for group in groups.iter_mut() {
        // Sorted, because numbers are assigned in increasing order.
        if let Ok(nth) = group.watches.binary_search_by_key(&number, |(number, _)| *number) {
            group.watches.remove(nth);
        }
    }
    groups.retain(|group| !group.watches.is_empty());
    groups.is_empty()
}
