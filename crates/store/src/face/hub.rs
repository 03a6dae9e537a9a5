//! Who watches what. A watch owns no buffer: it is told from which revision on there
//! is something for it, and reads that when it can.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::{keyspace::Keyspace, range::Range};

/// The watches of one stream that have something to read, each with the revision from
/// which on it has.
#[derive(Debug, Default)]
pub(super) struct Bell {
    due: Mutex<BTreeMap<i64, u64>>,
    rung: Notify,
}

impl Bell {
    pub(super) fn ring(&self, watch: i64, from: u64) {
        self.due.lock().expect("not poisoned").entry(watch).or_insert(from);
        self.rung.notify_one();
    }

    /// What has something to read.
    pub(super) fn take(&self) -> BTreeMap<i64, u64> {
        std::mem::take(&mut self.due.lock().expect("not poisoned"))
    }

    /// All that has happened to a watch so far is read.
    pub(super) fn hush(&self, watch: i64) {
        self.due.lock().expect("not poisoned").remove(&watch);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.due.lock().expect("not poisoned").is_empty()
    }

    pub(super) async fn rung(&self) {
        self.rung.notified().await;
    }
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    watch: i64,
    range: Range,
    bell: Arc<Bell>,
}

#[derive(Debug, Default)]
pub(super) struct Hub {
    /// Of one key, by that.
    single: HashMap<Bytes, Vec<Watcher>>,
    ranges: Vec<Watcher>,
    numbers: u64,
}

impl Hub {
    /// Gives a number to leave with.
    pub(super) fn enter(&mut self, watch: i64, range: Range, bell: Arc<Bell>) -> u64 {
        self.numbers += 1;
        let watcher = Watcher { number: self.numbers, watch, range, bell };
        if watcher.range.is_single() {
            self.single.entry(watcher.range.key.clone()).or_default().push(watcher);
        } else {
            self.ranges.push(watcher);
        }
        self.numbers
    }

    pub(super) fn leave(&mut self, range: &Range, number: u64) {
        if !range.is_single() {
            self.ranges.retain(|watcher| watcher.number != number);
        } else if let Some(watchers) = self.single.get_mut(&range.key) {
            watchers.retain(|watcher| watcher.number != number);
            if watchers.is_empty() {
                self.single.remove(&range.key);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len() + self.single.values().map(Vec::len).sum::<usize>()
    }

    /// Rings for what happened from one revision to another. Nobody else wakes.
    pub(super) fn tell(&self, keys: &Keyspace, from: u64, to: u64) {
        if self.single.is_empty() && self.ranges.is_empty() {
            return;
        }
        for change in keys.changes(from, to) {
            let ranges = self.ranges.iter().filter(|watcher| watcher.range.contains(&change.key));
            let single = self.single.get(&change.key).into_iter().flatten();
            for watcher in ranges.chain(single) {
                watcher.bell.ring(watcher.watch, change.revision);
            }
        }
    }
}
