//! Watches every resource that can be listed, watched and deleted. The monitors follow discovery:
//! when the preferred version of a resource changes, its monitor is restarted, and when the
//! resource is no longer served, it is stopped. No object is processed before the caches have
//! synced.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use client::{ApiResource, DiscoveredResource, RestMapper, Selectors};
use object::Text;
use runtime::{Cache, Context, DynamicObject};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{Collector, graph::Node};

/// Interval of discovery.
const REDISCOVER: Duration = Duration::from_secs(30);
/// How long to wait for a resource's first list before the others proceed without it.
const SYNC: Duration = Duration::from_secs(30);

/// Group and plural, which identify a resource in any version.
type Name = (Text, Text);

/// The watch of one resource.
#[derive(Debug)]
struct Monitor {
    resource: ApiResource,
    cache: Arc<Cache<DynamicObject>>,
    /// Context of the cache, so that it can be stopped alone.
    part: Context,
}

impl Collector {
    /// Starts and stops monitors as discovery finds and loses resources.
    pub(super) async fn discover(self: Arc<Self>) {
        let mut running = HashMap::new();
        loop {
            match self.cx.client().discover().await {
                Ok(mapper) => self.align(mapper, &mut running).await,
                Err(error) => {
                    self.sync_errors.add(1);
                    warn!(%error, "cannot discover resources; will retry");
                }
            }
            sleep(REDISCOVER).await;
        }
    }

    async fn align(self: &Arc<Self>, mapper: RestMapper, running: &mut HashMap<Name, Monitor>) {
        let mapper = Arc::new(with_stale(mapper, &self.mapper()));
        self.set_mapper(mapper.clone());
        let followed = mapper.found.iter().filter(|found| is_followed(found));
        let wanted: HashMap<Name, &ApiResource> =
            followed.map(|found| (name(&found.resource), &found.resource)).collect();
        let old: Vec<Name> = running
            .iter()
            .filter(|(name, monitor)| wanted.get(*name) != Some(&&monitor.resource))
            .map(|(name, _)| name.clone())
            .collect();
        let new: Vec<Name> = wanted
            .iter()
            .filter(|(name, _)| old.contains(name) || !running.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect();
        if !new.is_empty() {
            self.ready.send_replace(false);
        }
        for name in &old {
            if let Some(monitor) = running.remove(name) {
                monitor.part.stop().await;
            }
        }
        for name in &new {
            running.insert(name.clone(), self.follow(wanted[name].clone()));
        }
        let filled =
            new.iter().filter_map(|name| running.get(name)).map(|monitor| self.fill(monitor));
        futures_util::future::join_all(filled).await;
        self.ready.send_replace(true);
    }

    fn follow(self: &Arc<Self>, resource: ApiResource) -> Monitor {
        let part = self.cx.child();
        let cache = part.dynamic_cache(&resource, &Selectors::default());
        let (this, of) = (self.clone(), resource.clone());
        cache.on_change(move |old, new| {
            let touched = match (old, new) {
                (_, Some(new)) => this.graph().put(Node::new(&of, new.metadata())),
                (Some(old), None) => this.graph().remove(old.metadata().uid()),
                (None, None) => return,
            };
            touched.into_iter().for_each(|uid| this.queue.add(uid));
        });
        Monitor { resource, cache, part }
    }

    /// Waits for the first list. Objects that the graph has and the list does not were deleted
    /// meanwhile.
    async fn fill(&self, monitor: &Monitor) {
        let mut synced = monitor.cache.synced();
        if !matches!(timeout(SYNC, synced.wait_for(|synced| *synced)).await, Ok(Ok(_))) {
            self.sync_errors.add(1);
            let ApiResource { group, version, plural, .. } = &monitor.resource;
            warn!(%group, %version, %plural, "cannot list a resource; collecting the others without it");
            return;
        }
        let mut graph = self.graph(); // locked first, so that new objects do not count as deleted
        let all = monitor.cache.all();
        let listed: HashSet<&str> = all.iter().map(|object| object.metadata().uid()).collect();
        for uid in graph.lost(&monitor.resource, &listed) {
            graph.remove(&uid).into_iter().for_each(|uid| self.queue.add(uid));
        }
    }
}

fn name(resource: &ApiResource) -> Name {
    (resource.group.clone(), resource.plural.clone())
}

/// Adds the last known resources of groups whose discovery failed now.
fn with_stale(mut mapper: RestMapper, before: &RestMapper) -> RestMapper {
    let is_stale = |found: &&DiscoveredResource| {
        mapper.stale.iter().any(|stale| *stale == found.resource.api_version())
    };
    let kept: Vec<DiscoveredResource> = before.found.iter().filter(is_stale).cloned().collect();
    mapper.found.extend(kept);
    mapper
}

/// Whether objects of the resource are collected. Events are not: they expire, and own nothing.
pub(super) fn is_followed(found: &DiscoveredResource) -> bool {
    let can = |verb: &str| found.verbs.iter().any(|known| known == verb);
    let usable = can("list") && can("watch") && can("delete");
    found.preferred && usable && found.resource.plural != "events"
}

#[test]
fn what_is_stale_is_as_it_was() {
    let found = |version: &str| DiscoveredResource {
        resource: ApiResource {
            group: "x.io".into(),
            version: version.into(),
            ..ApiResource::default()
        },
        ..DiscoveredResource::default()
    };
    let before = RestMapper { found: vec![found("v1"), found("v2")], stale: Vec::new() };
    let now = RestMapper { found: Vec::new(), stale: vec!["x.io/v2".into()] };
    assert_eq!(with_stale(now, &before).found, [found("v2")]);
}
