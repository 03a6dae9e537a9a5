//! Allocation of cluster IPs and node ports of Services. They are allocated before a Service is
//! stored, visibly to every server: an address by creating its IPAddress object, ports in one
//! shared bitmap. Leaking one for a while is better than allocating it twice: what was allocated
//! for a write with an unknown outcome is found and released by the repair.

mod addresses;
mod bitmap;
mod ip_families;
mod metrics;
mod node_ports;
mod ports;
mod range;
mod repair;

use std::{net::IpAddr, ops::RangeInclusive, sync::Arc};

use api::core::{Service, ServicePort};
use object::{List, Status, Value, View};
use schema::{ErrorList, FieldPath};
use server::{
    AdmissionAttributes, AllocateFuture, Allocation, Allocator, FinishFuture, Operation, Registry,
    ServedResource, WriteOutcome,
};
use tokio::time::Instant;
use tracing::warn;

use self::metrics::AllocatorMetrics;
use self::{
    addresses::{AllocateError, IpAllocator},
    node_ports::NodePorts,
    ports::PortAllocation,
};
pub(crate) use self::{
    metrics::AllocatorMetricsSource, range::ServiceCidr, repair::AllocationRepair,
};

/// Allocates the addresses and ports that a Service needs, and rejects requested ones that another
/// Service has.
#[derive(Debug)]
pub(crate) struct ServiceAllocator {
    /// The IP families of the cluster, the default one first.
    families: Vec<&'static str>,
    ports: Arc<NodePorts>,
    tally: AllocatorMetrics,
}

/// The addresses and ports of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ServiceResources {
    addresses: Vec<String>,
    ports: Vec<i32>,
}

/// The allocation of one write: what it allocates, and what the Service had and will have.
#[derive(Debug)]
struct ServiceAllocation {
    all: Arc<NodePorts>,
    owner: (String, String),
    taken: ServiceResources,
    had: ServiceResources,
    has: ServiceResources,
}

impl ServiceAllocator {
    pub(crate) fn open(
        registry: &Registry,
        ranges: &[ServiceCidr],
        ports: RangeInclusive<i32>,
    ) -> Result<Self, store::Error> {
        let families = ranges.iter().map(ServiceCidr::family).collect();
        let ports = Arc::new(NodePorts::open(registry, ports)?);
        Ok(Self { families, ports, tally: AllocatorMetrics::default() })
    }

    async fn take(&self, write: &mut AdmissionAttributes<'_>) -> Result<ServiceAllocation, Status> {
        let old = write.old.map(Service::view);
        let had = old.filter(|_| !write.dry_run).map(ServiceResources::of).unwrap_or_default();
        let owner = (write.namespace.to_string(), write.name.to_string());
        let mut taken = ServiceAllocation {
            all: self.ports.clone(),
            owner,
            taken: ServiceResources::default(),
            has: had.clone(),
            had,
        };
        if write.operation == Operation::Delete || !write.subresource.is_empty() {
            return Ok(taken);
        }
        let mut service = Service::from(write.object.clone());
        let errs = ip_families::default_families(&mut service, old, &self.families);
        if !errs.is_empty() {
            return Err(errs.into_status("", "Service", service.metadata().name()));
        }
        let done = self.fill(write, &mut service, &mut taken).await;
        if let Err(status) = done {
            Box::new(taken).finish(write.registry, WriteOutcome::Failed).await;
            return Err(status);
        }
        taken.has = ServiceResources::of(&service);
        if write.dry_run {
            // A dry run allocates and releases nothing.
            (taken.has, taken.taken) = (ServiceResources::default(), ServiceResources::default());
        }
        write.object = service.into();
        Ok(taken)
    }

    async fn fill(
        &self,
        write: &AdmissionAttributes<'_>,
        service: &mut Service,
        taken: &mut ServiceAllocation,
    ) -> Result<(), Status> {
        let old = write.old.map(Service::view);
        let addresses = IpAllocator {
            registry: write.registry,
            owner: (&taken.owner.0, &taken.owner.1),
            ranges: addresses::ranges(write.registry, true)?,
            dry_run: write.dry_run,
        };
        for (at, family) in ip_families::missing_ips(service, old) {
            let named =
                service.spec().cluster_ips().iter().nth(at).is_some_and(|ip| !ip.is_empty());
            let began = Instant::now();
            let own = address(&addresses, service, at, &family).await;
            let range = addresses.ranges.iter().find(|range| range.family() == family);
            if let Some(range) = range.filter(|_| !write.dry_run) {
                self.tally.count(range, named, own.is_ok(), began);
            }
            let own = own?;
            taken.taken.addresses.extend(own.filter(|_| !write.dry_run));
        }
        let spec = service.spec();
        if spec.needs_node_ports() || spec.needs_health_check() {
            let plan = |map: &mut bitmap::Bitmap| {
                let mut ports = PortAllocation::new(&self.ports.range, map, write.dry_run);
                let mut service = service.clone();
                ports.allocate_for(&mut service, old)?;
                Ok((service, ports.own))
            };
            let (with, own) = self.ports.change(write.registry, plan).await?;
            *service = with;
            taken.taken.ports = own;
        }
        Ok(())
    }
}

/// Allocates one address and sets it in the Service. Returns it, unless the Service already had it.
async fn address(
    addresses: &IpAllocator<'_>,
    service: &mut Service,
    at: usize,
    family: &str,
) -> Result<Option<String>, Status> {
    let name = service.metadata().name().to_owned();
    let spec = service.spec_mut();
    let mut list: Vec<String> = spec.cluster_ips().iter().map(str::to_owned).collect();
    list.resize(list.len().max(at + 1), String::new());
    let invalid = |list: &[String], why: String| {
        let mut errs = ErrorList::default();
        let (path, value) = (FieldPath::Root.field("spec"), list.iter().map(String::as_str));
        errs.invalid(&path.field("clusterIPs"), value.collect::<Value>(), why);
        errs.into_status("", "Service", &name)
    };
    let taken = if list[at].is_empty() {
        let ip = addresses.allocate_next(family).await.map_err(|refused| match refused {
            AllocateError::Full => Status::internal(format!(
                "failed to allocate a serviceIP for Service {name:?}: range is full"
            )),
            AllocateError::For(why) => invalid(&list, format!("failed to allocate IP: {why}")),
        })?;
        list[at] = ip.to_string();
        Some(list[at].clone())
    } else {
        let ip: IpAddr = list[at]
            .parse()
            .map_err(|_| Status::internal(format!("failed to parse service IP {:?}", list[at])))?;
        let taken = addresses.allocate(ip).await;
        taken.map_err(|why| invalid(&list, format!("failed to allocate IP {}: {why}", list[at])))?
    };
    if at == 0 {
        spec.set_cluster_ip(list[0].as_str());
    }
    spec.set_cluster_ips(list.iter().map(String::as_str).collect::<List<String>>());
    Ok(taken)
}

impl Allocator for ServiceAllocator {
    fn applies_to(&self, served: &ServedResource) -> bool {
        let names = &served.definition.names;
        names.group.is_empty() && names.plural == "services"
    }

    fn allocate<'a>(&'a self, write: &'a mut AdmissionAttributes<'_>) -> AllocateFuture<'a> {
        Box::pin(async move {
            let taken: Box<dyn Allocation> = Box::new(self.take(write).await?);
            Ok(taken)
        })
    }
}

impl Allocation for ServiceAllocation {
    fn finish(self: Box<Self>, registry: &Registry, outcome: WriteOutcome) -> FinishFuture<'_> {
        Box::pin(async move {
            let mut free = match outcome {
                WriteOutcome::Stored => self.had.without(&self.has),
                WriteOutcome::Failed => self.taken,
                WriteOutcome::Gone => self.had.with(&self.has),
                WriteOutcome::Unknown => return,
            };
            let owner = (self.owner.0.as_str(), self.owner.1.as_str());
            // Of two concurrent creates of the same Service one fails, but its allocations may
            // belong to the other.
            if let Ok(held) = stored(registry, owner) {
                free = free.without(&held);
            }
            let mut done = self.all.release(registry, &free.ports).await;
            for name in &free.addresses {
                done = done.and(addresses::release(registry, owner, name).await);
            }
            if let Err(status) = done {
                warn!(
                    why = status.message(),
                    "cannot release the addresses and ports of a Service; the repair loop will"
                );
            }
        })
    }
}

/// The addresses and ports of the stored Service.
fn stored(
    registry: &Registry,
    (namespace, name): (&str, &str),
) -> Result<ServiceResources, Status> {
    let kind = registry.kind("", "services")?;
    Ok(ServiceResources::of(Service::view(&registry.get(&kind, namespace, name)?.object)))
}

impl ServiceResources {
    fn of(service: &Service) -> Self {
        let spec = service.spec();
        let addresses = spec.cluster_ips().iter().filter(|_| spec.needs_cluster_ip());
        let addresses = addresses.filter_map(|ip| ip.parse::<IpAddr>().ok());
        let ports = spec.ports().iter().map(ServicePort::node_port);
        let health = spec.health_check_node_port();
        let ports = ports.chain(spec.needs_health_check().then_some(health));
        Self {
            addresses: addresses.map(|ip| ip.to_string()).collect(),
            ports: ports.filter(|port| *port != 0).collect(),
        }
    }

    fn without(&self, other: &Self) -> Self {
        let Self { mut addresses, mut ports } = self.clone();
        addresses.retain(|own| !other.addresses.contains(own));
        ports.retain(|own| !other.ports.contains(own));
        Self { addresses, ports }
    }

    fn with(self, other: &Self) -> Self {
        let Self { addresses, ports } = other.without(&self);
        Self {
            addresses: self.addresses.into_iter().chain(addresses).collect(),
            ports: self.ports.into_iter().chain(ports).collect(),
        }
    }
}
