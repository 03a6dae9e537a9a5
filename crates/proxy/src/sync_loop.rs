//! The sync loop: collects the names of changed Services and EndpointSlices, and writes all pending
//! changes in one transaction.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::core::{self, Service};
use api::discovery::EndpointSlice;
use client::Selectors;
use object::{MicroTime, NamespacedName, Text};
use runtime::{Backoff, Cache, Context};
use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, error, warn};

use crate::{
    Error, Family, Listeners, NodeConfig, Proxier, Result, ServiceName, conntrack, health::Health,
    metrics::Metrics, node_port_health::NodePortHealth, serve, source,
};

/// Delay of a sync after the first change; a burst of changes is mostly over by then.
const MIN_SYNC_PERIOD: Duration = Duration::from_millis(10);
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const SERVICE_SELECTOR: &str =
    "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
const SERVICE_INDEX: &str = "service";
/// Annotation with the time of the change that triggered an EndpointSlice update.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const MOST_TRIGGERS: usize = 10_000;
/// Interval at which the kernel's ruleset is checked.
const LOOK: Duration = Duration::from_secs(10);

/// Configuration of the proxy.
#[derive(Debug, Clone)]
pub struct Config {
    /// Zone and IPs, where empty, are taken from the Node object.
    pub node: NodeConfig,
    pub listeners: Listeners,
    /// Whether to set conntrack limits and timeouts as upstream's kube-proxy does.
    pub set_conntrack: bool,
}

impl Config {
    /// A configuration without HTTP listeners, which leaves the host's settings alone.
    pub fn new(node: NodeConfig) -> Self {
        Self { node, listeners: Listeners::default(), set_conntrack: false }
    }
}

/// Starts the proxy: keeps the tables of the process's network namespace up to date with the API.
/// The tables stay when it stops, so that connections continue; `cleanup` removes them.
pub fn start(cx: &Context, config: Config) {
    let ours = Selectors::labels(SERVICE_SELECTOR);
    let own = Selectors::fields(format!("metadata.name={}", config.node.name));
    let source = SyncLoop {
        services: cx.cache_selected(&ours),
        slices: cx.cache_selected(&ours),
        nodes: cx.cache_selected(&own),
        changed: Arc::default(),
        health: Arc::default(),
        metrics: Arc::default(),
        node_config: config.node,
    };
    source.register_handlers();
    let (health, metrics) = (&source.health, &source.metrics);
    serve::start(cx, config.listeners, (health, metrics), &source.nodes);
    if config.set_conntrack {
        conntrack::set_up();
    }
    cx.spawn("proxy", source.run());
}

/// The informers and the pending changes.
#[derive(Debug)]
struct SyncLoop {
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
    nodes: Arc<Cache<core::Node>>,
    changed: Arc<PendingServices>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    node_config: NodeConfig,
}

/// State of the loop between syncs.
#[derive(Debug)]
struct Written {
    proxy: Option<(NodeConfig, Proxier)>,
    node_ports: NodePortHealth,
    /// The generation of the kernel's ruleset at the last check.
    generation: Option<u32>,
    looked: Instant,
}

/// The services with pending changes.
#[derive(Debug, Default)]
struct PendingServices {
    names: Mutex<BTreeSet<NamespacedName>>,
    /// Trigger times of endpoint changes that have not been written, in microseconds since 1970.
    triggers: Mutex<Vec<i64>>,
    wake: Notify,
}

impl PendingServices {
    fn add(&self, names: impl IntoIterator<Item = NamespacedName>) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        self.wake.notify_one();
    }

    /// Records the trigger time of an EndpointSlice update, if it is annotated.
    fn trigger(&self, old: Option<&EndpointSlice>, new: Option<&EndpointSlice>) {
        let of = |slice: Option<&EndpointSlice>| {
            slice.and_then(|slice| slice.metadata().annotations().get(TRIGGER).map(str::to_owned))
        };
        let (old, new) = (of(old), of(new));
        let fresh = new.as_deref().filter(|_| old != new);
        let Some(at) = fresh.and_then(MicroTime::parse_micros) else { return };
        let mut triggers = self.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        if triggers.len() < MOST_TRIGGERS {
            triggers.push(at);
        }
    }

    fn take_triggers(&self) -> Vec<i64> {
        std::mem::take(&mut self.triggers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> BTreeSet<NamespacedName> {
        std::mem::take(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SyncLoop {
    fn register_handlers(&self) {
        self.slices.add_index(SERVICE_INDEX, |slice| {
            source::service_key(slice)
                .map(|key| key.to_string().into())
                .into_iter()
                .collect::<Vec<Text>>()
        });
        let (changed, health, metrics) =
            (self.changed.clone(), self.health.clone(), self.metrics.clone());
        self.services.on_change(move |old, new| {
            health.queued();
            metrics.service_changed();
            changed.add(old.or(new).map(|service| NamespacedName::from_meta(service.metadata())));
        });
        let (changed, health, metrics) =
            (self.changed.clone(), self.health.clone(), self.metrics.clone());
        self.slices.on_change(move |old, new| {
            health.queued();
            metrics.endpoints_changed();
            changed.trigger(old, new);
            changed.add(old.into_iter().chain(new).filter_map(source::service_key));
        });
        let changed = self.changed.clone();
        self.nodes.on_change(move |_, _| changed.add([]));
    }

    async fn run(self) {
        let all = [self.services.synced(), self.slices.synced(), self.nodes.synced()];
        for mut one in all {
            if one.wait_for(|synced| *synced).await.is_err() {
                return;
            }
        }
        let mut retry = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        let mut written = Written {
            proxy: None,
            node_ports: NodePortHealth::new(self.health.clone()),
            generation: None,
            looked: Instant::now(),
        };
        loop {
            let Some(node) = source::node(&self.node_config, self.nodes.all().first()) else {
                warn!(node = self.node_config.name, "the node has no address yet");
                self.changed.wake.notified().await;
                continue;
            };
            let stepped = panics::contain("proxy", self.sync(&mut written, node)).await;
            match stepped.unwrap_or_else(|error| Err(panicked(&error))) {
                Ok(()) => {
                    retry.reset();
                    let look = written.looked + LOOK;
                    if timeout_at(look, self.changed.wake.notified()).await.is_ok() {
                        sleep(MIN_SYNC_PERIOD).await;
                    }
                }
                Err(error) => {
                    error!(%error, "cannot write the nftables rules; will retry");
                    sleep(retry.next_delay()).await;
                }
            }
        }
    }

    /// Writes the pending changes; everything the first time and after the node has changed. Also
    /// checks at intervals that the kernel still has what was written.
    async fn sync(&self, written: &mut Written, node: NodeConfig) -> Result<()> {
        let (mut names, triggers) = (self.changed.take(), self.changed.take_triggers());
        let known = written.proxy.take().filter(|(known, _)| *known == node);
        if known.is_none() {
            names.extend(self.names());
        }
        let changed: Vec<_> = names.iter().map(|key| (name(key), self.read(key))).collect();
        for (key, (name, service)) in names.iter().zip(&changed) {
            let wanted = service.as_ref().and_then(|service| self.health_check(key, service));
            written.node_ports.set(name, wanted, &node.node_port_ips);
        }
        let (count, began) = (changed.len(), Instant::now());
        let look = (began >= written.looked + LOOK).then_some(written.generation);
        let work = spawn_blocking(move || -> Result<_> {
            let mut proxy = match known {
                Some((_, proxy)) => proxy,
                None => Proxier::new(&node)?,
            };
            let whole = !proxy.is_in_step();
            // The proxy has recorded the changes even if it could not write them.
            let mut done = proxy.update(&changed).map(|touched| (touched, None));
            if done.is_ok()
                && let Err(error) = proxy.delete_stale_conntrack(&changed)
            {
                warn!(%error, "cannot delete stale conntrack entries");
            }
            if let (Ok((_, looked)), Some(known)) = (&mut done, look) {
                match proxy.repair(known) {
                    Ok((generation, _)) => *looked = Some(generation),
                    Err(error) => done = Err(error),
                }
            }
            Ok((node, proxy, whole, done))
        });
        let (node, proxy, whole, done) = work.await.map_err(|error| panicked(&error))??;
        let families = proxy.families();
        written.proxy = Some((node, proxy));
        if look.is_some() {
            written.looked = began;
        }
        let (touched, generation) = done.inspect_err(|_| self.metrics.failed(&families))?;
        written.generation = generation.or(written.generation);
        if count > 0 || whole {
            self.metrics.synced(&families, began.elapsed(), whole);
            self.metrics.programmed(&families, &triggers);
        }
        if look.is_some() {
            self.count_without_local(&families);
        }
        self.health.updated(families);
        debug!(services = count, touched, "synced the nftables rules");
        Ok(())
    }

    /// The `healthCheckNodePort` of the service, and how many of its endpoints are ready on this
    /// node.
    fn health_check(&self, key: &NamespacedName, service: &crate::Service) -> Option<(u16, usize)> {
        let it = self.services.get(key)?;
        let port = u16::try_from(it.spec().health_check_node_port()).ok()?;
        if port == 0 || !service.external_local {
            return None;
        }
        let endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
        let here = endpoints.filter(|endpoint| endpoint.local && endpoint.ready);
        Some((port, here.map(|endpoint| endpoint.ip).collect::<BTreeSet<_>>().len()))
    }

    /// Counts the services with a Local traffic policy that have no local endpoints.
    fn count_without_local(&self, families: &[Family]) {
        let all: Vec<_> = self.names().iter().filter_map(|key| self.read(key)).collect();
        for family in families {
            for (policy, is_local) in [
                ("internal", (|it| it.internal_local) as fn(&crate::Service) -> bool),
                ("external", |it| it.external_local),
            ] {
                let empty = |service: &&crate::Service| {
                    let mut endpoints = service.ports.iter().flat_map(|port| &port.endpoints);
                    let here = |it: &crate::Endpoint| it.local && Family::of(it.ip) == *family;
                    is_local(service) && !endpoints.any(here)
                };
                self.metrics.without_local(*family, policy, all.iter().filter(empty).count());
            }
        }
    }

    fn names(&self) -> BTreeSet<NamespacedName> {
        self.services
            .all()
            .iter()
            .map(|service| NamespacedName::from_meta(service.metadata()))
            .collect()
    }

    /// Reads a service. A panic on one service does not affect the others.
    fn read(&self, key: &NamespacedName) -> Option<crate::Service> {
        panics::catch("proxy", || self.service(key)).ok().flatten()
    }

    fn service(&self, key: &NamespacedName) -> Option<crate::Service> {
        let service = self.services.get(key)?;
        let slices = self.slices.by_index(SERVICE_INDEX, &key.to_string());
        source::service(&service, &slices, &self.node_config.name)
    }
}

fn panicked(error: &dyn std::error::Error) -> Error {
    let (what, source) = ("write services".to_owned(), std::io::Error::other(error.to_string()));
    Error::Kernel { what, source, message: None }
}

fn name(key: &NamespacedName) -> ServiceName {
    ServiceName { namespace: key.namespace.to_string(), name: key.name.to_string() }
}
