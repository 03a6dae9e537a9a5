//! An engine that routes some resources to other engines, as with `--etcd-servers-overrides`.

use std::{fmt, sync::Arc};

use crate::{Engine, Error, Provenance, Record, ReplaySink, WatchCache, Write, WriteFuture};

/// Engines by prefix, and a default. Revisions are compared only within one resource, so each may be in a store of its
/// own.
#[derive(Debug)]
pub struct RoutedEngine<V> {
    default: Arc<dyn Engine<V>>,
    /// By prefix, each with a trailing slash.
    overrides: Vec<(String, Arc<dyn Engine<V>>)>,
}

impl<V: fmt::Debug + Send + Sync> RoutedEngine<V> {
    pub fn new(rest: Arc<dyn Engine<V>>, apart: Vec<(String, Arc<dyn Engine<V>>)>) -> Self {
        Self { default: rest, overrides: apart }
    }

    fn engine_for(&self, key: &str) -> &dyn Engine<V> {
        let found = self.overrides.iter().find(|(prefix, _)| key.starts_with(prefix));
        &**found.map_or(&self.default, |(_, engine)| engine)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Engine<V>>> {
        self.overrides.iter().map(|(_, engine)| engine).chain([&self.default])
    }
}

impl<V: fmt::Debug + Send + Sync> Engine<V> for RoutedEngine<V> {
    fn write(&self, write: Write<V>) -> WriteFuture<'_> {
        self.engine_for(&write.key).write(write)
    }

    fn replay(&self, prefix: &str, room: usize, take: &mut ReplaySink<'_>) -> Result<(), Error> {
        self.engine_for(prefix).replay(prefix, room, take)
    }

    fn replay_after(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine_for(prefix).replay_after(prefix, revision)
    }

    fn list_at(&self, prefix: &str, revision: u64) -> Result<Vec<Record>, Error> {
        self.engine_for(prefix).list_at(prefix, revision)
    }

    fn start_watch(&self, prefix: &str, after: u64, resource: &Arc<WatchCache<V>>) {
        self.engine_for(prefix).start_watch(prefix, after, resource);
    }

    fn has_external_writers(&self) -> bool {
        self.all().any(|engine| engine.has_external_writers())
    }

    fn latest_revision(&self, prefix: &str) -> WriteFuture<'_> {
        self.engine_for(prefix).latest_revision(prefix)
    }

    /// The minimum over all engines, so that none compacts more than it has reached.
    fn durable_revision(&self) -> u64 {
        self.all().map(|engine| engine.durable_revision()).min().unwrap_or_default()
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

    fn provenance_after(&self, after: u64) -> Vec<Provenance> {
        self.all().flat_map(|engine| engine.provenance_after(after)).collect()
    }
}
