//! Decoded values of writes in flight, so that the watch need not decode this process's own writes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use object::Text;

/// Maximum number of values; when it is reached, further values are decoded again.
const MOST: usize = 10_000;

type Kept<V> = HashMap<Text, (Bytes, V)>;

/// Decoded values by key, with the bytes that they were encoded to.
pub(crate) struct InFlightValues<V>(Mutex<Kept<V>>);

impl<V> Default for InFlightValues<V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<V> InFlightValues<V> {
    pub(crate) fn keep(&self, key: &Text, bytes: &Bytes, value: V) {
        let mut kept = self.kept();
        if kept.len() < MOST {
            kept.insert(key.clone(), (bytes.clone(), value));
        }
    }

    /// Takes the decoded value for these bytes, if they were written by this process.
    pub(crate) fn take(&self, key: &str, bytes: &Bytes) -> Option<V> {
        let mut kept = self.kept();
        kept.get(key).filter(|(other, _)| other == bytes)?;
        kept.remove(key).map(|(_, value)| value)
    }

    pub(crate) fn forget(&self, key: &str) {
        self.kept().remove(key);
    }

    fn kept(&self) -> MutexGuard<'_, Kept<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
