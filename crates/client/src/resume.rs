//! A watch that resumes by itself: at the last revision after an interruption, and with a new list if that revision is
//! too old.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use tokio::time::sleep;

use crate::{Api, ApiObject, Error, Selectors, Watch, WatchEvent, WatchStart};

/// Initial back-off after a failure; it doubles with each further failure.
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

/// An update of a resuming watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchUpdate<K> {
    Event(WatchEvent<K>),
    /// The watch could not be resumed, because its resourceVersion is too old. All objects follow as events, ending
    /// with a `Bookmark` whose `complete` is set; an object that is not among them has been deleted.
    Relist,
}

impl<K: ApiObject> Api<K> {
    /// Starts a watch without an end, with a list of all objects or after a revision.
    pub fn watch_resuming(&self, selection: &Selectors, start: WatchStart) -> ResumingWatch<K> {
        let (api, selection) = (self.clone(), selection.clone());
        ResumingWatch { api, selection, watch: None, start, failures: 0 }
    }
}

impl<K: ApiObject> ResumingWatch<K> {
    /// The next update. An error is not transient; calling again retries.
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
                Ok(None) => self.watch = None, // the server ends watches from time to time
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

    /// Records the revision to resume from; an interrupted list starts again.
    fn reached(&mut self, notice: &WatchEvent<K>) {
        let complete = matches!(notice, WatchEvent::Bookmark { complete: true, .. });
        if let Some(watch) = &self.watch
            && (complete || self.start != WatchStart::List)
        {
            self.start = WatchStart::After(watch.revision());
        }
    }
}

/// Exponential back-off with jitter, so that not all clients retry at once.
fn backoff(failures: u32) -> Duration {
    let wait = (FIRST * 2u32.saturating_pow(failures.saturating_sub(1).min(10))).min(LONGEST);
    let part = u32::try_from(RandomState::new().hash_one(()) % 1000).unwrap_or_default();
    wait + wait * part / 1000
}
