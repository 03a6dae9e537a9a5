//! A watch that goes on: from where it was when it is interrupted, and from the
//! beginning when that is too long ago.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use tokio::time::sleep;

use crate::{Api, ApiObject, Error, Selectors, Watch, WatchEvent, WatchStart};

/// How long to wait after the first failure; twice as long after each further one.
const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);

/// See `Api::watch_resuming`.
#[derive(Debug)]
pub struct ResumingWatch<K> {
    api: Api<K>,
    selection: Selectors,
    watch: Option<Watch<K>>,
    start: WatchStart,
    failures: u32,
}

/// What is told by a watch that goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchUpdate<K> {
    Event(WatchEvent<K>),
    /// Some of what happened is lost. All there is follows, up to a `Bookmark` that says
    /// `complete`; what is not among it is gone.
    Relist,
}

impl<K: ApiObject> Api<K> {
    /// Watches without an end. It begins with all there is, or after a revision.
    pub fn watch_resuming(&self, selection: &Selectors, start: WatchStart) -> ResumingWatch<K> {
        let (api, selection) = (self.clone(), selection.clone());
        ResumingWatch { api, selection, watch: None, start, failures: 0 }
    }
}

impl<K: ApiObject> ResumingWatch<K> {
    /// What happened next. An error does not pass by itself; to ask again is to try again.
    pub async fn next(&mut self) -> Result<WatchUpdate<K>, Error> {
        loop {
            let told = match &mut self.watch {
                Some(watch) => watch.next().await,
                None => match self.api.watch(&self.selection, self.start).await {
                    Ok(watch) => {
                        self.watch = Some(watch);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match told {
                Ok(Some(notice)) => {
                    self.failures = 0;
                    self.reached(&notice);
                    return Ok(WatchUpdate::Event(notice));
                }
                Ok(None) => self.watch = None, // the server's turn to end it
                Err(error) if error.is_gone() => {
                    self.watch = None;
                    self.start = WatchStart::List;
                    return Ok(WatchUpdate::Relist);
                }
                Err(error) if error.is_transient() => {
                    self.watch = None;
                    self.failures = self.failures.saturating_add(1);
                    sleep(backoff(self.failures)).await;
                }
                Err(error) => {
                    self.watch = None;
                    return Err(error);
                }
            }
        }
    }

    /// Goes on behind what has been told; a list that broke off begins anew.
    fn reached(&mut self, notice: &WatchEvent<K>) {
        let complete = matches!(notice, WatchEvent::Bookmark { complete: true, .. });
        if let Some(watch) = &self.watch
            && (complete || self.start != WatchStart::List)
        {
            self.start = WatchStart::After(watch.revision());
        }
    }
}

/// Not all clients come back at once.
fn backoff(failures: u32) -> Duration {
    let wait = (FIRST * 2u32.saturating_pow(failures.saturating_sub(1).min(10))).min(LONGEST);
    let part = u32::try_from(RandomState::new().hash_one(()) % 1000).unwrap_or_default();
    wait + wait * part / 1000
}
