//! Events as bytes, made once and shared by all who watch in the same form.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use object::Value;
use schema::Definition;
use store::Version;

use crate::negotiate::Format;

/// So many events are kept: watchers are rarely further apart.
const EVENTS: usize = 128;
/// And no larger ones than this, so that all of them fit into memory.
const LARGEST: usize = 256 << 10;

/// What bytes depend on. What is pointed to is kept, so that no pointer is used again.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) event: &'static str,
    pub(crate) revision: u64,
    pub(crate) version: Arc<Version<Value>>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) format: Format,
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.event == other.event
            && self.format == other.format
            && Arc::ptr_eq(&self.version, &other.version)
            && Arc::ptr_eq(&self.definition, &other.definition)
    }
}

#[derive(Default)]
pub(crate) struct Encodings {
    newest: Mutex<VecDeque<(Form, Bytes)>>,
}

impl fmt::Debug for Encodings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encodings")
    }
}

impl Encodings {
    /// The bytes of an event: those that another watcher has made, or new ones.
    pub(crate) fn get(&self, form: Form, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        let find = |newest: &VecDeque<(Form, Bytes)>| {
            newest.iter().rev().find(|(own, _)| *own == form).map(|(_, bytes)| bytes.clone())
        };
        if let Some(bytes) = find(&self.newest.lock().unwrap_or_else(PoisonError::into_inner)) {
            return bytes;
        }
        let bytes = Bytes::from(encode());
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() <= LARGEST && find(&newest).is_none() {
            newest.push_back((form, bytes.clone()));
            if newest.len() > EVENTS {
                newest.pop_front();
            }
        }
        bytes
    }
}
