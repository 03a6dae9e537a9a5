//! Some resources elsewhere: an engine for each, and one for all the others.

use std::{fmt, sync::Arc};

use crate::{Engine, Error, Note, Record, Resource, Take, Write, Writing};

/// Revisions are compared within one resource alone, so each may be in a store of its own.
#[derive(Debug)]
pub struct Split<V> {
    rest: Arc<dyn Engine<V>>,
    /// By prefix, each ending with a slash.
    apart: Vec<(String, Arc<dyn Engine<V>>)>,
}

impl<V: fmt::Debug + Send + Sync> Split<V> {
    pub fn new(rest: Arc<dyn Engine<V>>, apart: Vec<(String, Arc<dyn Engine<V>>)>) -> Self {
        Self { rest, apart }
    }

    fn of(&self, key: &str) -> &dyn Engine<V> {
        let found = self.apart.iter().find(|(prefix, _)| key.starts_with(prefix));
        &**found.map_or(&self.rest, |(_, engine)| engine)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Engine<V>>> {
        self.apart.iter().map(|(_, engine)| engine).chain([&self.rest])
    }
}

impl<V: fmt::Debug + Send + Sync> Engine<V> for Split<V> {
    fn write(&self, write: Write<V>) -> Writing<'_> {
        self.of(&write.key).write(write)
    }

    fn replay(&self, prefix: &str, room: usize, take: &mut Take<'_>) -> Result<(), Error> {
        self.of(prefix).replay(prefix, room, take)
    }

    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.of(prefix).replay_after(prefix, revision)
    }

    fn past(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.of(prefix).past(prefix, revision)
    }

    fn follow(&self, prefix: &str, after: u64, resource: &Arc<Resource<V>>) {
        self.of(prefix).follow(prefix, after, resource);
    }

    fn is_shared(&self) -> bool {
        self.all().any(|engine| engine.is_shared())
    }

    fn newest(&self, prefix: &str) -> Writing<'_> {
        self.of(prefix).newest(prefix)
    }

    /// What all of them have reached: nobody may forget more.
    fn durable(&self) -> u64 {
        self.all().map(|engine| engine.durable()).min().unwrap_or_default()
    }

    fn health(&self) -> Result<(), Error> {
        self.all().try_for_each(|engine| engine.health())
    }

    fn readiness(&self) -> Result<(), Error> {
        self.all().try_for_each(|engine| engine.readiness())
    }

    fn size(&self) -> Option<u64> {
        self.all().map(|engine| engine.size()).sum()
    }

    fn share_keys(&self, keys: &[Arc<str>]) {
        self.all().for_each(|engine| engine.share_keys(keys));
    }

    fn notes(&self, after: u64) -> Vec<Note> {
        self.all().flat_map(|engine| engine.notes(after)).collect()
    }
}
