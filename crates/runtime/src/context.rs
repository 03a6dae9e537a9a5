//! The context that the parts of a process share: client, caches and tasks.

use std::{
    any::TypeId,
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use client::{Api, ApiResource, Client, RequestObserver, Selectors};
use object::Text;
use schema::Kind;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, info_span};

use crate::{
    Backoff, Cache, Cacheable, CachedApi, DynamicObject,
    indexed::IndexValuesFn,
    informer::Informer,
    metrics::{Metrics, RequestMetrics},
};

/// Initial back-off before a panicked task is restarted.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// One informer per resource, namespace and selectors. The type distinguishes typed from dynamic caches, which have
/// different indexes.
type InformerKey = (TypeId, ApiResource, Text, Selectors);

/// The API client, one cache per kind, and all tasks.
#[derive(Clone)]
pub struct Context {
    client: Client,
    /// The client that caches read with, because they are shared.
    read_client: Client,
    informers: Arc<Mutex<HashMap<InformerKey, Arc<Informer>>>>,
    /// Whether each cache that was opened through this context has synced: a controller does not wait for caches that
    /// only others use.
    used: Arc<Mutex<HashMap<InformerKey, watch::Receiver<bool>>>>,
    /// Our own tracker and those of the parent contexts.
    tasks: Vec<TaskTracker>,
    shutdown: CancellationToken,
    metrics: Metrics,
    /// Counts the requests of all clients.
    observer: Arc<dyn RequestObserver>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Context {
    pub fn new(client: &Client) -> Self {
        let metrics = Metrics::default();
        let observer: Arc<dyn RequestObserver> = Arc::new(RequestMetrics::new(&metrics));
        let client = client.observed(&observer);
        Self {
            read_client: client.clone(),
            client,
            informers: Arc::default(),
            used: Arc::default(),
            tasks: vec![TaskTracker::new()],
            shutdown: CancellationToken::new(),
            metrics,
            observer,
        }
    }

    /// The same context with another client for writes: each controller has its own user, and waits only for the caches
    /// that it opens itself.
    pub fn with_write_client(&self, client: &Client) -> Self {
        let client = client.observed(&self.observer);
        Self { client, used: Arc::default(), ..self.clone() }
    }

    /// Creates a child context. Stopping the parent stops the child; the child can also be stopped alone. It has its
    /// own informers, which stop with it.
    pub fn child(&self) -> Self {
        let mut tasks = self.tasks.clone();
        tasks.push(TaskTracker::new());
        Self {
            informers: Arc::default(),
            used: Arc::default(),
            tasks,
            shutdown: self.shutdown.child_token(),
            ..self.clone()
        }
    }

    /// The metrics of the component, shared by all contexts made from this one.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn api<K: Kind>(&self) -> Api<K> {
        Api::new(&self.client)
    }

    pub fn cached_api<K: Kind>(&self) -> CachedApi<K> {
        CachedApi::new(self.api(), self.cache())
    }

    /// A cached API whose cache holds only the selected objects; writes are not restricted.
    pub fn cached_api_selected<K: Kind>(&self, selection: &Selectors) -> CachedApi<K> {
        CachedApi::new(self.api(), self.cache_selected(selection))
    }

    /// Like `cached_api_selected`, for one namespace.
    pub fn cached_api_in_namespace<K: Kind>(
        &self,
        namespace: &str,
        selection: &Selectors,
    ) -> CachedApi<K> {
        CachedApi::new(self.api(), self.cache_in_namespace(namespace, selection))
    }

    /// The shared cache of `K`, started on first use.
    pub fn cache<K: Kind>(&self) -> Arc<Cache<K>> {
        self.cache_selected(&Selectors::default())
    }

    /// The shared cache of the selected `K`.
    pub fn cache_selected<K: Kind>(&self, selection: &Selectors) -> Arc<Cache<K>> {
        self.typed_cache(ApiResource::of::<K>(), "", selection)
    }

    /// The shared cache of the selected `K` in one namespace.
    pub fn cache_in_namespace<K: Kind>(
        &self,
        namespace: &str,
        selection: &Selectors,
    ) -> Arc<Cache<K>> {
        self.typed_cache(ApiResource::of::<K>(), namespace, selection)
    }

    /// The shared cache of a resource that is known only at run time.
    pub fn dynamic_cache(
        &self,
        resource: &ApiResource,
        selection: &Selectors,
    ) -> Arc<Cache<DynamicObject>> {
        self.typed_cache(resource.clone(), "", selection)
    }

    /// Waits until every cache that was opened through this context has synced.
    pub async fn wait_for_cache_sync(&self) {
        let all: Vec<_> = held(&self.used).values().cloned().collect();
        for mut one in all {
            let _ = one.wait_for(|ok| *ok).await; // caches live as long as their context
        }
    }

    /// Spawns `task`, which runs until it ends or the context is stopped. All tasks are spawned here. A panic ends only
    /// this task; use `keep` for tasks that must run for ever.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(task));
    }

    /// Spawns the task that `make` creates, and restarts it after a back-off if it panics.
    pub fn keep<F: Future<Output = ()> + Send + 'static>(
        &self,
        name: &'static str,
        make: impl Fn() -> F + Send + 'static,
    ) {
        self.spawn(name, async move {
            let mut retry = Backoff::new(FIRST_RETRY, LAST_RETRY);
            loop {
                let began = Instant::now();
                if panics::contain(name, make()).await.is_ok() {
                    return;
                }
                if began.elapsed() > LAST_RETRY {
                    retry.reset();
                }
                sleep(retry.next_delay()).await;
            }
        });
    }

    /// Takes a boxed task, so that the code is not compiled for each task type.
    fn spawn_boxed(&self, name: &'static str, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let stop = self.shutdown.clone();
        let task = async move {
            tokio::select! {
                _ = panics::contain(name, task) => {} // the panic has been counted and logged
                () = stop.cancelled() => {}
            }
        };
        let (own, above) = self.tasks.split_last().expect("a context has a tracker of its own");
        let task = own.track_future(task.instrument(info_span!("task", name)));
        match above {
            [] => drop(own.spawn(task)),
            [above @ .., last] => {
                let tokens: Vec<_> = above.iter().map(TaskTracker::token).collect();
                drop(last.spawn(async move {
                    task.await;
                    drop(tokens);
                }));
            }
        }
    }

    /// Resolves when the context is stopping, for tasks that must clean up.
    pub async fn stopping(&self) {
        self.shutdown.cancelled().await;
    }

    pub fn is_stopping(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// Stops all tasks and waits for them.
    pub async fn stop(self) {
        self.shutdown.cancel();
        let own = self.tasks.last().expect("a context has a tracker of its own");
        own.close();
        own.wait().await;
    }

    fn typed_cache<K: Cacheable>(
        &self,
        resource: ApiResource,
        namespace: &str,
        selection: &Selectors,
    ) -> Arc<Cache<K>> {
        let which = (TypeId::of::<K>(), resource, namespace.into(), selection.clone());
        Arc::new(Cache::new(self.informer(which, |object| object.view::<K>().index_values())))
    }

    /// The informer that all caches of these objects share, started on first use.
    fn informer(&self, which: InformerKey, entries: IndexValuesFn) -> Arc<Informer> {
        let mut locals = held(&self.informers);
        let local = locals.entry(which.clone()).or_insert_with_key(
            |(_, resource, namespace, selection)| {
                let api = Api::<DynamicObject>::for_resource(&self.read_client, resource.clone())
                    .namespaced(namespace);
                let (local, selection) = (Arc::new(Informer::new(entries)), selection.clone());
                let running = local.clone();
                self.spawn("cache", async move { running.run(api, selection).await });
                local
            },
        );
        held(&self.used).entry(which).or_insert_with(|| local.synced());
        local.clone()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
