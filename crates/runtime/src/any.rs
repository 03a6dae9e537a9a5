//! What a cache can hold: objects of a known kind, or of any.

use std::fmt::Debug;

use client::Tree;
use object::{Object, ObjectMeta, Text, Value, View};
use ref_cast::RefCast;
use schema::Kind;

/// An object with metadata, and what it is found by: a view of a tree.
pub trait Cached: Tree + Clone + Debug + Sync + RefCast<From = Value> {
    fn as_any(&self) -> &Any;

    fn about(&self) -> &ObjectMeta {
        self.as_any().metadata()
    }

    /// Names and values of the indexes that its kind declares.
    fn entries(&self) -> Vec<(&'static str, Text)>;
}

impl<K: Kind> Cached for K {
    fn as_any(&self) -> &Any {
        Any::ref_cast(self.tree())
    }

    fn entries(&self) -> Vec<(&'static str, Text)> {
        K::INDEXES.iter().map(|index| (index.name, (index.of)(self).into())).collect()
    }
}

/// An object of whatever kind: for those who deal with all, as the garbage
/// collector does.
#[derive(Clone, Debug, Default, PartialEq, RefCast)]
#[repr(transparent)]
pub struct Any(Value);

impl Any {
    pub fn tree(&self) -> &Value {
        &self.0
    }

    pub fn metadata(&self) -> &ObjectMeta {
        Object::view(&self.0).metadata()
    }

    /// Whether the server has removed it with the write that this came from.
    pub(crate) fn is_final(&self) -> bool {
        Object::view(&self.0).is_final()
    }

    /// The same, as one of a kind.
    pub(crate) fn view<K: Cached>(&self) -> &K {
        K::ref_cast(&self.0)
    }

    pub(crate) fn typed<K: Cached>(self) -> K {
        K::from(self.0)
    }
}

impl From<Value> for Any {
    fn from(tree: Value) -> Self {
        Self(tree)
    }
}

impl From<Any> for Value {
    fn from(any: Any) -> Self {
        any.0
    }
}

impl Cached for Any {
    fn as_any(&self) -> &Any {
        self
    }

    fn entries(&self) -> Vec<(&'static str, Text)> {
        Vec::new()
    }
}
