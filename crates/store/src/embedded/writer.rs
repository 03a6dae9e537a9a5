//! The queue of writes that are sequenced but not durable yet, and its rollback.

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

/// Maximum size of a batch in bytes, unless it is a single write.
const BATCH: usize = 8 << 20;

pub(super) type WriteReply = oneshot::Sender<Result<u64, Error>>;

/// Sequences writes and collects them for the next batch.
pub(super) struct WriteQueue<V> {
    keys: KeyIndex,
    past: History,
    pending: Batch<V>,
    pub(super) durable: u64,
    pub(super) broken: bool,
    pub(super) closing: bool,
    loading: Option<JoinHandle<(KeyIndex, History)>>,
}

/// The records of one append, and the writers that wait for them.
pub(super) struct Batch<V> {
    pub(super) records: Vec<Record>,
    /// One per record, in the same order.
    pub(super) pending: Vec<PendingWrite<V>>,
    /// Failed writes whose conflicting record is not durable yet, so that it cannot be read.
    pub(super) conflicts: Vec<(Error, WriteReply)>,
}

/// The data of a pending write that does not go to the log.
pub(super) struct PendingWrite<V> {
    pub(super) value: Option<V>,
    /// `None` for the engine's own writes, such as expiry.
    pub(super) answer: Option<WriteReply>,
    /// The previous state of the key, for a rollback.
    before: Option<KeyState>,
}

impl<V> WriteQueue<V> {
    /// Builds the key index from the loaded records. A large log is indexed in a separate thread, and the first writer
    /// waits for it.
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

    /// Waits until the key index is built.
    pub(super) fn ready(&mut self) {
        if let Some(loading) = self.loading.take() {
            let read = loading.join();
            (self.keys, self.past) = read.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// Checks the precondition and assigns the revision. A conflict is reported only once the conflicting record can be
    /// read: at once, or together with its batch.
    pub(super) fn sequence(&mut self, write: Write<V>, now: i64, answer: WriteReply) {
        match self.keys.sequence(write, now) {
            Ok((record, value)) => self.push(record, value, Some(answer)),
            Err(error) => self.pending.conflicts.push((error, answer)),
        }
    }

    /// Deletes expired keys.
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

    /// Takes the next batch. Conflicts are answered with the last batch that was sequenced before them.
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

    /// The state of all keys at `revision`, if that is the last sequenced one.
    pub(super) fn heads(&self, revision: u64) -> Option<KeyStates> {
        (revision == self.keys.revision).then(|| self.keys.heads())
    }

    /// Adds records that are now in the log to the history.
    pub(super) fn appended(&mut self, records: &[Record]) {
        for record in records {
            self.past.apply(record);
        }
    }

    /// A checkpoint of the last append, when the state of the keys was `heads`.
    pub(super) fn image(&self, heads: KeyStates, revision: u64) -> Checkpoint {
        let (removals, notes) = (self.past.removals.clone(), self.past.notes.clone());
        Checkpoint { revision, floor: revision, heads: Some(heads), removals, notes }
    }

    /// Handles a full disk. Undoes all writes that are not durable and sequences those again that may use the reserve,
    /// mainly deletions, unless the batch contained nothing else. Returns the writers whose writes are rejected.
    pub(super) fn roll_back_full(
        &mut self,
        batch: Batch<V>,
        essential: &[&str],
    ) -> Vec<WriteReply> {
        let only_deletions = batch.records.iter().all(|record| record.may_use_reserve(essential));
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
            if only_deletions || !record.may_use_reserve(essential) || !stands {
                refused.extend(ticket.answer);
            } else {
                let revision = self.keys.revision + 1;
                let lineage = KeyMetadata { mod_revision: revision, ..record.lineage };
                self.push(Record { revision, lineage, ..record }, ticket.value, ticket.answer);
            }
        }
        refused
    }

    /// Rejects further writes, because the content of the log is unknown. Waiting writers notice when their reply
    /// channel is dropped.
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
