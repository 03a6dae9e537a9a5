//! Custom kinds come and go while the server runs.

use std::sync::Arc;

use object::{Value, compare_versions};
use schema::{Definition, custom::Declared};
use store::{Engine, Error, Mirror};

use super::{Kinds, Served, State, name_of, resource};
use crate::Transform;

impl Kinds {
    /// Serves a custom kind, anew if it was served before: watches of the earlier form
    /// end. What a built-in kind has taken stays with it.
    pub(crate) fn declare(
        &self,
        declared: Declared,
        engine: &dyn Engine<Value>,
        mirror: &Mirror<Value>,
        transform: &Arc<dyn Transform>,
    ) -> Result<(), Error> {
        let hub = Arc::new(declared.hub);
        if self.read().is_taken(&hub) {
            return Ok(());
        }
        let objects = resource(&hub, engine, mirror, transform)?;
        let mut state = self.write();
        state.forget(hub.names.group, hub.names.plural);
        let of = |definition: Definition| {
            let stored = definition.names.version == hub.names.version;
            if stored { hub.clone() } else { Arc::new(definition) }
        };
        let versions: Arc<[_]> = declared.versions.into_iter().map(of).collect();
        let stored = Served {
            definition: hub.clone(),
            hub: hub.clone(),
            kept: Some(hub.clone()),
            versions: versions.clone(),
            objects: Some(objects),
        };
        for definition in versions.iter().filter(|definition| definition.served) {
            let (definition, hub) = (definition.clone(), definition.clone());
            let served = Served { definition, hub, ..stored.clone() };
            if !state.by_name.contains_key(&name_of(&served)) {
                state.add(served);
            }
        }
        state.stored.insert((hub.names.group.into(), hub.names.plural.into()), stored);
        state.edition += 1;
        state.sort();
        Ok(())
    }

    /// A custom kind in the version in which it is stored, be that served or not.
    pub fn stored(&self, group: &str, plural: &str) -> Option<Served> {
        self.read().stored.get(&(group.into(), plural.into())).cloned()
    }

    /// Serves a custom kind no more; its watches end.
    pub(crate) fn withdraw(&self, group: &str, plural: &str, mirror: &Mirror<Value>) {
        if self.write().forget(group, plural) {
            mirror.cease(&format!("/registry/{group}/{plural}/"));
        }
    }
}

impl State {
    /// Whether a built-in kind is kept where this one would be.
    fn is_taken(&self, hub: &Definition) -> bool {
        self.order.iter().any(|served| {
            served.definition.custom.is_none() && served.hub.storage.prefix == hub.storage.prefix
        })
    }

    fn forget(&mut self, group: &str, plural: &str) -> bool {
        let is = |served: &Served| {
            let names = &served.definition.names;
            served.definition.custom.is_some() && names.group == group && names.plural == plural
        };
        let gone = self.stored.remove(&(group.into(), plural.into())).is_some();
        self.order.retain(|served| !is(served));
        self.by_name.retain(|_, served| !is(served));
        self.edition += u64::from(gone);
        gone
    }

    /// Built-in kinds first and as they are; then groups by name, versions by rank.
    fn sort(&mut self) {
        self.order.sort_by(|a, b| {
            let key = |served: &Served| served.definition.custom.is_some();
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
