//! Addresses and ports of Services.

mod range;
mod taken;

use std::{
    collections::HashSet,
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
};

use api::core::Service;
use object::{Clock, Key, List, Status, View};
use schema::{Errors, Path};
use server::{Admission, Admit, Admitting, Operation};

pub(crate) use self::range::Range;
use self::taken::Taken;

/// Gives Services what they need and have not asked for by name, and refuses what
/// another has. What is taken is read from the Services themselves; what has been
/// given to writes that are still under way is remembered beside them.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) addresses: Range,
    pub(crate) ports: RangeInclusive<i32>,
    pub(crate) clock: Arc<dyn Clock>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Address(IpAddr),
    Port(i32),
}

impl Services {
    pub(crate) fn new(addresses: Range, ports: RangeInclusive<i32>, clock: Arc<dyn Clock>) -> Self {
        Self { addresses, ports, clock, taken: Arc::default() }
    }

    /// Chooses and remembers in one step, so that no two writes get the same.
    fn allocate(&self, admission: &mut Admission) -> Result<(), Status> {
        let now = self.clock.now();
        let mut known = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        known.refresh(admission.registry, now)?;
        let own = Key::new(&admission.namespace, &admission.name).to_string();
        let taken = |place: &Place| known.is(place, &own);
        let mut errs = Errors::default();
        let old = admission.old.map(Service::view);
        let mut service = Service::from(admission.object.clone());
        self.address(&mut service, &taken, &mut errs);
        self.node_ports(&mut service, old, &taken, &mut errs);
        if !errs.is_empty() {
            return Err(errs.status("", "Service", service.metadata().name()));
        }
        if !admission.dry_run {
            let had = old.map(places).unwrap_or_default();
            let new = places(&service).into_iter().filter(|place| !had.contains(place));
            known.promise(new, now);
        }
        admission.object = service.into();
        Ok(())
    }

    fn address(&self, service: &mut Service, taken: &dyn Fn(&Place) -> bool, errs: &mut Errors) {
        let spec = service.spec_mut();
        if spec.type_() == "ExternalName" || spec.cluster_ip() == "None" {
            return;
        }
        let at = Path::Root.field("spec");
        let family = if self.addresses.is_ipv4() { "IPv4" } else { "IPv6" };
        if spec.cluster_ip().is_empty() {
            let free = |ip: &IpAddr| !taken(&Place::Address(*ip));
            match self.addresses.dynamic().find(free) {
                Some(ip) => spec.set_cluster_ip(ip.to_string()),
                None => errs.push(
                    schema::ErrorType::Internal,
                    &at.field("clusterIPs"),
                    object::Value::Null,
                    "failed to allocate a serviceIP: range is full",
                ),
            }
        } else if let Ok(ip) = spec.cluster_ip().parse::<IpAddr>() {
            let clusters = at.field("clusterIPs");
            let text = [spec.cluster_ip()].into_iter().collect::<object::Value>();
            if !self.addresses.contains(ip) {
                errs.invalid(&clusters, text, format!(
                    "failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. \
                     The range of valid IPs is {}", self.addresses
                ));
            } else if taken(&Place::Address(ip)) {
                errs.invalid(
                    &clusters,
                    text,
                    format!("failed to allocate IP {ip}: provided IP is already allocated"),
                );
            }
        }
        if spec.cluster_ips().is_empty() {
            let ip = spec.cluster_ip().to_owned();
            spec.set_cluster_ips([ip.as_str()]);
        }
        if spec.ip_families().is_empty() {
            spec.set_ip_families([family]);
        }
        if spec.ip_family_policy().is_none() {
            spec.set_ip_family_policy("SingleStack");
        }
    }

    fn node_ports(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        taken: &dyn Fn(&Place) -> bool,
        errs: &mut Errors,
    ) {
        let spec = service.spec();
        let wanted = match spec.type_() {
            "NodePort" => true,
            "LoadBalancer" => spec.allocate_load_balancer_node_ports().unwrap_or(true),
            _ => false,
        };
        if !wanted {
            return;
        }
        let before: HashSet<i32> = old
            .map(|old| old.spec().ports().iter().map(|port| port.node_port()).collect())
            .unwrap_or_default();
        let mut ports: Vec<_> = spec.ports().iter().cloned().collect();
        let root = Path::Root.field("spec");
        let list = root.field("ports");
        for (at, port) in ports.iter().enumerate() {
            let n = port.node_port();
            if n == 0 || before.contains(&n) {
                continue;
            }
            let item = list.index(at);
            if !self.ports.contains(&n) {
                errs.invalid(&item.field("nodePort"), n, format!(
                    "provided port is not in the valid range. The range of valid ports is {}-{}",
                    self.ports.start(), self.ports.end()
                ));
            } else if taken(&Place::Port(n)) {
                errs.invalid(&item.field("nodePort"), n, "provided port is already allocated");
            }
        }
        let mut own: HashSet<i32> = ports.iter().map(|port| port.node_port()).collect();
        for (at, port) in ports.iter_mut().enumerate() {
            if port.node_port() != 0 {
                continue;
            }
            let free = |n: &i32| !own.contains(n) && !taken(&Place::Port(*n));
            match spread(&self.ports).find(free) {
                Some(n) => {
                    own.insert(n);
                    port.set_node_port(n);
                }
                None => errs.push(
                    schema::ErrorType::Internal,
                    &list.index(at).field("nodePort"),
                    object::Value::Null,
                    "failed to allocate a nodePort: range is full",
                ),
            }
        }
        service.spec_mut().set_ports(ports.into_iter().collect::<List<_>>());
    }
}

impl Admit for Services {
    fn name(&self) -> &'static str {
        "ServiceAllocation"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let wanted = admission.is("", "services") && admission.operation != Operation::Delete;
        let done = if wanted { self.allocate(admission) } else { Ok(()) };
        Box::pin(async move { done })
    }
}

/// What a Service has.
fn places(service: &Service) -> Vec<Place> {
    let spec = service.spec();
    let addresses = spec.cluster_ips().iter().chain([spec.cluster_ip()]);
    let addresses = addresses.filter_map(|ip| ip.parse().ok()).map(Place::Address);
    let ports = spec.ports().iter().map(|port| port.node_port()).filter(|n| *n != 0);
    addresses.chain(ports.map(Place::Port)).collect()
}

/// All ports, from a place that nobody foresees.
fn spread(ports: &RangeInclusive<i32>) -> impl Iterator<Item = i32> {
    let (first, count) = (*ports.start(), ports.end() - ports.start() + 1);
    let begin =
        i32::try_from(range::random() % u32::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0);
    (0..count).map(move |n| first + (begin + n) % count)
}
