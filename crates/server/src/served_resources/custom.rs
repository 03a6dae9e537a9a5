//! Registration of custom resources while the server runs.

use std::sync::Arc;

use object::{Value, compare_versions};
use schema::{ResourceDefinition, custom::CrdDefinitions};
use store::{Engine, Error, WatchCacheSet};

use super::{ServedResource, ServedResources, State, name_of, resource};
use crate::Transformer;

impl ServedResources {
    /// Serves a custom resource. If it was served before, watches of the previous definition end.
    /// It cannot replace a built-in kind.
    pub(crate) fn register_custom(
        &self,
        declared: CrdDefinitions,
        engine: &dyn Engine<Value>,
        mirror: &WatchCacheSet<Value>,
        transform: &Arc<dyn Transformer>,
    ) -> Result<(), Error> {
        let hub = Arc::new(declared.storage_version);
        if self.read().is_taken(&hub) {
            return Ok(());
        }
        let objects = resource(&hub, engine, mirror, transform)?;
        let mut state = self.write();
        state.forget(hub.names.group, hub.names.plural);
        let of = |definition: ResourceDefinition| {
            let stored = definition.names.version == hub.names.version;
            if stored { hub.clone() } else { Arc::new(definition) }
        };
        let versions: Arc<[_]> = declared.versions.into_iter().map(of).collect();
        let stored = ServedResource {
            definition: hub.clone(),
            internal: hub.clone(),
            storage_version: Some(hub.clone()),
            versions: versions.clone(),
            cache: Some(objects),
        };
        for definition in versions.iter().filter(|definition| definition.served) {
            let (definition, hub) = (definition.clone(), definition.clone());
            let served = ServedResource { definition, internal: hub, ..stored.clone() };
            if !state.by_name.contains_key(&name_of(&served)) {
                state.add(served);
            }
        }
        state.stored.insert((hub.names.group.into(), hub.names.plural.into()), stored);
        state.edition += 1;
        state.sort();
        Ok(())
    }

    /// A custom resource in its storage version, served or not.
    pub fn stored(&self, group: &str, plural: &str) -> Option<ServedResource> {
        self.read().stored.get(&(group.into(), plural.into())).cloned()
    }

    /// Stops serving a custom resource; its watches end.
    pub(crate) fn unregister_custom(
        &self,
        group: &str,
        plural: &str,
        mirror: &WatchCacheSet<Value>,
    ) {
        if self.write().forget(group, plural) {
            mirror.stop(&format!("/registry/{group}/{plural}/"));
        }
    }
}

impl State {
    /// Whether a built-in kind uses the same storage prefix.
    fn is_taken(&self, hub: &ResourceDefinition) -> bool {
        self.order.iter().any(|served| {
            served.definition.is_built_in() && served.internal.storage.prefix == hub.storage.prefix
        })
    }

    fn forget(&mut self, group: &str, plural: &str) -> bool {
        let is = |served: &ServedResource| {
            let names = &served.definition.names;
            served.definition.is_custom() && names.group == group && names.plural == plural
        };
        let gone = self.stored.remove(&(group.into(), plural.into())).is_some();
        self.order.retain(|served| !is(served));
        self.by_name.retain(|_, served| !is(served));
        self.edition += u64::from(gone);
        gone
    }

    /// Sorts built-in kinds first, in their order; then custom groups by name and versions by
    /// priority.
    fn sort(&mut self) {
        self.order.sort_by(|a, b| {
            let key = |served: &ServedResource| served.definition.is_custom();
            let (a_names, b_names) = (&a.definition.names, &b.definition.names);
            key(a).cmp(&key(b)).then_with(|| {
                if !key(a) {
                    return std::cmp::Ordering::Equal;
                }
                (a_names.group.cmp(b_names.group))
                    .then_with(|| compare_versions(b_names.version, a_names.version))
                    .then_with(|| a_names.plural.cmp(b_names.plural))
            })
        });
    }
}
