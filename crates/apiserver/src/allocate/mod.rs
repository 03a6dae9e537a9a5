//! Addresses and ports of Services. They are taken before a Service is stored, where every
//! server sees it: an address by the creation of its IPAddress object, ports in one object for
//! all. It is better to lose some for a while than to give one twice: what was taken for a
//! write that nobody knows the end of is found and freed by the repair.

mod addresses;
mod bitmap;
mod families;
mod node_ports;
mod ports;
mod range;
mod repair;
mod tally;

use std::{net::IpAddr, ops::RangeInclusive, sync::Arc};

use api::core::{Service, ServicePort};
use object::{List, Status, Value, View};
use schema::{Errors, Path};
use server::{Admission, Claim, Claimed, Claiming, Operation, Outcome, Registry, Served, Settling};
use tokio::time::Instant;
use tracing::warn;

use self::tally::Tally;
use self::{
    addresses::{Addresses, Refused},
    node_ports::NodePorts,
    ports::Ports,
};
pub(crate) use self::{range::Range, repair::Repair, tally::Given};

/// Gives Services what they need and have not asked for by name, and refuses what another has.
#[derive(Debug)]
pub(crate) struct Services {
    /// The families of addresses that the cluster has; the first is that of who says nothing.
    families: Vec<&'static str>,
    ports: Arc<NodePorts>,
    tally: Tally,
}

/// What a Service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    addresses: Vec<String>,
    ports: Vec<i32>,
}

/// What one write takes and frees.
#[derive(Debug)]
struct Taken {
    all: Arc<NodePorts>,
    owner: (String, String),
    taken: Places,
    had: Places,
    has: Places,
}

impl Services {
    pub(crate) fn open(
        registry: &Registry,
        ranges: &[Range],
        ports: RangeInclusive<i32>,
    ) -> Result<Self, store::Error> {
        let families = ranges.iter().map(Range::family).collect();
        let ports = Arc::new(NodePorts::open(registry, ports)?);
        Ok(Self { families, ports, tally: Tally::default() })
    }

    async fn take(&self, write: &mut Admission<'_>) -> Result<Taken, Status> {
        let old = write.old.map(Service::view);
        let had = old.filter(|_| !write.dry_run).map(Places::of).unwrap_or_default();
        let owner = (write.namespace.to_string(), write.name.to_string());
        let mut taken = Taken {
            all: self.ports.clone(),
            owner,
            taken: Places::default(),
            has: had.clone(),
            had,
        };
        if write.operation == Operation::Delete || !write.subresource.is_empty() {
            return Ok(taken);
        }
        let mut service = Service::from(write.object.clone());
        let errs = families::settle(&mut service, old, &self.families);
        if !errs.is_empty() {
            return Err(errs.status("", "Service", service.metadata().name()));
        }
        let done = self.fill(write, &mut service, &mut taken).await;
        if let Err(status) = done {
            Box::new(taken).settle(write.registry, Outcome::Failed).await;
            return Err(status);
        }
        taken.has = Places::of(&service);
        if write.dry_run {
            // Nothing changes hands.
            (taken.has, taken.taken) = (Places::default(), Places::default());
        }
        write.object = service.into();
        Ok(taken)
    }

    async fn fill(
        &self,
        write: &Admission<'_>,
        service: &mut Service,
        taken: &mut Taken,
    ) -> Result<(), Status> {
        let old = write.old.map(Service::view);
        let addresses = Addresses {
            registry: write.registry,
            owner: (&taken.owner.0, &taken.owner.1),
            ranges: addresses::ranges(write.registry, true)?,
            dry_run: write.dry_run,
        };
        for (at, family) in families::wanted(service, old) {
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
                let mut ports = Ports::new(&self.ports.range, map, write.dry_run);
                let mut service = service.clone();
                ports.allot(&mut service, old)?;
                Ok((service, ports.own))
            };
            let (with, own) = self.ports.change(write.registry, plan).await?;
            *service = with;
            taken.taken.ports = own;
        }
        Ok(())
    }
}

/// Takes one address and writes it into the Service. Gives it, unless the Service had it before.
async fn address(
    addresses: &Addresses<'_>,
    service: &mut Service,
    at: usize,
    family: &str,
) -> Result<Option<String>, Status> {
    let name = service.metadata().name().to_owned();
    let spec = service.spec_mut();
    let mut list: Vec<String> = spec.cluster_ips().iter().map(str::to_owned).collect();
    list.resize(list.len().max(at + 1), String::new());
    let invalid = |list: &[String], why: String| {
        let mut errs = Errors::default();
        let (path, value) = (Path::Root.field("spec"), list.iter().map(String::as_str));
        errs.invalid(&path.field("clusterIPs"), value.collect::<Value>(), why);
        errs.status("", "Service", &name)
    };
    let taken = if list[at].is_empty() {
        let ip = addresses.any(family).await.map_err(|refused| match refused {
            Refused::Full => Status::internal(format!(
                "failed to allocate a serviceIP for Service {name:?}: range is full"
            )),
            Refused::For(why) => invalid(&list, format!("failed to allocate IP: {why}")),
        })?;
        list[at] = ip.to_string();
        Some(list[at].clone())
    } else {
        let ip: IpAddr = list[at]
            .parse()
            .map_err(|_| Status::internal(format!("failed to parse service IP {:?}", list[at])))?;
        let taken = addresses.exactly(ip).await;
        taken.map_err(|why| invalid(&list, format!("failed to allocate IP {}: {why}", list[at])))?
    };
    if at == 0 {
        spec.set_cluster_ip(list[0].as_str());
    }
    spec.set_cluster_ips(list.iter().map(String::as_str).collect::<List<String>>());
    Ok(taken)
}

impl Claim for Services {
    fn concerns(&self, served: &Served) -> bool {
        let names = &served.definition.names;
        names.group.is_empty() && names.plural == "services"
    }

    fn claim<'a>(&'a self, write: &'a mut Admission<'_>) -> Claiming<'a> {
        Box::pin(async move {
            let taken: Box<dyn Claimed> = Box::new(self.take(write).await?);
            Ok(taken)
        })
    }
}

impl Claimed for Taken {
    fn settle(self: Box<Self>, registry: &Registry, outcome: Outcome) -> Settling<'_> {
        Box::pin(async move {
            let mut free = match outcome {
                Outcome::Stored => self.had.without(&self.has),
                Outcome::Failed => self.taken,
                Outcome::Gone => self.had.with(&self.has),
                Outcome::Unknown => return,
            };
            let owner = (self.owner.0.as_str(), self.owner.1.as_str());
            // Of two who make the same Service one fails, but its places are the other's too.
            if let Ok(held) = stored(registry, owner) {
                free = free.without(&held);
            }
            let mut done = self.all.release(registry, &free.ports).await;
            for name in &free.addresses {
                done = done.and(addresses::release(registry, owner, name).await);
            }
            if let Err(status) = done {
                warn!(why = status.message(), "what a service had is freed by the repair");
            }
        })
    }
}

/// What the stored Service has.
fn stored(registry: &Registry, (namespace, name): (&str, &str)) -> Result<Places, Status> {
    let kind = registry.kind("", "services")?;
    Ok(Places::of(Service::view(&registry.get(&kind, namespace, name)?.object)))
}

impl Places {
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
