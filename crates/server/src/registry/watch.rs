//! A watch: a cursor, and what the selection makes of its events.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use object::{Status, Value};
use store::{Cursor, Event, Version};

use super::{Page, Registry, Selection, store_status};
use crate::{
    Served,
    convert::{self, Convert},
};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With all there is now, as `Added`; then, if asked for, a bookmark that says so.
    List { bookmark: bool },
    /// With what happened after this revision.
    After(u64),
}

/// What a watch says, with the revision of the event.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    Added(u64, Arc<Version<Value>>),
    Modified(u64, Arc<Version<Value>>),
    /// Gone, or no longer selected: what it last was.
    Deleted(u64, Arc<Version<Value>>),
    /// All that there was in the beginning has been told.
    Initial(u64),
}

#[derive(Debug)]
pub struct Watch {
    served: Served,
    selection: Selection,
    listed: vec::IntoIter<Notice>,
    /// Where it began. What is no later is known to the client, even if it is new to
    /// this server, which may lag behind the one that told the client.
    after: u64,
    cursor: Cursor<Value>,
    converter: Option<Arc<dyn Convert>>,
    /// A notice whose object somebody else is asked for.
    asked: Option<Asked>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Notice, Status>> + Send>>;

struct Asked(Asking);

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

impl Registry {
    pub fn watch(
        &self,
        served: &Served,
        selection: Selection,
        start: Start,
    ) -> Result<Watch, Status> {
        let (listed, after) = match start {
            Start::After(revision) => (Vec::new(), revision),
            Start::List { bookmark } => {
                let list = self.list(served, &selection, &Page::default())?;
                let items = list.items.into_iter();
                let added = items.map(|version| Notice::Added(version.revision, version));
                let end = bookmark.then_some(Notice::Initial(list.revision));
                (added.chain(end).collect(), list.revision)
            }
        };
        let topic = selection.topic(served.reader());
        let objects = served.objects()?;
        let cursor = Cursor::open(objects, topic, after.min(objects.complete_through()));
        let cursor = cursor.map_err(|error| match error {
            store::Error::Compacted { floor } => {
                Status::expired(format!("too old resource version: {after} ({floor})"))
            }
            other => store_status(&other),
        })?;
        let converter = self.converter.get().cloned();
        let (served, listed) = (served.clone(), listed.into_iter());
        Ok(Watch { served, selection, listed, after, cursor, converter, asked: None })
    }
}

impl Watch {
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// No event up to this revision is still to come, once the watch is idle.
    pub fn complete_through(&self) -> u64 {
        self.served.objects.as_ref().map_or(0, |objects| objects.complete_through())
    }

    /// The next notice; `None`: the kind is served in another form now, or no more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Notice, Status>>> {
        loop {
            if let Some(Asked(asking)) = &mut self.asked {
                let answer = ready!(asking.as_mut().poll(cx));
                self.asked = None;
                return Poll::Ready(Some(answer));
            }
            let notice = match ready!(self.poll_stored(cx)) {
                Some(Ok(notice)) => notice,
                ended => return Poll::Ready(ended),
            };
            if !self.served.asks() {
                return Poll::Ready(Some(Ok(notice)));
            }
            self.asked = Some(Asked(self.ask(notice)));
        }
    }

    /// The next notice, of an object as it is stored.
    fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Notice, Status>>> {
        if let Some(notice) = self.listed.next() {
            return Poll::Ready(Some(Ok(notice)));
        }
        loop {
            let event = match ready!(self.cursor.poll_next(cx)) {
                Ok(event) => event,
                Err(store::Error::Closed) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(store_status(&error)))),
            };
            if event.revision <= self.after {
                continue;
            }
            if let Some(notice) = self.notice(&event) {
                return Poll::Ready(Some(Ok(notice)));
            }
        }
    }

    /// The same notice, with its object in the version that is watched.
    fn ask(&self, notice: Notice) -> Asking {
        let (converter, served) = (self.converter.clone(), self.served.clone());
        Box::pin(async move {
            let convert = async |version| {
                let to = &served.definition;
                let mut made = convert::converted(converter.as_ref(), to, vec![version]).await?;
                made.pop().ok_or_else(|| Status::internal("a conversion gave nothing"))
            };
            Ok(match notice {
                Notice::Added(revision, version) => {
                    Notice::Added(revision, convert(version).await?)
                }
                Notice::Modified(revision, version) => {
                    Notice::Modified(revision, convert(version).await?)
                }
                Notice::Deleted(revision, version) => {
                    Notice::Deleted(revision, convert(version).await?)
                }
                Notice::Initial(revision) => Notice::Initial(revision),
            })
        })
    }

    /// The same, to wait for.
    pub async fn next(&mut self) -> Option<Result<Notice, Status>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// An object that comes into the selection is added to it, one that leaves is
    /// deleted from it, whatever has really happened to it.
    fn notice(&self, event: &Event<Value>) -> Option<Notice> {
        let selected =
            |version: &&Arc<Version<Value>>| self.selection.matches(&self.served, &version.object);
        let old = event.old.as_ref().filter(selected);
        let new = event.new.as_ref().filter(selected);
        let revision = event.revision;
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) => Some(Notice::Added(revision, new.clone())),
            (Some(_), Some(new)) => Some(Notice::Modified(revision, new.clone())),
            (Some(old), None) => Some(Notice::Deleted(revision, old.clone())),
        }
    }
}
