//! Parts that the cluster lacks: whoever writes an object that needs one hears that nothing will
//! come of it.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

use object::{Text, Value};
use schema::Part;

use crate::{Registry, ServedResource};

#[derive(Debug, Default)]
pub(super) struct Lacking(RwLock<BTreeSet<Text>>);

impl Registry {
    /// The cluster lacks these parts, by name.
    pub fn lack<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let names = names.into_iter().map(Text::from);
        self.lacking.0.write().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// A part of this name runs from now on.
    pub fn implement(&self, name: &str) {
        self.lacking.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// What is to be said about an object that needs what is not there.
    pub(super) fn unmet(&self, served: &ServedResource, object: &Value) -> Option<&'static str> {
        let part = served.internal.strategy.needs(object)?;
        self.lacks(part).then_some(part.lacking)
    }

    fn lacks(&self, part: &Part) -> bool {
        let known = self.lacking.0.read().unwrap_or_else(PoisonError::into_inner);
        known.contains(part.name) && !self.is_announced(part)
    }

    /// Whether somebody has brought the part, as an object says.
    fn is_announced(&self, part: &Part) -> bool {
        part.announced_by.is_some_and(|(group, plural)| {
            let kind = self.kind(group, plural);
            kind.is_ok_and(|kind| kind.objects().is_ok_and(|objects| !objects.is_empty()))
        })
    }
}
