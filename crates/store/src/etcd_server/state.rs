//! The state machine of the server: keys, leases and alarms, including writes that are not durable yet.

use std::{collections::BTreeSet, mem};

use bytes::Bytes;

use super::{
    fault::EtcdError,
    internal_keys::{self, InternalKey},
    keyspace::{Keyspace, Version},
    leases::{LONGEST, Lease, Leases},
    range::Range,
};
use crate::{KeyMetadata, LogBase, Record, engine::INITIAL_REVISION};

/// Maximum size of a batch in bytes, unless it is a single transaction.
const BATCH: usize = 8 << 20;

/// The state after all executed requests, durable or not.
#[derive(Debug)]
pub(super) struct State {
    pub(super) keys: Keyspace,
    pub(super) leases: Leases,
    /// Whether the NOSPACE alarm is raised: the quota was exceeded, and the alarm has not been disarmed.
    pub(super) alarm: bool,
    pub(super) quota: u64,
    /// The newest revision that was assigned, and the end of the log after it.
    pub(super) revision: u64,
    position: u64,
    /// The newest durable revision, and its log position.
    pub(super) durable: u64,
    durable_position: u64,
    /// Records that are being written to the log, and records that wait for it.
    in_flight: Vec<UndoableRecord>,
    pending: Vec<UndoableRecord>,
    /// Number of changes in the current transaction.
    sub_revision: u32,
    writes: bool,
    /// Whether only requests that may use the space reserved for a full disk are allowed.
    reserve_only: bool,
}

/// A record, and how it is undone.
#[derive(Debug)]
struct UndoableRecord {
    record: Record,
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    Key,
    Lease(i64, Option<Lease>),
    Alarm(bool),
    /// Takes effect only when durable.
    Floor,
}

impl State {
    pub(super) fn new(quota: u64) -> Self {
        let (keys, leases, sent, pending) =
            (Keyspace::default(), Leases::default(), vec![], vec![]);
        let (revision, position, durable, durable_position) =
            (INITIAL_REVISION, INITIAL_REVISION, INITIAL_REVISION, INITIAL_REVISION);
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
            in_flight: sent,
            pending,
            sub_revision: subs,
            writes,
            reserve_only: spare,
        }
    }

    /// Executes a request. If it fails, all its changes are undone.
    pub(super) fn execute<T>(
        &mut self,
        spare: bool,
        request: impl FnOnce(&mut Self) -> Result<T, EtcdError>,
    ) -> Result<T, EtcdError> {
        (self.reserve_only, self.writes, self.sub_revision) = (spare, false, 0);
        let mark = self.pending.len();
        let done = request(self);
        if done.is_err() {
            for step in self.pending.split_off(mark).into_iter().rev() {
                self.undo(step);
            }
        }
        done
    }

    /// The log position that must be durable before the last request may be answered.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn durable_position(&self) -> u64 {
        self.durable_position
    }

    /// The revision that the current request reads at, which includes its own writes.
    pub(super) fn now(&self) -> u64 {
        self.revision
    }

    pub(super) fn put(
        &mut self,
        key: &Bytes,
        value: &[u8],
        lease: i64,
    ) -> Result<Option<Version>, EtcdError> {
        if self.alarm || self.reserve_only {
            return Err(EtcdError::NoSpace);
        }
        let size = (key.len() + value.len() + size_of::<Version>()) as u64;
        if self.quota > 0 && self.keys.bytes + size > self.quota {
            return Err(EtcdError::Quota);
        } else if lease != 0 && !self.leases.0.contains_key(&lease) {
            return Err(EtcdError::LeaseNotFound);
        }
        let revision = self.write();
        let before = self.keys.at(key, revision).map(|before| before.lineage);
        let lineage = before.map_or(KeyMetadata::new(revision), |before| before.next(revision));
        Ok(self.change(key, Some(value), KeyMetadata { lease, ..lineage }))
    }

    /// Deletes the keys of a range. Returns what they were.
    pub(super) fn delete(&mut self, range: &Range) -> Vec<(Bytes, Version)> {
        let there: Vec<_> =
            self.keys.range(range, self.now()).map(|(key, _)| key.clone()).collect();
        if there.is_empty() {
            return Vec::new();
        }
        let revision = self.write();
        let gone = there.into_iter().filter_map(|key| {
            let before = self.change(&key, None, KeyMetadata::tombstone(revision))?;
            Some((key, before))
        });
        gone.collect()
    }

    /// Grants a lease and returns its TTL.
    pub(super) fn grant(&mut self, id: i64, ttl: i64, now: i64) -> Result<i64, EtcdError> {
        if self.alarm || self.reserve_only {
            return Err(EtcdError::NoSpace);
        } else if ttl > LONGEST {
            return Err(EtcdError::TtlTooLarge);
        } else if self.leases.0.contains_key(&id) {
            return Err(EtcdError::LeaseExists);
        }
        let ttl = self.leases.grant(id, ttl, now);
        self.aside(InternalKey::Lease(id), Some(internal_keys::number(ttl)), Undo::Lease(id, None));
        Ok(ttl)
    }

    /// Revokes a lease and deletes its keys.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), EtcdError> {
        let keys = self.leases.0.get(&id).ok_or(EtcdError::LeaseNotFound)?.keys.clone();
        for key in keys {
            self.delete(&Range::new(key, Bytes::new()));
        }
        let lease = self.leases.0.remove(&id);
        self.aside(InternalKey::Lease(id), None, Undo::Lease(id, lease));
        Ok(())
    }

    pub(super) fn set_alarm(&mut self, on: bool) {
        if self.alarm != on {
            let before = mem::replace(&mut self.alarm, on);
            self.aside(InternalKey::Alarm, on.then(Bytes::new), Undo::Alarm(before));
        }
    }

    pub(super) fn compact(&mut self, revision: u64) -> Result<(), EtcdError> {
        if revision <= self.keys.compact_revision {
            return Err(EtcdError::Compacted);
        } else if revision > self.durable {
            return Err(EtcdError::Future);
        }
        self.aside(
            InternalKey::Floor,
            Some(internal_keys::number(revision.cast_signed())),
            Undo::Floor,
        );
        Ok(())
    }

    pub(super) fn idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The next batch for the log. A transaction is never split.
    pub(super) fn take_batch(&mut self) -> Vec<Record> {
        let (mut bytes, mut count) = (0, 0);
        for step in &self.pending {
            let apart = count > 0
                && step.record.lineage.mod_revision
                    != self.pending[count - 1].record.lineage.mod_revision;
            bytes += step.record.key.len() + step.record.bytes.as_ref().map_or(0, Bytes::len);
            if apart && bytes > BATCH {
                break;
            }
            count += 1;
        }
        let rest = self.pending.split_off(count);
        self.in_flight = mem::replace(&mut self.pending, rest);
        self.in_flight.iter().map(|step| step.record.clone()).collect()
    }

    /// The batch in flight is durable. Returns the range of revisions that are now visible.
    pub(super) fn committed(&mut self) -> (u64, u64) {
        let before = self.durable;
        let sent = mem::take(&mut self.in_flight);
        if let Some(last) = sent.last() {
            (self.durable, self.durable_position) =
                (last.record.lineage.mod_revision, last.record.revision);
        }
        for step in sent.iter().filter(|step| matches!(step.undo, Undo::Floor)) {
            let floor = step.record.bytes.as_deref().and_then(internal_keys::to_number);
            let floor = floor.map_or(0, i64::cast_unsigned);
            if floor > self.keys.compact_revision {
                self.keys.compact(floor);
            }
        }
        (before + 1, self.durable)
    }

    /// Undoes everything that is not durable, because the disk is full.
    pub(super) fn roll_back(&mut self) {
        let mut steps = mem::take(&mut self.in_flight);
        steps.append(&mut self.pending);
        steps.into_iter().rev().for_each(|step| self.undo(step));
    }

    /// Replays a record of the log.
    pub(super) fn replay(&mut self, record: Record, now: i64) -> Result<(), String> {
        let Record { revision: position, key, bytes, lineage, .. } = record;
        self.sub_revision =
            if lineage.mod_revision == self.revision { self.sub_revision + 1 } else { 0 };
        (self.revision, self.position) = (lineage.mod_revision.max(self.revision), position);
        match InternalKey::of(&key) {
            Some(InternalKey::Lease(id)) => {
                match bytes.as_deref().and_then(internal_keys::to_number) {
                    Some(ttl) => drop(self.leases.grant(id, ttl, now)),
                    None => drop(self.leases.0.remove(&id)),
                }
            }
            Some(InternalKey::Alarm) => self.alarm = bytes.is_some(),
            Some(InternalKey::Floor) => {
                let floor = bytes
                    .as_deref()
                    .and_then(internal_keys::to_number)
                    .map_or(0, i64::cast_unsigned);
                self.keys.compact_revision = self.keys.compact_revision.max(floor);
            }
            None if InternalKey::is(&key) => {
                return Err(format!("{key:?} was written by a newer release"));
            }
            None => {
                let key = internal_keys::key_from_text(&key)
                    .ok_or_else(|| format!("{key:?} is no key"))?;
                let version =
                    Version::new(&key, (position, self.sub_revision), lineage, bytes.as_deref());
                let before = self.keys.push(&key, version);
                self.attach(&key, before.map_or(0, |before| before.lineage.lease), lineage.lease);
            }
        }
        Ok(())
    }

    /// Completes the replay of the log.
    pub(super) fn ready(&mut self, base: &LogBase) {
        self.position = self.position.max(base.end_revision).max(INITIAL_REVISION);
        self.keys.floor_position = base.floor;
        if self.keys.compact_revision > 0 {
            self.keys.compact(self.keys.compact_revision);
        }
        // In a restored store, leases come after the keys that are attached to them.
        if !self.leases.0.is_empty() {
            self.keys.leased().for_each(|(key, lease)| self.leases.attach(lease, key));
        }
        (self.durable, self.durable_position) = (self.revision, self.position);
    }

    /// The revision of the current transaction.
    fn write(&mut self) -> u64 {
        if !mem::replace(&mut self.writes, true) {
            self.revision += 1;
        }
        self.revision
    }

    fn change(
        &mut self,
        key: &Bytes,
        value: Option<&[u8]>,
        lineage: KeyMetadata,
    ) -> Option<Version> {
        let place = (self.position + 1, self.sub_revision);
        let version = Version::new(key, place, lineage, value);
        let record = self.record(internal_keys::key_to_text(key), version.value.clone(), lineage);
        self.sub_revision += 1;
        let before = self.keys.push(key, version);
        self.attach(key, before.as_ref().map_or(0, |before| before.lineage.lease), lineage.lease);
        self.pending.push(UndoableRecord { record, undo: Undo::Key });
        before
    }

    fn aside(&mut self, what: InternalKey, bytes: Option<Bytes>, undo: Undo) {
        let record = self.record(what.key(), bytes, KeyMetadata::new(self.revision));
        self.pending.push(UndoableRecord { record, undo });
    }

    fn record(&mut self, key: object::Text, bytes: Option<Bytes>, lineage: KeyMetadata) -> Record {
        self.position += 1;
        Record { revision: self.position, key, bytes, expires: None, note: None, lineage }
    }

    fn undo(&mut self, UndoableRecord { record, undo }: UndoableRecord) {
        self.position = record.revision - 1;
        match undo {
            Undo::Key => {
                self.revision = record.lineage.mod_revision - 1;
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
