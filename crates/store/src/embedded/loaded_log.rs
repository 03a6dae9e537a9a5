//! The content of a log, read once on opening for all resources that are served from it.

use bytes::Bytes;

use crate::{
    Error, Log, LogBase, Record, Replay,
    engine::INITIAL_REVISION,
    keys::{History, KeyIndex},
};

/// For how many seconds it is kept. A resource that is served later reads the log again.
const CACHE_SECONDS: i64 = 60;

/// From this many records on, the key index is built in a separate thread.
const LARGE: usize = 20_000;

/// The records of a log and their order by key.
#[derive(Debug)]
pub(super) struct LoadedLog {
    base: LogBase,
    /// The records of the snapshot, followed by the later ones, in log order.
    records: Vec<Record>,
    /// Positions in `records`, sorted by key and, for one key, by revision.
    order: Vec<usize>,
    through: u64,
    read: i64,
}

impl LoadedLog {
    pub(super) fn read(log: &dyn Log, now: i64) -> Result<Self, Error> {
        Self::read_under(log, "", now)
    }

    /// Reads the records whose keys begin with `prefix`.
    pub(super) fn read_under(log: &dyn Log, prefix: &str, now: i64) -> Result<Self, Error> {
        let (base, mut records) = log.load()?;
        let last = records.last().map_or(0, |record| record.revision);
        let through = base.end_revision.max(last).max(INITIAL_REVISION);
        if !prefix.is_empty() {
            records.retain(|record| record.key.starts_with(prefix));
        }
        Ok(Self { base, order: by_key(&records), records, through, read: now })
    }

    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Whether there are so many records that indexing them should not delay the start.
    pub(super) fn is_large(&self) -> bool {
        self.records.len() >= LARGE
    }

    pub(super) fn stale(&self, now: i64) -> bool {
        now.saturating_sub(self.read) > CACHE_SECONDS
    }

    pub(super) fn keys(&self) -> (KeyIndex, History) {
        let mut past = History::new(self.base.clone());
        for record in self.records.iter().filter(|record| record.revision > self.base.floor) {
            past.apply(record);
        }
        let last = same_key(&self.records, &self.order).filter_map(|same| same.last());
        (KeyIndex::load(last.map(|nth| &self.records[*nth]), self.through), past)
    }

    /// The initial content of a resource's watch cache. Its ring begins at the last change in the snapshot, so that the
    /// revision of a rarely changed resource does not count as compacted. As many later events as fit into `room` bytes
    /// are returned; older ones are only in the state.
    pub(super) fn replay(&self, prefix: &str, room: usize, now: i64) -> Replay<'_> {
        let record = |nth: &usize| &self.records[*nth];
        let from = self.order.partition_point(|nth| record(nth).key.as_str() < prefix);
        let under = &self.order[from..];
        let under = &under[..under.partition_point(|nth| record(nth).key.starts_with(prefix))];
        let since = under.iter().filter(|nth| record(nth).revision > self.base.floor);
        let mut since: Vec<_> = since.copied().collect();
        since.sort_unstable();
        let mut bytes = 0;
        let fits = |nth: &&usize| {
            let Record { key, bytes: value, .. } = record(nth);
            bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            bytes <= room
        };
        let older = since.len() - since.iter().rev().take_while(fits).count();
        let (older, events) = since.split_at(older);
        let until = older.last().map_or(self.base.floor, |last| record(last).revision);
        let state = same_key(&self.records, under).filter_map(|same| {
            let last = same.iter().map(record).rfind(|record| record.revision <= until)?;
            last.bytes.as_ref().map(|_| last)
        });
        let state: Vec<_> = state.collect();
        let changed = state.iter().map(|record| record.revision).max().unwrap_or_default();
        let changed = older.last().map_or(changed, |last| record(last).revision);
        let floor = self.base.removals.last(prefix).max(changed);
        let events = events.iter().map(record).collect();
        Replay { floor, state, events, end_revision: self.through, now }
    }
}

/// Positions of the records sorted by key and, for one key, by revision. The keys' first bytes after their common
/// prefix are compared as a number, which is much faster than comparing whole keys and is seldom inconclusive.
fn by_key(records: &[Record]) -> Vec<usize> {
    let Some(first) = records.first() else { return Vec::new() };
    let shared = |key: &str| {
        let same = key.bytes().zip(first.key.bytes()).take_while(|(a, b)| a == b);
        same.count()
    };
    let shared = records.iter().map(|record| shared(&record.key)).min().unwrap_or_default();
    let begins = |(nth, record): (usize, &Record)| {
        let rest = &record.key.as_bytes()[shared..];
        let (mut number, count) = ([0; 16], rest.len().min(16));
        number[..count].copy_from_slice(&rest[..count]);
        (u128::from_be_bytes(number), nth)
    };
    let mut places: Vec<_> = records.iter().enumerate().map(begins).collect();
    places.sort_unstable_by(|(a, nth), (b, other)| {
        let keys = || records[*nth].key.cmp(&records[*other].key);
        a.cmp(b).then_with(keys).then(nth.cmp(other))
    });
    places.into_iter().map(|(_, nth)| nth).collect()
}

/// The positions of the records of each key.
fn same_key<'a>(
    records: &'a [Record],
    order: &'a [usize],
) -> impl Iterator<Item = &'a [usize]> + 'a {
    order.chunk_by(|a, b| records[*a].key == records[*b].key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyMetadata, MemoryLog};

    fn record(revision: u64, key: &str, there: bool) -> Record {
        let (key, lineage) = (key.into(), KeyMetadata::new(revision));
        let bytes = there.then(|| Bytes::from(vec![1; 100]));
        Record { revision, key, bytes, expires: None, note: None, lineage }
    }

    #[test]
    fn by_key_is_as_by_sorting() {
        let keys =
            ["/a/x", "/a/", "/a/x\0", "/a/xé", "/a/0123456789abcdefz", "/a/0123456789abcdef"];
        let name = |nth: u64| match nth % 7 {
            6 => format!("/a/{}", nth * 7_919 % 500),
            nth => keys[usize::try_from(nth).expect("small")].to_owned(),
        };
        let records: Vec<_> = (0..5_000).map(|nth| record(nth, &name(nth), true)).collect();
        let mut expected: Vec<_> = (0..records.len()).collect();
        expected.sort_by_key(|nth| records[*nth].key.clone());
        assert_eq!(by_key(&records), expected);
        assert_eq!(by_key(&[]), Vec::<usize>::new());
    }

    #[test]
    fn what_has_no_room_is_in_the_state() {
        let log = MemoryLog::default();
        let all = [
            record(2, "/a/x", true),
            record(3, "/a/y", true),
            record(4, "/b/z", true),
            record(5, "/a/x", false),
            record(6, "/a/y", true),
            record(7, "/a/w", true),
        ];
        log.append(&all).expect("memory");
        let loaded = LoadedLog::read(&log, 0).expect("whole");
        let told = |room: usize| {
            let Replay { floor, state, events, end_revision: through, .. } =
                loaded.replay("/a/", room, 0);
            let revisions = |records: Vec<&Record>| -> Vec<u64> {
                records.into_iter().map(|record| record.revision).collect()
            };
            assert_eq!(through, 7);
            (floor, revisions(state), revisions(events))
        };
        let each = 100 + "/a/x".len();
        assert_eq!(told(usize::MAX), (0, vec![], vec![2, 3, 5, 6, 7]));
        assert_eq!(told(each * 3), (3, vec![2, 3], vec![5, 6, 7]));
        assert_eq!(told(each * 2), (5, vec![3], vec![6, 7]));
        assert_eq!(told(each), (6, vec![6], vec![7]));
        assert_eq!(told(0), (7, vec![7, 6], vec![]));
    }
}
