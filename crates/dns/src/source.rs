//! Keeps the zone in sync with the API.

use std::sync::{Arc, PoisonError, RwLock};

use api::core::{Namespace, Service};
use api::discovery::EndpointSlice;
use object::NamespacedName;
use runtime::{Cache, Context};
use tokio::sync::watch;

use crate::{service_entry::ServiceEntry, zone::Zone};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SERVICE_INDEX: &str = "service";

/// Tells whether all caches have synced.
#[derive(Debug)]
pub(crate) struct ZoneSync(Vec<watch::Receiver<bool>>);

impl ZoneSync {
    pub(crate) fn start(cx: &Context, zone: &Arc<RwLock<Zone>>) -> Self {
        let namespaces = cx.cache::<Namespace>();
        let services = cx.cache::<Service>();
        let slices = cx.cache::<EndpointSlice>();
        slices.add_index(SERVICE_INDEX, |slice| {
            service_key(slice).map(|key| key.to_string().into()).into_iter().collect()
        });
        let join = ServiceUpdater {
            zone: zone.clone(),
            services: services.clone(),
            slices: slices.clone(),
        };
        let join = Arc::new(join);
        let here = join.clone();
        services.on_change(move |old, new| {
            if let Some(service) = new.or(old) {
                here.update(&NamespacedName::from_meta(service.metadata()));
            }
        });
        slices.on_change(move |old, new| {
            let (old, new) = (old.and_then(service_key), new.and_then(service_key));
            if let Some(key) = old.as_ref().filter(|key| Some(*key) != new.as_ref()) {
                join.update(key);
            }
            if let Some(key) = new {
                join.update(&key);
            }
        });
        let zone = zone.clone();
        namespaces.on_change(move |old, new| {
            if let Some(namespace) = new.or(old) {
                let mut zone = zone.write().unwrap_or_else(PoisonError::into_inner);
                zone.set_namespace(namespace.metadata().name(), new.is_some());
            }
        });
        Self(vec![namespaces.synced(), services.synced(), slices.synced()])
    }

    /// A source without caches, which is always ready.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.iter().all(|synced| *synced.borrow())
    }
}

#[derive(Debug)]
struct ServiceUpdater {
    zone: Arc<RwLock<Zone>>,
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
}

impl ServiceUpdater {
    /// Reads the caches under the zone's lock, so that the last writer has seen the newest state.
    fn update(&self, key: &NamespacedName) {
        let mut zone = self.zone.write().unwrap_or_else(PoisonError::into_inner);
        let entry = self.services.get(key).map(|service| {
            ServiceEntry::new(&service, &self.slices.by_index(SERVICE_INDEX, &key.to_string()))
        });
        zone.set_service(&key.namespace, &key.name, entry);
    }
}

fn service_key(slice: &EndpointSlice) -> Option<NamespacedName> {
    let meta = slice.metadata();
    let name = meta.labels().get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(NamespacedName::new(meta.namespace(), name))
}
