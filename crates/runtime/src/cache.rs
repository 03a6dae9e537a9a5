//! A local copy of every object of one kind, kept current by a watch and by the
//! answers to its owner's own writes. What follows from either is decided in
//! `Known`; here is the rest.
//!
//! Handlers hear of each change once and in order, whoever made it. Objects are
//! handles to shared trees: giving one out copies a pointer.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use client::{Api, Deletion, Error, Notice, Selection, Start, Watch};
use object::{Key, Status, Text};
use schema::Kind;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use crate::{
    Cached, Retry,
    indexed::OWNER,
    known::{Change, Known},
};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A watch that ends sooner has not gone well, whatever the server says.
const SHORT: Duration = Duration::from_secs(1);

/// Gets what was and what is. May read the cache, but not write to it.
type Handler<K> = Box<dyn Fn(Option<&K>, Option<&K>) + Send>;

pub struct Cache<K> {
    known: Mutex<Known<K>>,
    /// Locked first, and until all have heard.
    handlers: Mutex<Vec<Handler<K>>>,
    synced: watch::Sender<bool>,
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            handlers: Mutex::default(),
            synced: watch::channel(false).0,
        }
    }
}

impl<K: Cached> Cache<K> {
    pub fn get(&self, key: &Key) -> Option<K> {
        self.known().objects.get(key).cloned()
    }

    pub fn all(&self) -> Vec<K> {
        self.known().objects.iter().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.known().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<K> {
        self.known().objects.of_namespace(namespace).cloned().collect()
    }

    /// The objects that have `value` in an index which their kind declares, or
    /// which was added.
    pub fn by(&self, index: &'static str, value: &str) -> Vec<K> {
        self.known().objects.by(index, value)
    }

    /// Adds an index that only this process needs.
    pub fn add_index(&self, name: &'static str, of: fn(&K) -> Vec<Text>) {
        self.known().objects.add_index(name, of);
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
        let mut handlers = self.handlers.lock().expect("not poisoned");
        for object in &self.all() {
            handler(None, Some(object));
        }
        handlers.push(Box::new(handler));
    }

    /// Turns true after the first list.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Takes in the answer to our own write.
    pub fn wrote(&self, object: &K) {
        self.change(|known| known.wrote(object));
    }

    /// Takes in the answer to our own delete of `object`.
    pub fn deleted(&self, object: &K, answer: &Deletion<K>) {
        self.change(|known| match answer {
            Deletion::Terminating(object) => known.wrote(object),
            Deletion::Gone(_) => known.gone(object),
        });
    }

    /// Follows the server for ever, through whatever happens to it.
    pub(crate) async fn run(&self, api: Api<K>, selection: Selection) {
        let kind = api.resource().kind.clone();
        let mut retry = Retry::new(FIRST_RETRY, LAST_RETRY);
        let mut start = Start::List;
        loop {
            let began = Instant::now();
            let ended = self.follow(&api, &selection, start, &mut retry).await;
            let synced = *self.synced.borrow();
            let lost = ended.as_ref().is_err_and(Error::is_gone) || !synced;
            start = if lost { Start::List } else { Start::After(self.known().seen) };
            match ended {
                Ok(()) if began.elapsed() >= SHORT => continue,
                Ok(()) => debug!(%kind, "the watch ended soon; will go on"),
                Err(error) => warn!(%kind, %error, "the watch broke; will go on"),
            }
            sleep(retry.pause()).await;
        }
    }

    /// Until the server ends the watch, or it breaks.
    async fn follow(
        &self,
        api: &Api<K>,
        selection: &Selection,
        start: Start,
        retry: &mut Retry,
    ) -> Result<(), Error> {
        let mut watch = api.watch(selection, start).await?;
        if start == Start::List {
            self.fill(&mut watch).await?;
            retry.reset();
        }
        while let Some(notice) = watch.next().await? {
            retry.reset();
            self.change(|known| known.apply(&notice));
        }
        Ok(())
    }

    /// Reads the list that the watch begins with.
    async fn fill(&self, watch: &mut Watch<K>) -> Result<(), Error> {
        let mut items = Vec::new();
        let revision = loop {
            match watch.next().await? {
                Some(Notice::Bookmark { revision, complete: true }) => break revision,
                Some(Notice::Added(item) | Notice::Modified(item)) => items.push(item),
                Some(Notice::Bookmark { .. } | Notice::Deleted(_)) => {}
                None => return Err(Error::Unavailable("the list ended half way".into())),
            }
        };
        if revision < self.known().seen {
            // a server that lags; ask again
            return Err(Error::Status(Status::expired("the list is older than what is known")));
        }
        self.change(|known| known.replace(revision, &items));
        self.synced.send_replace(true);
        Ok(())
    }

    fn change<C: IntoIterator<Item = Change<K>>>(&self, change: impl FnOnce(&mut Known<K>) -> C) {
        let handlers = self.handlers.lock().expect("not poisoned");
        let changes = change(&mut self.known());
        for (old, new) in changes {
            handlers.iter().for_each(|handler| handler(old.as_ref(), new.as_ref()));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known<K>> {
        self.known.lock().expect("not poisoned")
    }
}
