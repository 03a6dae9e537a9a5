//! Creates and deletes the pods of workload controllers: records an event for each, and starts
//! slowly, so that a failure does not repeat for all.

use api::core::Pod;
use client::Error;
use futures_util::future::join_all;
use object::{Text, WriteCause};
use runtime::{CachedApi, Context, EventRecorder};
use schema::Kind;

/// API of the pods, and the event recorder of the controller.
#[derive(Debug)]
pub(crate) struct PodControl {
    pub(crate) objects: CachedApi<Pod>,
    pub(crate) events: EventRecorder,
}

impl PodControl {
    /// Records events as `component`.
    pub(crate) fn new(cx: &Context, component: &str) -> Self {
        Self { objects: cx.cached_api(), events: EventRecorder::start(cx, component, "") }
    }

    /// Creates a pod; `None` if its namespace is terminating.
    pub(crate) async fn create<O: Kind>(
        &self,
        owner: &O,
        pod: Pod,
        because: &WriteCause,
    ) -> Result<Option<Pod>, Error> {
        match self.objects.with_cause(because).create(pod).await {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.metadata().name());
                self.events.normal(owner, "SuccessfulCreate", message);
                Ok(Some(pod))
            }
            Err(error) if error.is_namespace_terminating() => Ok(None),
            Err(error) => {
                self.events.warning(owner, "FailedCreate", format!("Error creating: {error}"));
                Err(error)
            }
        }
    }

    /// Deletes a pod.
    pub(crate) async fn delete<O: Kind>(
        &self,
        owner: &O,
        pod: &Pod,
        because: &WriteCause,
    ) -> Result<(), Error> {
        let name = pod.metadata().name();
        match self.objects.with_cause(because).delete(pod).await {
            Ok(()) => {
                self.events.normal(owner, "SuccessfulDelete", format!("Deleted pod: {name}"));
                Ok(())
            }
            Err(error) => {
                self.events.warning(owner, "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }

    /// Deletes all pods, and returns the first error.
    pub(crate) async fn delete_all<O: Kind>(
        &self,
        owner: &O,
        pods: &[(Pod, WriteCause)],
    ) -> Result<(), Error> {
        let ended = pods.iter().map(|(pod, because)| self.delete(owner, pod, because));
        join_all(ended).await.into_iter().collect()
    }
}

/// Runs `act` in batches of one, two, four…; stops after a batch with an error.
pub(crate) async fn slow_start_batch<T, R, F: Future<Output = Result<R, Error>>>(
    items: Vec<T>,
    mut act: impl FnMut(T) -> F,
) -> Result<(), Error> {
    let (mut items, mut batch) = (items.into_iter(), 1);
    loop {
        let some: Vec<_> = items.by_ref().take(batch).map(&mut act).collect();
        if some.is_empty() {
            return Ok(());
        }
        join_all(some).await.into_iter().collect::<Result<Vec<_>, Error>>()?;
        batch = batch.saturating_mul(2);
    }
}

/// Sort key for the pods to keep: scheduled ones first, then the oldest.
pub(crate) fn preference_order(pod: &Pod) -> (bool, Text, Text) {
    let meta = pod.metadata();
    (!pod.is_scheduled(), meta.creation_timestamp().into(), meta.name().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_failure_ends_it() {
        let tried = std::cell::Cell::new(0);
        let done = slow_start_batch((0..100).collect(), |at| {
            tried.set(tried.get() + 1);
            async move { if at == 2 { Err(Error::Invalid("no".into())) } else { Ok(()) } }
        });
        assert!(done.await.is_err());
        assert_eq!(tried.get(), 3);
    }
}
