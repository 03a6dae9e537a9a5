//! The objects of one kind in this process: a typed view of a local copy.
//!
//! Handlers hear of each change once and in order, whoever made it. Objects are
//! handles to shared trees: giving one out copies a pointer.

use std::{fmt, marker::PhantomData, sync::Arc};

use client::Deletion;
use object::{Key, Text};
use schema::Kind;
use tokio::sync::watch;

use crate::{Any, Cached, indexed::OWNER, local::Local};

pub struct Cache<K> {
    local: Arc<Local>,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

impl<K: Cached> Cache<K> {
    pub(crate) fn new(local: Arc<Local>) -> Self {
        Self { local, kind: PhantomData }
    }

    pub fn get(&self, key: &Key) -> Option<K> {
        self.local.known().objects.get(key).cloned().map(Any::typed)
    }

    pub fn all(&self) -> Vec<K> {
        typed(self.local.all())
    }

    pub fn len(&self) -> usize {
        self.local.known().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<K> {
        typed(self.local.in_namespace(namespace))
    }

    /// The objects that have `value` in an index which their kind declares, or
    /// which was added.
    pub fn by(&self, index: &'static str, value: &str) -> Vec<K> {
        typed(self.local.known().objects.by(index, value))
    }

    /// Adds an index that only this process needs.
    pub fn add_index(&self, name: &'static str, of: fn(&K) -> Vec<Text>) {
        self.local.known().objects.add_index(name, Box::new(move |object| of(object.view())));
    }

    /// The objects that the one with this uid controls.
    pub fn controlled_by(&self, uid: &str) -> Vec<K> {
        self.by(OWNER, uid)
    }

    /// The objects `owner` controls.
    pub fn owned_by<O: Kind>(&self, owner: &O) -> Vec<K> {
        self.controlled_by(owner.meta().uid())
    }

    /// Calls `handler` with all there is, and from now on with every change.
    pub fn on_change(&self, handler: impl Fn(Option<&K>, Option<&K>) + Send + 'static) {
        self.local.on_change(Box::new(move |old, new| {
            handler(old.map(Any::view), new.map(Any::view));
        }));
    }

    /// Turns true after the first list.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.local.synced()
    }

    /// Takes in the answer to our own write.
    pub fn wrote(&self, object: &K) {
        self.local.wrote(object.as_any());
    }

    /// Takes in the answer to our own delete of `object`.
    pub fn deleted(&self, object: &K, answer: &Deletion<K>) {
        match answer {
            Deletion::Terminating(object) => self.local.wrote(object.as_any()),
            Deletion::Gone(_) => self.local.gone(object.as_any()),
        }
    }
}

fn typed<K: Cached>(objects: Vec<Any>) -> Vec<K> {
    objects.into_iter().map(Any::typed).collect()
}
