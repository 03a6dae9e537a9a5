//! What is taken and what Services have are brought in line again: after a crash, after
//! somebody's own changes, and with the data of servers that did not keep such books.

mod addresses;
mod events;
mod ports;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use api::core::Service;
use object::{Status, View};
use server::{ListOptions, Registry, Selection};
use store::{Cursor, Topic};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use super::{NodePorts, ServiceAllocator};

/// All addresses are looked at so often; a Service also when it changes.
const AGAIN: Duration = Duration::from_mins(1);
/// All ports are looked at every so many times.
const PORTS: u64 = 3;
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct AllocationRepair {
    ports: Arc<NodePorts>,
    /// Ports that are taken and nobody has: how often that must be seen before they are freed.
    leaked_ports: HashMap<usize, u8>,
}

impl AllocationRepair {
    pub(crate) fn new(services: &ServiceAllocator) -> Self {
        Self { ports: services.ports.clone(), leaked_ports: HashMap::new() }
    }

    /// Looks at all ports once. Before that, nobody gets one.
    pub(crate) async fn ports(&mut self, registry: &Registry) -> Result<(), Status> {
        ports::repair(registry, &self.ports, &mut self.leaked_ports).await
    }

    /// Looks at all addresses once.
    pub(crate) async fn addresses(&self, registry: &Registry) -> Result<(), Status> {
        addresses::repair(registry).await
    }

    /// Looks again and again as long as the registry is there.
    pub(crate) async fn run(mut self, registry: Weak<Registry>) {
        for turn in 1_u64.. {
            let done = panics::contain("services", self.turn(&registry, turn)).await;
            let done = done.unwrap_or_else(|why| Err(Status::internal(why.to_string())));
            if let Err(status) = done {
                warn!(why = status.message(), "places of services cannot be looked at now");
                sleep(RETRY).await;
            }
            if registry.strong_count() == 0 {
                return;
            }
        }
    }

    /// Follows the changes for a while, then looks at all.
    async fn turn(&mut self, registry: &Weak<Registry>, turn: u64) -> Result<(), Status> {
        let Some(strong) = registry.upgrade() else { return Ok(()) };
        let kind = strong.kind("", "services")?;
        let page = ListOptions { limit: 1, ..ListOptions::default() };
        let newest = strong.list(&kind, &Selection::default(), &page)?.revision;
        drop(strong);
        let cursor = Cursor::open(kind.objects()?, Topic::All, newest);
        let mut cursor = cursor.map_err(|error| Status::unavailable(error.to_string()))?;
        let until = Instant::now() + AGAIN;
        while let Ok(Ok(event)) = timeout_at(until, cursor.next()).await {
            let Some(strong) = registry.upgrade() else { return Ok(()) };
            if let Some(new) = &event.new {
                addresses::repair_one(&strong, Service::view(&new.object)).await?;
            }
        }
        let Some(strong) = registry.upgrade() else { return Ok(()) };
        if turn.is_multiple_of(PORTS) {
            ports::repair(&strong, &self.ports, &mut self.leaked_ports).await?;
        }
        addresses::repair(&strong).await
    }
}
