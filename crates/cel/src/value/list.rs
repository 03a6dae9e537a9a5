//! Lists: borrowed from an object, or created.

use std::sync::Arc;

use super::{Extent, Made, Value, equal, from_tree};
use crate::{
    decl_type::{DeclType, ListType},
    error::Error,
};

/// A list, borrowed from an object or created by an expression.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Tree {
        items: &'a [object::Value],
        /// The declaration of the items.
        node: Option<&'a DeclType>,
        merge: &'a ListType,
    },
    Owned(Arc<Made<Vec<Value<'a>>>>),
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        let extent = Extent::of(items.iter());
        Self::Owned(Arc::new(Made::new(items, extent)))
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tree { items, .. } => items.len(),
            Self::Owned(items) => items.len(),
        }
    }

    /// The item at `at`, if there is one.
    pub(crate) fn get(&self, at: usize) -> Option<Result<Value<'a>, Error>> {
        match self {
            Self::Tree { items, node, .. } => items.get(at).map(|item| from_tree(item, *node)),
            Self::Owned(items) => items.get(at).cloned().map(Ok),
        }
    }

    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>, Error> {
        match self {
            Self::Tree { items, node, .. } => {
                items.iter().map(|item| from_tree(item, *node)).collect()
            }
            Self::Owned(items) => Ok(items.to_vec()),
        }
    }

    /// Whether concatenation looks up each item among the existing ones (sets and map lists).
    pub(crate) fn is_merged(&self) -> bool {
        matches!(self, Self::Tree { merge, .. } if !matches!(merge, ListType::Atomic))
    }

    /// Concatenates two lists according to their list type.
    pub(crate) fn concat(self, other: &List<'a>) -> Result<List<'a>, Error> {
        let merge = if let Self::Tree { merge, .. } = &self { *merge } else { &ListType::Atomic };
        if let (ListType::Atomic, Self::Owned(mut items)) = (merge, self.clone()) {
            drop(self);
            let more = other.values()?;
            let extent = Extent::of(more.iter());
            Arc::make_mut(&mut items).change(extent, |items| items.extend(more));
            return Ok(Self::Owned(items));
        }
        let mut items = self.values()?;
        for item in other.values()? {
            let same = |old: &Value<'a>| match merge {
                ListType::Atomic => Ok(false),
                ListType::Set => equal(old, &item),
                ListType::Map(keys) => have_same_keys(old, &item, keys),
            };
            match position(&items, same)? {
                Some(at) if matches!(merge, ListType::Map(_)) => {
                    if let Some(known) = items.get_mut(at) {
                        *known = item;
                    }
                }
                Some(_) => {}
                None => items.push(item),
            }
        }
        Ok(items.into())
    }

    /// Whether the lists are equal; the order of sets and map lists is ignored.
    pub(crate) fn equal(&self, other: &List<'a>) -> Result<bool, Error> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let merge = if let Self::Tree { merge, .. } = self { *merge } else { &ListType::Atomic };
        if *merge == ListType::Atomic {
            for at in 0..self.len() {
                if let (Some(a), Some(b)) = (self.get(at), other.get(at))
                    && !equal(&a?, &b?)?
                {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut rest = self.values()?;
        for item in other.values()? {
            match position(&rest, |old| equal(old, &item))? {
                Some(at) => rest.swap_remove(at),
                None => return Ok(false),
            };
        }
        Ok(true)
    }
}

fn position<'a>(
    items: &[Value<'a>],
    same: impl Fn(&Value<'a>) -> Result<bool, Error>,
) -> Result<Option<usize>, Error> {
    for (at, item) in items.iter().enumerate() {
        if same(item)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn have_same_keys(a: &Value<'_>, b: &Value<'_>, keys: &[Arc<str>]) -> Result<bool, Error> {
    let (Value::Map(a), Value::Map(b)) = (a, b) else { return Ok(false) };
    for key in keys {
        let same = match (a.field(key), b.field(key)) {
            (Some(a), Some(b)) => equal(&a?, &b?)?,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}
