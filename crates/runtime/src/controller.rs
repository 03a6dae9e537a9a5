//! The controller: connects caches to a work queue, and the queue to a `Reconcile`.

use std::{future::Future, sync::Arc, time::Duration};

use client::{Error, Selectors};
use object::{NamespacedName, WriteCause};
use schema::Kind;
use tokio::time::sleep;
use tracing::{Instrument, debug, error, info_span, warn};

use crate::{Cache, Context, WorkQueue};

/// When to reconcile the object again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Requeue {
    /// When a watched object changes.
    OnChange,
    /// After this time, or earlier on a change.
    After(Duration),
}

/// Drives one object towards its desired state. Must be idempotent: it gets no event, only the object (`None` if it
/// does not exist), and may run at any time.
pub trait Reconcile: Send + Sync + 'static {
    type Kind: Kind;
    fn reconcile(
        &self,
        key: &NamespacedName,
        object: Option<Self::Kind>,
    ) -> impl Future<Output = Result<Requeue, Error>> + Send;
}

/// One action of a plan, and its cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<A> {
    pub action: A,
    pub cause: WriteCause,
}

/// A controller that is being set up; `start` runs it.
#[derive(Debug)]
pub struct Controller<R: Reconcile> {
    name: &'static str,
    reconciler: R,
    cx: Context,
    cache: Arc<Cache<R::Kind>>,
    queue: Arc<WorkQueue>,
    /// The name of the queue in metrics, where it is not the controller's.
    queue_name: &'static str,
    workers: usize,
}

impl<R: Reconcile> Controller<R> {
    pub fn new(name: &'static str, cx: &Context, reconciler: R) -> Self {
        Self::with_selectors(name, cx, &Selectors::default(), reconciler)
    }

    /// A controller that reconciles only the selected objects.
    pub fn with_selectors(
        name: &'static str,
        cx: &Context,
        selection: &Selectors,
        reconciler: R,
    ) -> Self {
        Self::with_cache(name, cx, &cx.cache_selected(selection), reconciler)
    }

    /// A controller that reconciles the objects of this cache.
    pub fn with_cache(
        name: &'static str,
        cx: &Context,
        cache: &Arc<Cache<R::Kind>>,
        reconciler: R,
    ) -> Self {
        let (cache, queue) = (cache.clone(), Arc::new(WorkQueue::default()));
        let keys = queue.clone();
        cache.on_change(move |old, new| {
            old.or(new)
                .into_iter()
                .for_each(|object| keys.add(NamespacedName::from_meta(object.meta())));
        });
        Self { name, reconciler, cx: cx.clone(), cache, queue, queue_name: name, workers: 5 }
    }

    /// Reconciles the controller of a `K` when that changes: the current and the previous one.
    #[must_use]
    pub fn owns<K: Kind>(self) -> Self {
        self.watches::<K>(|object| {
            let owner = object.meta().controller_ref();
            let owner = owner.filter(|owner| {
                let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
                owner.kind() == R::Kind::NAMES.kind && group == R::Kind::NAMES.group
            });
            owner
                .map(|owner| NamespacedName::new(object.meta().namespace(), owner.name()))
                .into_iter()
                .collect()
        })
    }

    /// Reconciles the objects that `keys` returns for a `K` when that changes, for its new and its old version.
    #[must_use]
    pub fn watches<K: Kind>(
        self,
        keys: impl Fn(&K) -> Vec<NamespacedName> + Send + Sync + 'static,
    ) -> Self {
        let queue = self.queue.clone();
        self.cx.cache::<K>().on_change(move |old, new| {
            let both = old.into_iter().chain(new);
            both.flat_map(&keys).for_each(|key| queue.add(key));
        });
        self
    }

    /// Also reconciles all objects periodically.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        let (cache, queue) = (self.cache.clone(), self.queue.clone());
        self.cx.spawn(self.name, async move {
            loop {
                sleep(period).await;
                cache
                    .all()
                    .iter()
                    .for_each(|object| queue.add(NamespacedName::from_meta(object.meta())));
            }
        });
        self
    }

    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Names the queue in metrics; without this it has the controller's name.
    #[must_use]
    pub fn queue_named(self, queue_name: &'static str) -> Self {
        Self { queue_name, ..self }
    }

    /// For what changes outside the API: add a key and it is reconciled.
    pub fn queue(&self) -> Arc<WorkQueue> {
        self.queue.clone()
    }

    pub fn start(self) {
        let (cx, name, workers) = (self.cx.clone(), self.name, self.workers);
        self.queue.measure(self.queue_name, cx.metrics());
        let this = Arc::new(self);
        for _ in 0..workers {
            let this = this.clone();
            cx.spawn(name, async move { this.run_worker().await });
        }
    }

    async fn run_worker(&self) {
        self.cx.wait_for_cache_sync().await;
        loop {
            let key = self.queue.next().await;
            let span = info_span!("reconcile", controller = self.name, %key);
            let object = self.cache.get(&key);
            let work = self.reconciler.reconcile(&key, object).instrument(span);
            let ok = match panics::contain(self.name, work).await {
                Ok(Ok(next)) => {
                    if let Requeue::After(delay) = next {
                        self.queue.add_after(key.clone(), delay);
                    }
                    true
                }
                Ok(Err(error)) if error.is_conflict() => {
                    debug!(controller = self.name, %key, %error, "conflict with another write; will retry");
                    false
                }
                Ok(Err(error)) => {
                    warn!(controller = self.name, %key, %error, "reconcile failed; will retry");
                    false
                }
                Err(panicked) => {
                    error!(controller = self.name, %key, %panicked, "reconcile failed; will retry");
                    false
                }
            };
            self.queue.done(key, ok);
        }
    }
}
