//! A local copy of every object of one resource, kept current by a watch and by the
//! answers to its owner's own writes. What follows from either is decided in
//! `Known`; here is the rest. Kinds are looked at by `Cache`: this is compiled once.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use client::{Api, Error, Notice, Selection, Start, Watch};
use object::Status;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use crate::{
    Any, Retry,
    indexed::{Entries, Indexed},
    known::{Change, Known},
};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// A watch that ends sooner has not gone well, whatever the server says.
const SHORT: Duration = Duration::from_secs(1);

/// Gets what was and what is. May read the copy, but not write to it.
pub(super) type Handler = Box<dyn Fn(Option<&Any>, Option<&Any>) + Send>;

pub(super) struct Local {
    known: Mutex<Known>,
    /// Locked first, and until all have heard.
    handlers: Mutex<Vec<Handler>>,
    synced: watch::Sender<bool>,
}

impl Local {
    /// Of objects that have these entries in the indexes of their kind.
    pub(super) fn new(entries: Entries) -> Self {
        Self {
            known: Mutex::new(Known::new(Indexed::new(entries))),
            handlers: Mutex::default(),
            synced: watch::channel(false).0,
        }
    }

    pub(super) fn all(&self) -> Vec<Any> {
        self.known().objects.iter().cloned().collect()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Any> {
        self.known().objects.of_namespace(namespace).cloned().collect()
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

    pub(super) fn wrote(&self, object: &Any) {
        self.change(|known| known.wrote(object).into_iter().collect());
    }

    pub(super) fn gone(&self, object: &Any) {
        self.change(|known| known.gone(object).into_iter().collect());
    }

    /// Follows the server for ever, through whatever happens to it.
    pub(super) async fn run(&self, api: Api<Any>, selection: Selection) {
        let kind = api.resource().kind.clone();
        let mut retry = Retry::new(FIRST_RETRY, LAST_RETRY);
        let mut start = Start::List;
        loop {
            let began = Instant::now();
            let following = self.follow(&api, &selection, start, &mut retry);
            let ended = panics::contain("cache", following).await;
            let ended = ended.unwrap_or_else(|why| Err(Error::Invalid(why.to_string())));
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
        api: &Api<Any>,
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
            self.change(|known| known.apply(&notice).into_iter().collect());
        }
        Ok(())
    }

    /// Reads the list that the watch begins with.
    async fn fill(&self, watch: &mut Watch<Any>) -> Result<(), Error> {
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

    fn change(&self, change: impl FnOnce(&mut Known) -> Vec<Change>) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = change(&mut self.known());
        for (old, new) in changes {
            handlers.iter().for_each(|handler| call(handler, old.as_ref(), new.as_ref()));
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One handler that panics keeps no other from hearing.
fn call(handler: &Handler, old: Option<&Any>, new: Option<&Any>) {
    let _ = panics::catch("cache handler", || handler(old, new)); // counted and logged
}
