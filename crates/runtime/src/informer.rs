//! The informer: a local copy of all objects of one resource, kept up to date by a watch and by the responses to this
//! process's own writes. `CacheState` decides how to merge the two. The informer is untyped, so that it is compiled
//! once; `Cache` adds the type.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use client::{Api, Error, Selectors, Watch, WatchEvent, WatchStart};
use object::Status;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use crate::{
    Backoff, DynamicObject,
    cache_state::{CacheState, ObjectChange},
    indexed::{IndexValuesFn, Indexer},
};

const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A watch that ends sooner counts as failed.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// Called with the old and the new object. May read the cache, but not write to it.
pub(super) type Handler = Box<dyn Fn(Option<&DynamicObject>, Option<&DynamicObject>) + Send>;

/// The local copy of one resource, its handlers and its sync state.
pub(super) struct Informer {
    state: Mutex<CacheState>,
    /// Locked first, and until all handlers have been called.
    handlers: Mutex<Vec<Handler>>,
    synced: watch::Sender<bool>,
}

impl Informer {
    /// Creates an informer whose objects have these index values.
    pub(super) fn new(entries: IndexValuesFn) -> Self {
        Self {
            state: Mutex::new(CacheState::new(Indexer::new(entries))),
            handlers: Mutex::default(),
            synced: watch::channel(false).0,
        }
    }

    pub(super) fn all(&self) -> Vec<DynamicObject> {
        self.state().objects.iter().cloned().collect()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<DynamicObject> {
        self.state().objects.in_namespace(namespace).cloned().collect()
    }

    pub(super) fn on_change(&self, handler: Handler) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for object in &self.all() {
            call(&handler, None, Some(object));
        }
        handlers.push(handler);
    }

    pub(super) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    pub(super) fn observe_write(&self, object: &DynamicObject) {
        self.update_and_notify(|known| known.apply_write(object).into_iter().collect());
    }

    pub(super) fn observe_removal(&self, object: &DynamicObject) {
        self.update_and_notify(|known| known.apply_removal(object).into_iter().collect());
    }

    /// Watches the resource for ever, with retries.
    pub(super) async fn run(&self, api: Api<DynamicObject>, selection: Selectors) {
        let kind = api.resource().kind.clone();
        let mut retry = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut start = WatchStart::List;
        loop {
            let began = Instant::now();
            let following = self.watch_until_end(&api, &selection, start, &mut retry);
            let ended = panics::contain("cache", following).await;
            let ended = ended.unwrap_or_else(|why| Err(Error::Invalid(why.to_string())));
            let synced = *self.synced.borrow();
            let lost = ended.as_ref().is_err_and(Error::is_gone) || !synced;
            start = if lost {
                WatchStart::List
            } else {
                WatchStart::After(self.state().watch_revision)
            };
            match ended {
                Ok(()) if began.elapsed() >= MIN_WATCH_DURATION => continue,
                Ok(()) => debug!(%kind, "watch ended early; restarting it after a back-off"),
                Err(error) => warn!(%kind, %error, "watch failed; restarting it after a back-off"),
            }
            sleep(retry.next_delay()).await;
        }
    }

    /// Watches until the server ends the watch, or it fails.
    async fn watch_until_end(
        &self,
        api: &Api<DynamicObject>,
        selection: &Selectors,
        start: WatchStart,
        retry: &mut Backoff,
    ) -> Result<(), Error> {
        let mut watch = api.watch(selection, start).await?;
        if start == WatchStart::List {
            self.read_initial_list(&mut watch).await?;
            retry.reset();
        }
        while let Some(notice) = watch.next().await? {
            retry.reset();
            self.update_and_notify(|known| known.apply_watch_event(&notice).into_iter().collect());
        }
        Ok(())
    }

    /// Reads the initial list of the watch.
    async fn read_initial_list(&self, watch: &mut Watch<DynamicObject>) -> Result<(), Error> {
        let mut items = Vec::new();
        let revision = loop {
            match watch.next().await? {
                Some(WatchEvent::Bookmark { revision, complete: true }) => break revision,
                Some(WatchEvent::Added(item) | WatchEvent::Modified(item)) => items.push(item),
                Some(WatchEvent::Bookmark { .. } | WatchEvent::Deleted(_)) => {}
                None => return Err(Error::Unavailable("the list ended half way".into())),
            }
        };
        if revision < self.state().watch_revision {
            // the server lags behind; retry
            return Err(Error::Status(Status::expired("the list is older than what is known")));
        }
        self.update_and_notify(|known| known.replace_with_list(revision, &items));
        self.synced.send_replace(true);
        Ok(())
    }

    fn update_and_notify(&self, change: impl FnOnce(&mut CacheState) -> Vec<ObjectChange>) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = change(&mut self.state());
        for (old, new) in changes {
            handlers.iter().for_each(|handler| call(handler, old.as_ref(), new.as_ref()));
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a handler. A panic does not affect the other handlers.
fn call(handler: &Handler, old: Option<&DynamicObject>, new: Option<&DynamicObject>) {
    let _ = panics::catch("cache handler", || handler(old, new)); // it is counted and logged
}
