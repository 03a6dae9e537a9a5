//! A watch: a cursor in the event ring, filtered by a selection.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use object::{Status, Value};
use store::{Cursor, Event, Version};

use super::{ListOptions, ListResult, Registry, Selection, store_status};
use crate::{
    ServedResource,
    convert::{self, Converter},
};

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// With all current objects as `Added`; then, if requested, a bookmark that marks their end.
    List { bookmark: bool },
    /// After this revision.
    After(u64),
}

/// An event of a watch, with its revision.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    Added(u64, Arc<Version<Value>>),
    Modified(u64, Arc<Version<Value>>),
    /// The object was deleted or is no longer selected; contains its last state.
    Deleted(u64, Arc<Version<Value>>),
    /// The bookmark after all initial objects have been sent.
    InitialEventsEnd(u64),
}

/// An open watch.
#[derive(Debug)]
pub struct Watch {
    scope: Arc<WatchScope>,
    listed: vec::IntoIter<WatchEvent>,
    /// The start revision. Events up to it are known to the client, even if this server receives
    /// them later than the server that the client read from.
    after: u64,
    cursor: Cursor<Value>,
    /// Events whose objects are being converted by the webhook.
    pending_conversion: Option<Asked>,
    tells_all: bool,
}

/// What is watched, and the converter for its objects.
#[derive(Debug)]
struct WatchScope {
    served: ServedResource,
    selection: Selection,
    converter: Option<Arc<dyn Converter>>,
}

type Stored = Arc<Version<Value>>;
type Asking = Pin<Box<dyn Future<Output = Result<Vec<WatchEvent>, Status>> + Send>>;

/// A conversion in progress.
struct Asked(Asking);

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

impl Registry {
    /// Opens a watch.
    pub fn watch(
        &self,
        served: &ServedResource,
        selection: Selection,
        start: WatchStart,
    ) -> Result<Watch, Status> {
        let topic = selection.topic(served.presentation());
        let converter = self.converter.get().cloned();
        let scope = Arc::new(WatchScope { served: served.clone(), selection, converter });
        let (listed, asked, after) = match start {
            WatchStart::After(revision) => (Vec::new(), None, revision),
            WatchStart::List { bookmark } if served.needs_conversion_webhook() => {
                let list =
                    self.list(served, &scope.selection.lasting(), &ListOptions::default())?;
                let after = list.revision;
                let first: Asking = Box::pin(scope.clone().first(list, bookmark));
                (Vec::new(), Some(Asked(first)), after)
            }
            WatchStart::List { bookmark } => {
                let list = self.list(served, &scope.selection, &ListOptions::default())?;
                let after = list.revision;
                (added(list, bookmark), None, after)
            }
        };
        if let Some(begin) = self.history.get().filter(|begin| after < **begin) {
            return Err(Status::expired(format!("too old resource version: {after} ({begin})")));
        }
        let objects = served.objects()?;
        let cursor = Cursor::open(objects, topic, after.min(objects.progress_revision()));
        let cursor = cursor.map_err(|error| match error {
            store::Error::Compacted { floor } => {
                Status::expired(format!("too old resource version: {after} ({floor})"))
            }
            other => store_status(&other),
        })?;
        let tells_all = start == WatchStart::List { bookmark: true };
        Ok(Watch {
            scope,
            listed: listed.into_iter(),
            after,
            cursor,
            pending_conversion: asked,
            tells_all,
        })
    }
}

impl Watch {
    /// The watched resource.
    pub fn served(&self) -> &ServedResource {
        &self.scope.served
    }

    /// Whether it sends all initial objects and then a bookmark.
    pub(crate) fn sends_initial_events(&self) -> bool {
        self.tells_all
    }

    /// The revision up to which all events have been sent, once the watch is idle.
    pub fn complete_through(&self) -> u64 {
        self.served().cache.as_ref().map_or(0, |objects| objects.progress_revision())
    }

    /// The next event; `None` if the kind is no longer served, or by another definition.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, Status>>> {
        loop {
            if let Some(notice) = self.listed.next() {
                return Poll::Ready(Some(Ok(notice)));
            }
            if let Some(Asked(asking)) = &mut self.pending_conversion {
                let answer = ready!(asking.as_mut().poll(cx));
                self.pending_conversion = None;
                match answer {
                    Ok(notices) => self.listed = notices.into_iter(),
                    Err(status) => return Poll::Ready(Some(Err(status))),
                }
                continue;
            }
            let event = match ready!(self.cursor.poll_next(cx)) {
                Ok(event) if event.revision <= self.after => continue,
                Ok(event) => event,
                Err(store::Error::Closed) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(store_status(&error)))),
            };
            if self.served().needs_conversion_webhook() {
                self.pending_conversion = Some(Asked(Box::pin(self.scope.clone().ask(event))));
            } else if let Some(notice) =
                self.scope.notice(event.revision, event.old.as_ref(), event.new.as_ref())
            {
                return Poll::Ready(Some(Ok(notice)));
            }
        }
    }

    /// Waits for the next event.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Status>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl WatchScope {
    /// The initial events of a watch.
    async fn first(
        self: Arc<Self>,
        mut list: ListResult,
        bookmark: bool,
    ) -> Result<Vec<WatchEvent>, Status> {
        list.items = self.converted(list.items).await?;
        list.items.retain(|version| self.selection.matches(&self.served, &version.object));
        Ok(added(list, bookmark))
    }

    /// Converts the objects of an event, then filters it.
    async fn ask(self: Arc<Self>, event: Arc<Event<Value>>) -> Result<Vec<WatchEvent>, Status> {
        let both = event.old.iter().chain(&event.new).cloned().collect();
        let mut made = self.converted(both).await?.into_iter();
        let old = event.old.as_ref().and_then(|_| made.next());
        let notice = self.notice(event.revision, old.as_ref(), made.next().as_ref());
        Ok(notice.into_iter().collect())
    }

    async fn converted(&self, versions: Vec<Stored>) -> Result<Vec<Stored>, Status> {
        convert::converted(self.converter.as_ref(), &self.served.definition, versions).await
    }

    /// Filters an event. An object that starts to match the selection is `Added`, one that stops
    /// matching is `Deleted`, whatever the write was.
    fn notice(
        &self,
        revision: u64,
        old: Option<&Stored>,
        new: Option<&Stored>,
    ) -> Option<WatchEvent> {
        let selected = |version: &&Stored| self.selection.matches(&self.served, &version.object);
        match (old.filter(selected), new.filter(selected)) {
            (None, None) => None,
            (None, Some(new)) => Some(WatchEvent::Added(revision, new.clone())),
            (Some(_), Some(new)) => Some(WatchEvent::Modified(revision, new.clone())),
            (Some(old), None) => Some(WatchEvent::Deleted(revision, old.clone())),
        }
    }
}

fn added(list: ListResult, bookmark: bool) -> Vec<WatchEvent> {
    let items = list.items.into_iter();
    let added = items.map(|version| WatchEvent::Added(version.revision, version));
    added.chain(bookmark.then_some(WatchEvent::InitialEventsEnd(list.revision))).collect()
}
