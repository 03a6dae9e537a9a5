//! The cache of one kind: a typed view of an informer's objects.
//!
//! Handlers are called for each change once and in order, whoever made it. Objects share their values: handing one out
//! copies a pointer.

use std::{fmt, marker::PhantomData, sync::Arc};

use client::DeleteResult;
use object::{NamespacedName, Text};
use schema::Kind;
use tokio::sync::watch;

use crate::{Cacheable, DynamicObject, indexed::CONTROLLER_UID_INDEX, informer::Informer};

/// A typed view of an informer's objects.
pub struct Cache<K> {
    informer: Arc<Informer>,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

impl<K: Cacheable> Cache<K> {
    pub(crate) fn new(local: Arc<Informer>) -> Self {
        Self { informer: local, kind: PhantomData }
    }

    pub fn get(&self, key: &NamespacedName) -> Option<K> {
        self.informer.state().objects.get(key).cloned().map(DynamicObject::typed)
    }

    pub fn all(&self) -> Vec<K> {
        typed(self.informer.all())
    }

    pub fn len(&self) -> usize {
        self.informer.state().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<K> {
        typed(self.informer.in_namespace(namespace))
    }

    /// The objects with `value` in an index that their kind declares, or that was added.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<K> {
        typed(self.informer.state().objects.by_index(index, value))
    }

    /// Adds an index for this process only.
    pub fn add_index(&self, name: &'static str, of: fn(&K) -> Vec<Text>) {
        self.informer.state().objects.add_index(name, Box::new(move |object| of(object.view())));
    }

    /// The objects whose controller has this uid.
    pub fn controlled_by(&self, uid: &str) -> Vec<K> {
        self.by_index(CONTROLLER_UID_INDEX, uid)
    }

    /// The objects that `owner` controls.
    pub fn owned_by<O: Kind>(&self, owner: &O) -> Vec<K> {
        self.controlled_by(owner.meta().uid())
    }

    /// Calls `handler` with all current objects, and from now on with every change.
    pub fn on_change(&self, handler: impl Fn(Option<&K>, Option<&K>) + Send + 'static) {
        self.informer.on_change(Box::new(move |old, new| {
            handler(old.map(DynamicObject::view), new.map(DynamicObject::view));
        }));
    }

    /// Becomes true after the first list.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.informer.synced()
    }

    /// Applies the response to our own write.
    pub fn observe_write(&self, object: &K) {
        self.informer.observe_write(object.as_dynamic());
    }

    /// Applies the response to our own delete of `object`.
    pub fn observe_delete(&self, object: &K, answer: &DeleteResult<K>) {
        match answer {
            DeleteResult::Terminating(object) => self.informer.observe_write(object.as_dynamic()),
            DeleteResult::Gone(_) => self.informer.observe_removal(object.as_dynamic()),
        }
    }
}

fn typed<K: Cacheable>(objects: Vec<DynamicObject>) -> Vec<K> {
    objects.into_iter().map(DynamicObject::typed).collect()
}
