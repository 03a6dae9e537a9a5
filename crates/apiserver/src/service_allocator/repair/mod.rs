//! Repair of allocations: brings the allocated addresses and ports in line with the Services, after
//! a crash, after manual changes, and for data of servers without IPAddress objects.

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

/// Interval of the repair of all addresses; a Service is also checked when it changes.
const AGAIN: Duration = Duration::from_mins(1);
/// All ports are repaired every so many intervals.
const PORTS: u64 = 3;
const RETRY: Duration = Duration::from_secs(1);

/// Repairs the allocations of Services.
#[derive(Debug)]
pub(crate) struct AllocationRepair {
    ports: Arc<NodePorts>,
    /// Ports that are allocated without a Service: how many more times that must be seen before
    /// they are released.
    leaked_ports: HashMap<usize, u8>,
}

impl AllocationRepair {
    pub(crate) fn new(services: &ServiceAllocator) -> Self {
        Self { ports: services.ports.clone(), leaked_ports: HashMap::new() }
    }

    /// Repairs all ports once. Before that, no port can be allocated.
    pub(crate) async fn ports(&mut self, registry: &Registry) -> Result<(), Status> {
        ports::repair(registry, &self.ports, &mut self.leaked_ports).await
    }

    /// Repairs all addresses once.
    pub(crate) async fn addresses(&self, registry: &Registry) -> Result<(), Status> {
        addresses::repair(registry).await
    }

    /// Repairs at each interval, until the registry is dropped.
    pub(crate) async fn run(mut self, registry: Weak<Registry>) {
        for turn in 1_u64.. {
            let done = panics::contain("services", self.turn(&registry, turn)).await;
            let done = done.unwrap_or_else(|why| Err(Status::internal(why.to_string())));
            if let Err(status) = done {
                warn!(
                    why = status.message(),
                    "cannot repair the addresses and ports of Services; will retry"
                );
                sleep(RETRY).await;
            }
            if registry.strong_count() == 0 {
                return;
            }
        }
    }

    /// Follows changes of Services for one interval, then repairs everything.
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
