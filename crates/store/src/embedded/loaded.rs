//! What a log holds, read once for all resources that are served from it.

use std::thread;

use crate::{
    Base, Error, Log, Record, Replay,
    engine::FIRST,
    keys::{Keys, Past},
};

/// From so many records on it pays to sort them by two threads.
const MANY: usize = 20_000;

/// Kept for so long, in seconds: whoever is served later reads the log again.
const KEPT: i64 = 60;

#[derive(Debug)]
pub(super) struct Loaded {
    base: Base,
    /// The state as of the base, and what happened since; by key, then by revision.
    records: Vec<Record>,
    through: u64,
    read: i64,
}

impl Loaded {
    pub(super) fn read(log: &dyn Log, now: i64) -> Result<Self, Error> {
        Self::read_under(log, "", now)
    }

    /// What there is under `prefix`.
    pub(super) fn read_under(log: &dyn Log, prefix: &str, now: i64) -> Result<Self, Error> {
        let (mut records, mut through) = (Vec::new(), 0);
        let base = log.read(0, &mut |record| {
            through = record.revision;
            if record.key.starts_with(prefix) {
                records.push(record);
            }
        })?;
        sort(&mut records);
        let through = base.through.max(through).max(FIRST);
        Ok(Self { base, records, through, read: now })
    }

    pub(super) fn stale(&self, now: i64) -> bool {
        now.saturating_sub(self.read) > KEPT
    }

    pub(super) fn keys(&self) -> (Keys, Past) {
        let (mut keys, mut past) = (Keys::default(), Past::new(self.base.clone()));
        for record in &self.records {
            keys.apply(record);
        }
        let since = self.records.iter().filter(|record| record.revision > self.base.floor);
        let mut since: Vec<_> = since.collect();
        since.sort_unstable_by_key(|record| record.revision);
        for record in since {
            past.apply(record);
        }
        keys.revision = self.through;
        (keys, past)
    }

    /// What a resource under `prefix` begins with. Its ring begins at the last change
    /// in the state, so that a quiet resource does not expire.
    pub(super) fn replay(&self, prefix: &str, now: i64) -> Replay {
        let from = self.records.partition_point(|record| record.key.as_str() < prefix);
        let under = self.records[from..].iter().take_while(|record| record.key.starts_with(prefix));
        let mut under: Vec<_> = under.cloned().collect();
        under.sort_unstable_by_key(|record| record.revision);
        let (state, events): (Vec<_>, Vec<_>) =
            under.into_iter().partition(|record| record.revision <= self.base.floor);
        let changed = state.last().map_or(0, |record| record.revision);
        let floor = self.base.removals.last(prefix).max(changed);
        Replay { floor, state, events, through: self.through, now }
    }
}

/// By key, and as they were where it is the same. Many are sorted by two at once: the
/// halves first, and to join them is quickly done.
fn sort(records: &mut [Record]) {
    let by_key = |records: &mut [Record]| records.sort_by(|a, b| a.key.cmp(&b.key));
    if records.len() >= MANY {
        let (left, right) = records.split_at_mut(records.len() / 2);
        thread::scope(|scope| {
            scope.spawn(|| by_key(left));
            by_key(right);
        });
    }
    by_key(records);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lineage;

    #[test]
    fn many_are_sorted_as_few_are() {
        let record = |revision: u64| {
            let (key, lineage) =
                (format!("{}", revision * 7_919 % 5_000).into(), Lineage::new(revision));
            Record { revision, key, bytes: None, expires: None, note: None, lineage }
        };
        let mut records: Vec<_> = (0..MANY as u64 + 7).map(record).collect();
        let mut expected = records.clone();
        expected.sort_by(|a, b| (&a.key, a.revision).cmp(&(&b.key, b.revision)));
        sort(&mut records);
        assert!(records == expected);
    }
}
