//! What is judged and not yet durable, and how it is taken back.

use std::{
    io, mem,
    panic::resume_unwind,
    sync::Arc,
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::loaded_log::LoadedLog;
use crate::{
    Checkpoint, Error, KeyMetadata, KeyStates, Provenance, Record, Write,
    keys::{History, KeyIndex, KeyState},
};

/// What one batch may hold, unless it is a single write.
const BATCH: usize = 8 << 20;

pub(super) type WriteReply = oneshot::Sender<Result<u64, Error>>;

pub(super) struct WriteQueue<V> {
    keys: KeyIndex,
    past: History,
    pending: Batch<V>,
    pub(super) durable: u64,
    pub(super) broken: bool,
    pub(super) closing: bool,
    loading: Option<JoinHandle<(KeyIndex, History)>>,
}

/// What goes to the log at once, and who waits for it.
pub(super) struct Batch<V> {
    pub(super) records: Vec<Record>,
    /// As many.
    pub(super) pending: Vec<PendingWrite<V>>,
    /// Who lost against something that cannot be read yet.
    pub(super) conflicts: Vec<(Error, WriteReply)>,
}

/// What belongs to a record, and does not go to the log.
pub(super) struct PendingWrite<V> {
    pub(super) value: Option<V>,
    /// `None`: the engine's own.
    pub(super) answer: Option<WriteReply>,
    /// What the record replaces.
    before: Option<KeyState>,
}

impl<V> WriteQueue<V> {
    /// Goes on from what was read. If that is much it is looked through meanwhile, and
    /// whoever wants to write first waits for it.
    pub(super) fn load(loaded: &Arc<LoadedLog>) -> io::Result<Self> {
        let (mut loading, mut read) = (None, None);
        if loaded.is_large() {
            let (thread, loaded) =
                (thread::Builder::new().name("store-load".into()), loaded.clone());
            loading = Some(thread.spawn(move || panics::or_abort("store", || loaded.keys()))?);
        } else {
            read = Some(loaded.keys());
        }
        let (keys, past) = read.unwrap_or_default();
        let (pending, durable) = (Batch::default(), loaded.through());
        Ok(Self { keys, past, pending, durable, broken: false, closing: false, loading })
    }

    /// Waits until all that was read is looked through.
    pub(super) fn ready(&mut self) {
        if let Some(loading) = self.loading.take() {
            let read = loading.join();
            (self.keys, self.past) = read.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// Gives the write its place. A conflict is told only when what it lost against
    /// can be read: at once, or with the batch.
    pub(super) fn sequence(&mut self, write: Write<V>, now: i64, answer: WriteReply) {
        match self.keys.sequence(write, now) {
            Ok((record, value)) => self.push(record, value, Some(answer)),
            Err(error) => self.pending.conflicts.push((error, answer)),
        }
    }

    /// Deletes what has expired.
    pub(super) fn expire(&mut self, now: i64) {
        for key in self.keys.expired(now) {
            let revision = self.keys.revision + 1;
            let lineage = KeyMetadata::tombstone(revision);
            let record = Record { revision, key, bytes: None, expires: None, note: None, lineage };
            self.push(record, None, None);
        }
    }

    pub(super) fn idle(&self) -> bool {
        self.pending.records.is_empty() && self.pending.conflicts.is_empty()
    }

    pub(super) fn expires(&self) -> bool {
        self.keys.expires()
    }

    /// The next batch. Losers come with the last of those that were judged before.
    pub(super) fn take(&mut self) -> Batch<V> {
        let mut bytes = 0;
        let fits = |record: &&Record| {
            bytes += record.bytes.as_ref().map_or(0, Bytes::len);
            bytes <= BATCH
        };
        let count = self.pending.records.iter().take_while(fits).count().max(1);
        if count >= self.pending.records.len() {
            return mem::take(&mut self.pending);
        }
        let records = self.pending.records.split_off(count);
        let tickets = self.pending.pending.split_off(count);
        let losers = mem::take(&mut self.pending.conflicts);
        mem::replace(&mut self.pending, Batch { records, pending: tickets, conflicts: losers })
    }

    /// The keys as of `revision`, if that is the last that was judged.
    pub(super) fn heads(&self, revision: u64) -> Option<KeyStates> {
        (revision == self.keys.revision).then(|| self.keys.heads())
    }

    /// These are in the log.
    pub(super) fn appended(&mut self, records: &[Record]) {
        for record in records {
            self.past.apply(record);
        }
    }

    /// Everything as of the last append, when the keys were at `heads`.
    pub(super) fn image(&self, heads: KeyStates, revision: u64) -> Checkpoint {
        let (removals, notes) = (self.past.removals.clone(), self.past.notes.clone());
        Checkpoint { revision, floor: revision, heads: Some(heads), removals, notes }
    }

    /// There is no room for this batch. Takes back all that is not durable, and
    /// judges again what there is a reserve for, deletions above all; unless the batch
    /// had nothing else. Gives who is refused.
    pub(super) fn roll_back_full(&mut self, batch: Batch<V>) -> Vec<WriteReply> {
        let only_deletions = batch.records.iter().all(Record::may_use_reserve);
        let later = mem::take(&mut self.pending);
        let records = batch.records.into_iter().chain(later.records);
        let undone: Vec<_> = records.zip(batch.pending.into_iter().chain(later.pending)).collect();
        for (record, ticket) in undone.iter().rev() {
            self.keys.undo(record, ticket.before);
        }
        let losers = batch.conflicts.into_iter().chain(later.conflicts);
        let mut refused: Vec<_> = losers.map(|(_, answer)| answer).collect();
        for (record, ticket) in undone {
            let stands = ticket.before.is_some() && self.keys.head(&record.key) == ticket.before;
            if only_deletions || !record.may_use_reserve() || !stands {
                refused.extend(ticket.answer);
            } else {
                let revision = self.keys.revision + 1;
                let lineage = KeyMetadata { mod_revision: revision, ..record.lineage };
                self.push(Record { revision, lineage, ..record }, ticket.value, ticket.answer);
            }
        }
        refused
    }

    /// What the log holds is unknown: nothing more is taken. Who waits hears of it,
    /// since his answer is dropped.
    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
        self.pending = Batch::default();
    }

    pub(super) fn serve(&mut self, prefix: &str) {
        self.past.removals.serve(prefix);
    }

    pub(super) fn share_keys(&mut self, keys: &[Arc<str>]) {
        keys.iter().for_each(|key| self.keys.share(key));
    }

    pub(super) fn notes(&self, after: u64) -> Vec<Provenance> {
        self.past.notes(after)
    }

    fn push(&mut self, record: Record, value: Option<V>, answer: Option<WriteReply>) {
        let before = self.keys.apply(&record);
        self.pending.records.push(record);
        self.pending.pending.push(PendingWrite { value, answer, before });
    }
}

impl<V> Default for Batch<V> {
    fn default() -> Self {
        Self { records: Vec::new(), pending: Vec::new(), conflicts: Vec::new() }
    }
}
