//! ResourceQuota controller: recomputes the usage of each quota. Admission increases usage when an
//! object is created; this controller corrects it, and decreases it when objects are deleted.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use api::core::{
    PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, Service,
    usage::{add, counted_resource, in_scope, usage},
};
use client::{ApiResource, Error, Selectors};
use object::{Clock, Map, NamespacedName, Quantity, Text, Value};
use runtime::{
    Cache, Cacheable, CachedApi, Context, Controller, DynamicObject, Reconcile, Requeue, WorkQueue,
};
use schema::Kind;
use tokio::time::{sleep, timeout};

use crate::Config;

/// Interval of the full recount: some pods stop counting as time passes.
const RESYNC: Duration = Duration::from_mins(5);
/// How long to wait for the first list of a resource.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn start(cx: &Context, config: &Config) {
    let due = Arc::new(DirtyQuotas::new(cx.cached_api()));
    let this = Quotas {
        cx: cx.child(),
        quotas: cx.cached_api(),
        pods: cx.cached_api(),
        services: cx.cached_api(),
        claims: cx.cached_api(),
        dynamic_caches: Mutex::default(),
        due: due.clone(),
        clock: config.clock.clone(),
    };
    let freed = |old: &Pod, new: &Pod| !old.is_finished() && new.is_finished();
    due.watch_resource("pods", this.pods.cache(), freed);
    let freed = |old: &Service, new: &Service| old.spec().type_() != new.spec().type_();
    due.watch_resource("services", this.services.cache(), freed);
    let freed = |old: &PersistentVolumeClaim, new: &PersistentVolumeClaim| {
        old.status().allocated_resources() != new.status().allocated_resources()
    };
    due.watch_resource("persistentvolumeclaims", this.claims.cache(), freed);
    due.watch_resource("resourcequotas", this.quotas.cache(), |_, _| false);
    let all = due.clone();
    cx.keep("resourcequota", move || {
        let all = all.clone();
        async move {
            loop {
                sleep(RESYNC).await;
                all.mark_all();
            }
        }
    });
    let controller =
        Controller::new("resourcequota", cx, this).queue_named("resourcequota_primary");
    due.queue.set(controller.queue()).expect("it is set once");
    controller.start();
}

/// Reconciler of ResourceQuotas.
#[derive(Debug)]
struct Quotas {
    /// Separate caches: a resource that cannot be listed must not block other controllers.
    cx: Context,
    quotas: CachedApi<ResourceQuota>,
    pods: CachedApi<Pod>,
    services: CachedApi<Service>,
    claims: CachedApi<PersistentVolumeClaim>,
    /// Caches of other resources that quotas count, by resource name; started when first needed.
    dynamic_caches: Mutex<HashMap<Text, Arc<Cache<DynamicObject>>>>,
    due: Arc<DirtyQuotas>,
    clock: Arc<dyn Clock>,
}

/// Quotas that must be recounted because an object was deleted. Created objects are counted by
/// admission, before they appear in a cache.
#[derive(Debug)]
struct DirtyQuotas {
    quotas: CachedApi<ResourceQuota>,
    keys: Mutex<HashSet<NamespacedName>>,
    queue: OnceLock<Arc<WorkQueue>>,
}

impl DirtyQuotas {
    fn new(quotas: CachedApi<ResourceQuota>) -> Self {
        Self { quotas, keys: Mutex::default(), queue: OnceLock::new() }
    }

    /// Marks the quotas that count a resource when one of its objects is deleted, or when an update
    /// `frees` something.
    fn watch_resource<K: Cacheable>(
        self: &Arc<Self>,
        resource: &str,
        cache: &Cache<K>,
        frees: fn(&K, &K) -> bool,
    ) {
        let (this, resource) = (self.clone(), Text::from(resource));
        cache.on_change(move |old, new| {
            let Some(old) = old else { return };
            if new.is_none_or(|new| frees(old, new)) {
                this.mark(old.object_meta().namespace(), &resource);
            }
        });
    }

    fn mark(&self, namespace: &str, resource: &str) {
        for quota in self.quotas.in_namespace(namespace) {
            if quota.spec().hard().iter().any(|(name, _)| counted_resource(name) == Some(resource))
            {
                self.add(&quota);
            }
        }
    }

    fn mark_all(&self) {
        self.quotas.all().iter().for_each(|quota| self.add(quota));
    }

    fn add(&self, quota: &ResourceQuota) {
        let key = NamespacedName::from_meta(quota.metadata());
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if let Some(queue) = self.queue.get() {
            queue.add(key);
        }
    }

    /// Whether the quota was marked; removes the mark.
    fn take(&self, key: &NamespacedName) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

impl Reconcile for Quotas {
    type Kind = ResourceQuota;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        quota: Option<ResourceQuota>,
    ) -> Result<Requeue, Error> {
        let marked = self.due.take(key);
        let Some(quota) = quota.filter(|quota| marked || is_new(quota)) else {
            return Ok(Requeue::OnChange);
        };
        let counted = self.count(key, &quota).await;
        if counted.is_err() {
            self.due.add(&quota);
        }
        counted.map(|()| Requeue::OnChange)
    }
}

impl Quotas {
    async fn count(&self, key: &NamespacedName, quota: &ResourceQuota) -> Result<(), Error> {
        let mut resources: Vec<&str> =
            quota.spec().hard().iter().filter_map(|(name, _)| counted_resource(name)).collect();
        resources.sort_unstable();
        resources.dedup();
        let mut found = Vec::new();
        for resource in resources {
            if let Some(objects) = self.objects(resource, &key.namespace).await? {
                found.push((resource, objects));
            }
        }
        let status = status(quota, &found, self.clock.now());
        if !same(quota.status(), &status) {
            let because = quota.write_cause("usage has changed");
            let new = quota.clone().with_status(status);
            self.quotas.with_cause(&because).update_status(new).await?;
        }
        Ok(())
    }

    /// The objects of a resource in a namespace; `None` if no such resource exists.
    async fn objects(&self, name: &str, namespace: &str) -> Result<Option<Vec<Value>>, Error> {
        Ok(Some(match name {
            "pods" => trees(self.pods.in_namespace(namespace)),
            "services" => trees(self.services.in_namespace(namespace)),
            "persistentvolumeclaims" => trees(self.claims.in_namespace(namespace)),
            "resourcequotas" => trees(self.quotas.in_namespace(namespace)),
            _ => match self.other(name).await? {
                Some(cache) => trees(cache.in_namespace(namespace)),
                None => return Ok(None),
            },
        }))
    }

    async fn other(&self, name: &str) -> Result<Option<Arc<Cache<DynamicObject>>>, Error> {
        let known =
            self.dynamic_caches.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok(Some(known));
        }
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        let mapper = self.cx.client().discover().await?;
        let is = |resource: &ApiResource| {
            resource.plural == plural && resource.group == group && resource.namespaced
        };
        let found = mapper.found.iter().filter(|found| is(&found.resource));
        let Some(found) = found.max_by_key(|found| found.preferred) else { return Ok(None) };
        let cache = self.cx.dynamic_cache(&found.resource, &Selectors::default());
        let mut synced = cache.synced();
        let ready = timeout(PATIENCE, synced.wait_for(|synced| *synced)).await;
        if ready.is_err() {
            return Err(Error::Unavailable(format!("{name} cannot be listed")));
        }
        self.due.watch_resource(name, &cache, |_, _| false);
        self.dynamic_caches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.into(), cache.clone());
        Ok(Some(cache))
    }
}

/// Whether the status lacks the limits of the spec, or the usage of one of them.
fn is_new(quota: &ResourceQuota) -> bool {
    let (spec, status) = (quota.spec(), quota.status());
    !equal(spec.hard(), status.hard())
        || spec
            .hard()
            .iter()
            .any(|(name, _)| counted_resource(name).is_some() && status.used().get(name).is_none())
}

fn trees<K: Into<Value>>(all: Vec<K>) -> Vec<Value> {
    all.into_iter().map(K::into).collect()
}

/// The status with the current usage of the limited resources.
fn status(quota: &ResourceQuota, found: &[(&str, Vec<Value>)], now: i64) -> ResourceQuotaStatus {
    let hard = quota.spec().hard();
    let mut used = HashMap::new();
    for (resource, objects) in found {
        let mut sum = api::core::ResourceList::new();
        for object in objects.iter().filter(|object| in_scope(quota.spec(), resource, object)) {
            add(&mut sum, usage(resource, object, now));
        }
        for (name, _) in hard.iter().filter(|(name, _)| counted_resource(name) == Some(resource)) {
            used.insert(name, sum.get(name).cloned().unwrap_or_default());
        }
    }
    let mut status = ResourceQuotaStatus::new();
    for (name, limit) in hard.iter() {
        status.hard_mut().insert(name, limit);
        let before = || quota.status().used().get(name);
        if let Some(used) = used.remove(name).or_else(before) {
            status.used_mut().insert(name, used);
        }
    }
    status
}

/// Whether two statuses are equal, comparing quantities by value.
fn same(a: &ResourceQuotaStatus, b: &ResourceQuotaStatus) -> bool {
    equal(a.hard(), b.hard()) && equal(a.used(), b.used())
}

fn equal(a: &Map<Quantity>, b: &Map<Quantity>) -> bool {
    a.iter().len() == b.iter().len() && a.iter().all(|(name, n)| b.get(name) == Some(n))
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn what_is_limited_is_counted() {
        let tree = |text: &str| from_json(text.as_bytes()).unwrap();
        let quota = ResourceQuota::from(tree(
            r#"{"spec":{"hard":{"pods":"5","requests.cpu":"2","secrets":"1","strange":"1"}}}"#,
        ));
        let pod = r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"750m"}}}]}}"#;
        let found = [("pods", vec![tree(pod), tree(pod)]), ("secrets", vec![])];
        let status = status(&quota, &found, 0);
        let used: Vec<String> =
            status.used().iter().map(|(name, used)| format!("{name}={used}")).collect();
        assert_eq!(used, ["pods=2", "requests.cpu=1500m", "secrets=0"]);
        assert!(same(&status, &status) && !same(&status, quota.status()));
        let milli = tree(r#"{"hard":{"a":"1000m"}}"#);
        let whole = tree(r#"{"hard":{"a":"1"}}"#);
        assert!(same(&milli.into(), &whole.into()));
        assert!(is_new(&quota) && !is_new(&quota.with_status(status)));
    }
}
