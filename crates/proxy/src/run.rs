//! The loop: services and slices that changed are gathered by name, and what has
//! gathered is written in one transaction.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::core::{self, Service};
use api::discovery::EndpointSlice;
use client::Selection;
use object::{Key, Text};
use runtime::{Cache, Context, Retry};
use tokio::{sync::Notify, task::spawn_blocking, time::sleep};
use tracing::{debug, error, warn};

use crate::{Error, Node, Proxy, Result, ServiceName, source};

/// A burst is mostly over by then.
const GATHER: Duration = Duration::from_millis(10);
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(30);
const OURS: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
const OWNER: &str = "service";

#[derive(Debug, Clone)]
pub struct Config {
    /// The zone, and the addresses where empty, are taken from the Node object.
    pub node: Node,
}

/// Keeps the tables of the process's network namespace as the API says. They stay
/// when it stops, so that connections go on; `cleanup` removes them.
pub fn start(cx: &Context, config: Config) {
    let ours = Selection::labels(OURS);
    let own = Selection::fields(format!("metadata.name={}", config.node.name));
    let source = Source {
        services: cx.cache_of(&ours),
        slices: cx.cache_of(&ours),
        nodes: cx.cache_of(&own),
        changed: Arc::default(),
        given: config.node,
    };
    source.watch();
    cx.spawn("proxy", source.run());
}

#[derive(Debug)]
struct Source {
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
    nodes: Arc<Cache<core::Node>>,
    changed: Arc<Changed>,
    given: Node,
}

/// The services to look at again.
#[derive(Debug, Default)]
struct Changed {
    names: Mutex<BTreeSet<Key>>,
    wake: Notify,
}

impl Changed {
    fn add(&self, names: impl IntoIterator<Item = Key>) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeSet<Key> {
        std::mem::take(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source {
    fn watch(&self) {
        self.slices.add_index(OWNER, |slice| {
            source::owner(slice)
                .map(|key| key.to_string().into())
                .into_iter()
                .collect::<Vec<Text>>()
        });
        let changed = self.changed.clone();
        self.services.on_change(move |old, new| {
            changed.add(old.or(new).map(|service| Key::of(service.metadata())));
        });
        let changed = self.changed.clone();
        self.slices.on_change(move |old, new| {
            changed.add(old.into_iter().chain(new).filter_map(source::owner));
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
        let mut retry = Retry::new(FIRST_RETRY, LAST_RETRY);
        let mut shell: Option<(Node, Proxy)> = None;
        loop {
            let Some(node) = source::node(&self.given, self.nodes.all().first()) else {
                warn!(node = self.given.name, "the node has no address yet");
                self.changed.wake.notified().await;
                continue;
            };
            let stepped = panics::contain("proxy", self.step(&mut shell, node)).await;
            match stepped.unwrap_or_else(|error| Err(panicked(&error))) {
                Ok(()) => {
                    retry.reset();
                    self.changed.wake.notified().await;
                    sleep(GATHER).await;
                }
                Err(error) => {
                    error!(%error, "services could not be written; will try again");
                    sleep(retry.pause()).await;
                }
            }
        }
    }

    /// Writes what has gathered: the first time, and when the node has changed, all.
    async fn step(&self, shell: &mut Option<(Node, Proxy)>, node: Node) -> Result<()> {
        let names = self.changed.take();
        let known = shell.take().filter(|(known, _)| *known == node);
        let names = if known.is_some() { names } else { self.names() };
        let changed: Vec<_> = names.iter().map(|key| (name(key), self.read(key))).collect();
        let count = changed.len();
        let work = spawn_blocking(move || -> Result<_> {
            let mut proxy = match known {
                Some((_, proxy)) => proxy,
                None => Proxy::new(&node)?,
            };
            // The proxy has taken the changes in even where it could not write them.
            let written = proxy.update(&changed);
            if written.is_ok()
                && let Err(error) = proxy.forget_stale(&changed)
            {
                warn!(%error, "flows to endpoints that are gone may be left");
            }
            Ok((node, proxy, written))
        });
        let (node, proxy, written) = work.await.map_err(|error| panicked(&error))??;
        *shell = Some((node, proxy));
        debug!(services = count, touched = written?, "written");
        Ok(())
    }

    fn names(&self) -> BTreeSet<Key> {
        self.services.all().iter().map(|service| Key::of(service.metadata())).collect()
    }

    /// A service that cannot be read is none, and no other is held back.
    fn read(&self, key: &Key) -> Option<crate::Service> {
        panics::catch("proxy", || self.service(key)).ok().flatten()
    }

    fn service(&self, key: &Key) -> Option<crate::Service> {
        let service = self.services.get(key)?;
        let slices = self.slices.by(OWNER, &key.to_string());
        source::service(&service, &slices, &self.given.name)
    }
}

fn panicked(error: &dyn std::error::Error) -> Error {
    let (what, source) = ("write services".to_owned(), std::io::Error::other(error.to_string()));
    Error::Refused { what, source, message: None }
}

fn name(key: &Key) -> ServiceName {
    ServiceName { namespace: key.namespace.to_string(), name: key.name.to_string() }
}
