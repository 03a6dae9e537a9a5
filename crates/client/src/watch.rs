//! Watches.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    marker::PhantomData,
    time::Duration,
};

use bytes::BytesMut;
use object::{Object, Status, Value, View};
use tokio::time::{Instant, timeout_at};

use crate::{ApiObject, Error, Response, codec};

/// Maximum size of an event in bytes.
const LARGEST: usize = 32 << 20;
const SHORTEST: u64 = 300;
/// How long past its timeout a watch may stay open before the server counts as gone.
const SLACK: Duration = Duration::from_mins(1);

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// With all objects as `Added`, followed by a `Bookmark` with `complete`.
    List,
    /// After this revision.
    After(u64),
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<K> {
    Added(K),
    Modified(K),
    Deleted(K),
    /// All events up to `revision` have been delivered. `complete` marks the end of the initial list.
    Bookmark {
        revision: u64,
        complete: bool,
    },
}

/// A watch. The server ends it from time to time: start another one after `revision`.
#[derive(Debug)]
pub struct Watch<K> {
    answer: Response,
    read: BytesMut,
    /// How far `read` has been searched for a line end.
    searched: usize,
    first: VecDeque<WatchEvent<Value>>,
    revision: u64,
    until: Instant,
    kind: PhantomData<fn() -> K>,
}

impl<K: ApiObject> Watch<K> {
    pub(crate) fn new(answer: Response, revision: u64, seconds: u64) -> Self {
        Self {
            answer,
            read: BytesMut::new(),
            searched: 0,
            first: VecDeque::new(),
            revision,
            until: Instant::now() + Duration::from_secs(seconds) + SLACK,
            kind: PhantomData,
        }
    }

    /// The same watch, with these events first.
    pub(crate) fn with_initial_events(self, first: VecDeque<WatchEvent<Value>>) -> Self {
        Self { first, ..self }
    }

    /// The newest revision that has been delivered.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The next event; `None` if the server has ended the watch. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<WatchEvent<K>>, Error> {
        if let Some(notice) = self.first.pop_front() {
            return Ok(Some(notice.map(K::from)));
        }
        loop {
            if let Some(line) = self.line() {
                let notice = notice(&codec::decode(&line)?)?;
                self.revision = self.revision.max(notice.revision());
                return Ok(Some(notice.map(K::from)));
            }
            if self.read.len() > LARGEST {
                return Err(Error::Decode("an event is larger than 32 MiB".into()));
            }
            if self.read.is_empty() {
                self.read = BytesMut::new(); // a watch may be silent for long after a burst
            }
            match timeout_at(self.until, self.answer.chunk()).await {
                Err(_) => {
                    return Err(Error::unavailable(
                        "the watch received nothing, not even bookmarks",
                    ));
                }
                Ok(chunk) => match chunk? {
                    Some(chunk) => self.read.extend_from_slice(&chunk),
                    None => return Ok(None),
                },
            }
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let unsearched = self.read.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.read.len();
            return None;
        };
        let line = self.read.split_to(self.searched + at + 1);
        self.searched = 0;
        Some(line)
    }
}

impl<K> WatchEvent<K> {
    pub fn map<T>(self, change: impl FnOnce(K) -> T) -> WatchEvent<T> {
        match self {
            Self::Added(object) => WatchEvent::Added(change(object)),
            Self::Modified(object) => WatchEvent::Modified(change(object)),
            Self::Deleted(object) => WatchEvent::Deleted(change(object)),
            Self::Bookmark { revision, complete } => WatchEvent::Bookmark { revision, complete },
        }
    }
}

impl WatchEvent<Value> {
    fn revision(&self) -> u64 {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => {
                Object::view(object).metadata().revision()
            }
            Self::Bookmark { revision, .. } => *revision,
        }
    }
}

/// The timeout to request for a watch, with jitter so that not all watches end at once.
pub(crate) fn watch_timeout_seconds() -> u64 {
    SHORTEST + RandomState::new().hash_one(()) % SHORTEST
}

fn notice(event: &Value) -> Result<WatchEvent<Value>, Error> {
    let object = event["object"].clone();
    match event["type"].as_str().unwrap_or_default() {
        "ADDED" => Ok(WatchEvent::Added(object)),
        "MODIFIED" => Ok(WatchEvent::Modified(object)),
        "DELETED" => Ok(WatchEvent::Deleted(object)),
        "BOOKMARK" => {
            let meta = Object::view(&object).metadata();
            let complete = meta.annotations().get("k8s.io/initial-events-end") == Some("true");
            Ok(WatchEvent::Bookmark { revision: meta.revision(), complete })
        }
        "ERROR" => Err(Error::Status(Status::from(object))),
        other => Err(Error::Decode(format!("an event of type {other:?}"))),
    }
}
