//! The objects that a cache can hold: of a known kind, or of any kind.

use std::fmt::Debug;

use client::ApiObject;
use object::{Object, ObjectMeta, Text, Value, View};
use ref_cast::RefCast;
use schema::Kind;

/// An object with metadata and index values: a view of a `Value`.
pub trait Cacheable: ApiObject + Clone + Debug + Sync + RefCast<From = Value> {
    fn as_dynamic(&self) -> &DynamicObject;

    fn object_meta(&self) -> &ObjectMeta {
        self.as_dynamic().metadata()
    }

    /// Names and values of the indexes that its kind declares.
    fn index_values(&self) -> Vec<(&'static str, Text)>;
}

impl<K: Kind> Cacheable for K {
    fn as_dynamic(&self) -> &DynamicObject {
        DynamicObject::ref_cast(self.tree())
    }

    fn index_values(&self) -> Vec<(&'static str, Text)> {
        K::INDEXES.iter().map(|index| (index.name, (index.value)(self).into())).collect()
    }
}

/// An object of any kind, for components that handle all kinds, such as the garbage collector.
#[derive(Clone, Debug, Default, PartialEq, RefCast)]
#[repr(transparent)]
pub struct DynamicObject(Value);

impl DynamicObject {
    pub fn tree(&self) -> &Value {
        &self.0
    }

    pub fn metadata(&self) -> &ObjectMeta {
        Object::view(&self.0).metadata()
    }

    /// Whether the write that returned this object has removed it (its last finalizer is gone).
    pub(crate) fn is_removed(&self) -> bool {
        Object::view(&self.0).is_ready_for_removal()
    }

    /// The object as one of a kind.
    pub(crate) fn view<K: Cacheable>(&self) -> &K {
        K::ref_cast(&self.0)
    }

    pub(crate) fn typed<K: Cacheable>(self) -> K {
        K::from(self.0)
    }
}

impl From<Value> for DynamicObject {
    fn from(tree: Value) -> Self {
        Self(tree)
    }
}

impl From<DynamicObject> for Value {
    fn from(any: DynamicObject) -> Self {
        any.0
    }
}

impl Cacheable for DynamicObject {
    fn as_dynamic(&self) -> &DynamicObject {
        self
    }

    fn index_values(&self) -> Vec<(&'static str, Text)> {
        Vec::new()
    }
}
