//! Keys, leases and alarms, as they will be once all that was judged is durable.

use std::{collections::BTreeSet, mem};

use bytes::Bytes;

use super::{
    aside::{self, Aside},
    fault::Fault,
    keyspace::{Keyspace, Version},
    leases::{LONGEST, Lease, Leases},
    range::Range,
};
use crate::{Base, Lineage, Record, engine::FIRST};

/// What one batch may hold, unless it is a single transaction.
const BATCH: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct State {
    pub(super) keys: Keyspace,
    pub(super) leases: Leases,
    /// Whether the quota was exceeded, and nobody has said that it is seen to.
    pub(super) alarm: bool,
    pub(super) quota: u64,
    /// The newest revision that was judged, and where the log will end.
    pub(super) revision: u64,
    position: u64,
    /// The same, of what is durable.
    pub(super) durable: u64,
    durable_position: u64,
    /// What is judged and on its way, and what is still to go.
    sent: Vec<Step>,
    pending: Vec<Step>,
    /// The changes of the transaction that is being judged.
    subs: u32,
    writes: bool,
    /// Whether it may use what is held back for a full disk, and nothing else.
    spare: bool,
}

/// A record, and how it is taken back.
#[derive(Debug)]
struct Step {
    record: Record,
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    Key,
    Lease(i64, Option<Lease>),
    Alarm(bool),
    /// Has no effect until it is durable.
    Floor,
}

impl State {
    pub(super) fn new(quota: u64) -> Self {
        let (keys, leases, sent, pending) =
            (Keyspace::default(), Leases::default(), vec![], vec![]);
        let (revision, position, durable, durable_position) = (FIRST, FIRST, FIRST, FIRST);
        let (alarm, subs, writes, spare) = (false, 0, false, false);
        Self {
            keys,
            leases,
            alarm,
            quota,
            revision,
            position,
            durable,
            durable_position,
            sent,
            pending,
            subs,
            writes,
            spare,
        }
    }

    /// Judges a request. If it fails, it is as if nobody had asked.
    pub(super) fn judge<T>(
        &mut self,
        spare: bool,
        request: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        (self.spare, self.writes, self.subs) = (spare, false, 0);
        let mark = self.pending.len();
        let done = request(self);
        if done.is_err() {
            for step in self.pending.split_off(mark).into_iter().rev() {
                self.take_back(step);
            }
        }
        done
    }

    /// Where the log must have come before the last judgement may be told.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn durable_position(&self) -> u64 {
        self.durable_position
    }

    /// The revision that the request being judged reads at: with its own writes.
    pub(super) fn now(&self) -> u64 {
        self.revision
    }

    pub(super) fn put(
        &mut self,
        key: &Bytes,
        value: &[u8],
        lease: i64,
    ) -> Result<Option<Version>, Fault> {
        if self.alarm || self.spare {
            return Err(Fault::NoSpace);
        }
        let size = (key.len() + value.len() + size_of::<Version>()) as u64;
        if self.quota > 0 && self.keys.bytes + size > self.quota {
            return Err(Fault::Quota);
        } else if lease != 0 && !self.leases.0.contains_key(&lease) {
            return Err(Fault::LeaseNotFound);
        }
        let revision = self.write();
        let before = self.keys.at(key, revision).map(|before| before.lineage);
        let lineage = before.map_or(Lineage::new(revision), |before| before.next(revision));
        Ok(self.change(key, Some(value), Lineage { lease, ..lineage }))
    }

    /// Deletes what there is. Gives what there was.
    pub(super) fn delete(&mut self, range: &Range) -> Vec<(Bytes, Version)> {
        let there: Vec<_> =
            self.keys.range(range, self.now()).map(|(key, _)| key.clone()).collect();
        if there.is_empty() {
            return Vec::new();
        }
        let revision = self.write();
        let gone = there.into_iter().filter_map(|key| {
            let before = self.change(&key, None, Lineage::end(revision))?;
            Some((key, before))
        });
        gone.collect()
    }

    /// Gives for how long.
    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: i64) -> Result<i64, Fault> {
        if self.alarm || self.spare {
            return Err(Fault::NoSpace);
        } else if ttl > LONGEST {
            return Err(Fault::TtlTooLarge);
        } else if self.leases.0.contains_key(&id) {
            return Err(Fault::LeaseExists);
        }
        let ttl = self.leases.grant(id, ttl, now);
        self.aside(Aside::Lease(id), Some(aside::number(ttl)), Undo::Lease(id, None));
        Ok(ttl)
    }

    /// Ends a lease and its keys.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), Fault> {
        let keys = self.leases.0.get(&id).ok_or(Fault::LeaseNotFound)?.keys.clone();
        for key in keys {
            self.delete(&Range::new(key, Bytes::new()));
        }
        let lease = self.leases.0.remove(&id);
        self.aside(Aside::Lease(id), None, Undo::Lease(id, lease));
        Ok(())
    }

    pub(super) fn set_alarm(&mut self, on: bool) {
        if self.alarm != on {
            let before = mem::replace(&mut self.alarm, on);
            self.aside(Aside::Alarm, on.then(Bytes::new), Undo::Alarm(before));
        }
    }

    pub(super) fn compact(&mut self, revision: u64) -> Result<(), Fault> {
        if revision <= self.keys.floor {
            return Err(Fault::Compacted);
        } else if revision > self.durable {
            return Err(Fault::Future);
        }
        self.aside(Aside::Floor, Some(aside::number(revision.cast_signed())), Undo::Floor);
        Ok(())
    }

    pub(super) fn idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// What goes to the log next. A transaction is never taken apart.
    pub(super) fn send(&mut self) -> Vec<Record> {
        let (mut bytes, mut count) = (0, 0);
        for step in &self.pending {
            let apart = count > 0
                && step.record.lineage.revision != self.pending[count - 1].record.lineage.revision;
            bytes += step.record.key.len() + step.record.bytes.as_ref().map_or(0, Bytes::len);
            if apart && bytes > BATCH {
                break;
            }
            count += 1;
        }
        let rest = self.pending.split_off(count);
        self.sent = mem::replace(&mut self.pending, rest);
        self.sent.iter().map(|step| step.record.clone()).collect()
    }

    /// What was sent is durable. Gives the revisions that can be seen now.
    pub(super) fn committed(&mut self) -> (u64, u64) {
        let before = self.durable;
        let sent = mem::take(&mut self.sent);
        if let Some(last) = sent.last() {
            (self.durable, self.durable_position) =
                (last.record.lineage.revision, last.record.revision);
        }
        for step in sent.iter().filter(|step| matches!(step.undo, Undo::Floor)) {
            let floor = step.record.bytes.as_deref().and_then(aside::to_number);
            let floor = floor.map_or(0, i64::cast_unsigned);
            if floor > self.keys.floor {
                self.keys.compact(floor);
            }
        }
        (before + 1, self.durable)
    }

    /// There was no room for what was sent: all that is not durable is taken back.
    pub(super) fn refused(&mut self) {
        let mut steps = mem::take(&mut self.sent);
        steps.append(&mut self.pending);
        steps.into_iter().rev().for_each(|step| self.take_back(step));
    }

    /// Takes in what the log holds.
    pub(super) fn replay(&mut self, record: Record, now: i64) -> Result<(), String> {
        let Record { revision: position, key, bytes, lineage, .. } = record;
        self.subs = if lineage.revision == self.revision { self.subs + 1 } else { 0 };
        (self.revision, self.position) = (lineage.revision.max(self.revision), position);
        match Aside::of(&key) {
            Some(Aside::Lease(id)) => match bytes.as_deref().and_then(aside::to_number) {
                Some(ttl) => drop(self.leases.grant(id, ttl, now)),
                None => drop(self.leases.0.remove(&id)),
            },
            Some(Aside::Alarm) => self.alarm = bytes.is_some(),
            Some(Aside::Floor) => {
                let floor =
                    bytes.as_deref().and_then(aside::to_number).map_or(0, i64::cast_unsigned);
                self.keys.floor = self.keys.floor.max(floor);
            }
            None if Aside::is(&key) => {
                return Err(format!("{key:?} was written by a newer release"));
            }
            None => {
                let key = aside::from_text(&key).ok_or_else(|| format!("{key:?} is no key"))?;
                let version = Version::new(&key, (position, self.subs), lineage, bytes.as_deref());
                let before = self.keys.push(&key, version);
                self.attach(&key, before.map_or(0, |before| before.lineage.lease), lineage.lease);
            }
        }
        Ok(())
    }

    /// All is read.
    pub(super) fn ready(&mut self, base: &Base) {
        self.position = self.position.max(base.through).max(FIRST);
        self.keys.floor_position = base.floor;
        if self.keys.floor > 0 {
            self.keys.compact(self.keys.floor);
        }
        // Where a snapshot was restored, leases come behind the keys that have them.
        if !self.leases.0.is_empty() {
            self.keys.leased().for_each(|(key, lease)| self.leases.attach(lease, key));
        }
        (self.durable, self.durable_position) = (self.revision, self.position);
    }

    /// The revision of the transaction that is being judged.
    fn write(&mut self) -> u64 {
        if !mem::replace(&mut self.writes, true) {
            self.revision += 1;
        }
        self.revision
    }

    fn change(&mut self, key: &Bytes, value: Option<&[u8]>, lineage: Lineage) -> Option<Version> {
        let place = (self.position + 1, self.subs);
        let version = Version::new(key, place, lineage, value);
        let record = self.record(aside::to_text(key), version.value.clone(), lineage);
        self.subs += 1;
        let before = self.keys.push(key, version);
        self.attach(key, before.as_ref().map_or(0, |before| before.lineage.lease), lineage.lease);
        self.pending.push(Step { record, undo: Undo::Key });
        before
    }

    fn aside(&mut self, what: Aside, bytes: Option<Bytes>, undo: Undo) {
        let record = self.record(what.key(), bytes, Lineage::new(self.revision));
        self.pending.push(Step { record, undo });
    }

    fn record(&mut self, key: object::Text, bytes: Option<Bytes>, lineage: Lineage) -> Record {
        self.position += 1;
        Record { revision: self.position, key, bytes, expires: None, note: None, lineage }
    }

    fn take_back(&mut self, Step { record, undo }: Step) {
        self.position = record.revision - 1;
        match undo {
            Undo::Key => {
                self.revision = record.lineage.revision - 1;
                if let Some((key, gone, back)) = self.keys.pop() {
                    self.attach(
                        &key,
                        gone.lineage.lease,
                        back.map_or(0, |back| back.lineage.lease),
                    );
                }
            }
            Undo::Lease(id, None) => drop(self.leases.0.remove(&id)),
            Undo::Lease(id, Some(lease)) => {
                self.leases.0.insert(id, Lease { keys: BTreeSet::new(), ..lease });
            }
            Undo::Alarm(before) => self.alarm = before,
            Undo::Floor => {}
        }
    }

    fn attach(&mut self, key: &Bytes, from: i64, to: i64) {
        if from != to {
            self.leases.detach(from, key);
            self.leases.attach(to, key);
        }
    }
}
