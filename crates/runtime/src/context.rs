//! What the parts of a process share.

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

/// How soon a task that panicked is begun anew.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// One copy per resource, namespace and selection; the type tells typed from any, which have other indexes.
type InformerKey = (TypeId, ApiResource, Text, Selectors);

/// The API, one cache per kind, and the tasks that everything runs in.
#[derive(Clone)]
pub struct Context {
    client: Client,
    /// Whom caches read as: all share them.
    read_client: Client,
    informers: Arc<Mutex<HashMap<InformerKey, Arc<Informer>>>>,
    /// Whether each cache has been filled that was opened through this context: nobody waits
    /// for what only others use.
    used: Arc<Mutex<HashMap<InformerKey, watch::Receiver<bool>>>>,
    /// Our own and those of the contexts that this one is part of.
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

    /// The same, but writing as another: each controller has its own identity, and waits only
    /// for the caches that it opens itself.
    pub fn with_write_client(&self, client: &Client) -> Self {
        let client = client.observed(&self.observer);
        Self { client, used: Arc::default(), ..self.clone() }
    }

    /// A part that can be stopped alone, and stops with the whole. Its caches are
    /// its own.
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

    /// Objects of which only some are in the cache: writes are for all.
    pub fn cached_api_selected<K: Kind>(&self, selection: &Selectors) -> CachedApi<K> {
        CachedApi::new(self.api(), self.cache_selected(selection))
    }

    /// The same, of one namespace.
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

    /// The shared cache of those `K` that are selected.
    pub fn cache_selected<K: Kind>(&self, selection: &Selectors) -> Arc<Cache<K>> {
        self.typed_cache(ApiResource::of::<K>(), "", selection)
    }

    /// The shared cache of those `K` that are selected in one namespace.
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

    /// Waits until every cache that was opened through this context has been filled once.
    pub async fn wait_for_cache_sync(&self) {
        let all: Vec<_> = held(&self.used).values().cloned().collect();
        for mut one in all {
            let _ = one.wait_for(|ok| *ok).await; // caches live as long as their context
        }
    }

    /// Runs `task` until it ends or the component stops. The only spawn there is. A panic ends
    /// the task and nothing else: whatever goes on for ever belongs into `keep`.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(task));
    }

    /// Runs the task that `make` gives; one that panics is made anew, after a while.
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

    /// All tasks are of one type, or what runs them would be compiled for each.
    fn spawn_boxed(&self, name: &'static str, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let stop = self.shutdown.clone();
        let task = async move {
            tokio::select! {
                _ = panics::contain(name, task) => {} // a panic has been counted and logged
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

    /// Ends when the component is to stop: for those who have to clean up.
    pub async fn stopping(&self) {
        self.shutdown.cancelled().await;
    }

    pub fn is_stopping(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// Stops every task and waits for all of them.
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

    /// The copy that all caches of these objects share, started on first use.
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
