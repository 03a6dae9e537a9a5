//! Cluster components that are not running. Writing an object that needs one of them produces a
//! warning that the object will have no effect.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

use object::{Text, Value};
use schema::Part;

use crate::{Registry, ServedResource};

/// The names of the missing components.
#[derive(Debug, Default)]
pub(super) struct Lacking(RwLock<BTreeSet<Text>>);

impl Registry {
    /// Declares components as missing, by name.
    pub fn lack<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let names = names.into_iter().map(Text::from);
        self.lacking.0.write().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// Declares that a component is running.
    pub fn implement(&self, name: &str) {
        self.lacking.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The warning for an object that needs a missing component.
    pub(super) fn unmet(&self, served: &ServedResource, object: &Value) -> Option<&'static str> {
        let part = served.internal.strategy.needs(object)?;
        self.lacks(part).then_some(part.lacking)
    }

    fn lacks(&self, part: &Part) -> bool {
        let known = self.lacking.0.read().unwrap_or_else(PoisonError::into_inner);
        known.contains(part.name) && !self.is_announced(part)
    }

    /// Whether a third-party implementation is installed: an object of the announcing kind exists.
    fn is_announced(&self, part: &Part) -> bool {
        part.announced_by.is_some_and(|(group, plural)| {
            let kind = self.kind(group, plural);
            kind.is_ok_and(|kind| kind.objects().is_ok_and(|objects| !objects.is_empty()))
        })
    }
}
