//! What a watch saw, to be compared with what was done.

use std::fmt::Debug;

use anyhow::{Result, bail};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;

/// A watch on the objects with the label `story`.
pub(crate) struct Seen<K>(BoxStream<'static, watcher::Result<Event<K>>>);

impl<K> Seen<K>
where
    K: Resource<DynamicType: Clone + Debug + Default>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    /// Begins, with the initial objects in a list or in the watch itself.
    pub(crate) async fn begin(api: &Api<K>, streaming: bool) -> Result<Self> {
        let config = watcher::Config::default().labels("story");
        let config = if streaming { config.streaming_lists() } else { config };
        Self::until_current(watcher(api.clone(), config)).await
    }

    async fn until_current(
        stream: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    ) -> Result<Self> {
        let mut seen = Self(stream.boxed());
        loop {
            match seen.0.next().await {
                Some(Ok(Event::InitDone)) => return Ok(seen),
                Some(Ok(_)) => {}
                other => bail!("no initial state but {other:?}"),
            }
        }
    }

    /// The next change has to be one to an object that `wanted` describes.
    pub(crate) async fn changed(&mut self, wanted: impl Fn(&K) -> bool) -> Result<K> {
        match self.0.next().await {
            Some(Ok(Event::Apply(object))) if wanted(&object) => Ok(object),
            other => bail!("the watch saw {other:?}"),
        }
    }

    /// The next change has to be that the object of this name is gone.
    pub(crate) async fn deleted(&mut self, name: &str) -> Result<()> {
        match self.0.next().await {
            Some(Ok(Event::Delete(object))) if object.meta().name.as_deref() == Some(name) => {
                Ok(())
            }
            other => bail!("the watch saw {other:?}"),
        }
    }
}
