//! What a cache can hold: objects of a known kind, or of any.

use std::fmt::Debug;

use client::Tree;
use object::{Object, ObjectMeta, Text, Value, View};
use schema::Kind;

/// An object with metadata, and what it is found by.
pub trait Cached: Tree + Clone + Debug + Sync {
    fn about(&self) -> &ObjectMeta;

    fn whole(&self) -> &Object;

    /// Names and values of the indexes that its kind declares.
    fn entries(&self) -> Vec<(&'static str, Text)>;
}

impl<K: Kind> Cached for K {
    fn about(&self) -> &ObjectMeta {
        self.meta()
    }

    fn whole(&self) -> &Object {
        Object::view(self.tree())
    }

    fn entries(&self) -> Vec<(&'static str, Text)> {
        K::INDEXES.iter().map(|index| (index.name, (index.of)(self).into())).collect()
    }
}

/// An object of whatever kind: for those who deal with all, as the garbage
/// collector does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Any(Value);

impl Any {
    pub fn tree(&self) -> &Value {
        &self.0
    }

    pub fn metadata(&self) -> &ObjectMeta {
        Object::view(&self.0).metadata()
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
    fn about(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn whole(&self) -> &Object {
        Object::view(&self.0)
    }

    fn entries(&self) -> Vec<(&'static str, Text)> {
        Vec::new()
    }
}
