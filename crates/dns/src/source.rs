//! Keeps the zone as the API says.

use std::sync::{Arc, PoisonError, RwLock};

use api::core::{Namespace, Service};
use api::discovery::EndpointSlice;
use object::Key;
use runtime::{Cache, Context};
use tokio::sync::watch;

use crate::{entry::Entry, zone::Zone};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const OWNER: &str = "service";

/// Says whether everything has been read once.
#[derive(Debug)]
pub(crate) struct Source(Vec<watch::Receiver<bool>>);

impl Source {
    pub(crate) fn start(cx: &Context, zone: &Arc<RwLock<Zone>>) -> Self {
        let namespaces = cx.cache::<Namespace>();
        let services = cx.cache::<Service>();
        let slices = cx.cache::<EndpointSlice>();
        slices.add_index(OWNER, |slice| {
            owner(slice).map(|key| key.to_string().into()).into_iter().collect()
        });
        let join = Join { zone: zone.clone(), services: services.clone(), slices: slices.clone() };
        let join = Arc::new(join);
        let here = join.clone();
        services.on_change(move |old, new| {
            if let Some(service) = new.or(old) {
                here.update(&Key::of(service.metadata()));
            }
        });
        slices.on_change(move |old, new| {
            let (old, new) = (old.and_then(owner), new.and_then(owner));
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

    /// A source that was never started and has nothing to wait for.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.iter().all(|synced| *synced.borrow())
    }
}

#[derive(Debug)]
struct Join {
    zone: Arc<RwLock<Zone>>,
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
}

impl Join {
    /// Reads the caches under the zone's lock: so the last to write has seen the newest.
    fn update(&self, key: &Key) {
        let mut zone = self.zone.write().unwrap_or_else(PoisonError::into_inner);
        let entry = self
            .services
            .get(key)
            .map(|service| Entry::new(&service, &self.slices.by(OWNER, &key.to_string())));
        zone.set_service(&key.namespace, &key.name, entry);
    }
}

fn owner(slice: &EndpointSlice) -> Option<Key> {
    let meta = slice.metadata();
    let name = meta.labels().get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key::new(meta.namespace(), name))
}
