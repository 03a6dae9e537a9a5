//! Addresses and ports of Services.

mod families;
mod range;
mod repair;
mod taken;

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
};

use api::core::{Service, ServicePort};
use object::{Clock, Key, List, Object, Status, View};
use schema::{Errors, Path};
use server::{Admission, Admit, Admitting, Operation, Page, Selection};

use self::taken::Taken;
pub(crate) use self::{range::Range, repair::run as follow_addresses};

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
        let family = if self.addresses.is_ipv4() { "IPv4" } else { "IPv6" };
        errs.0.append(&mut families::settle(&mut service, old, family).0);
        if errs.is_empty() {
            let ranges = self.ranges(admission);
            self.address(&mut service, &ranges, &taken, &mut errs);
            self.node_ports(&mut service, old, (admission.dry_run, &taken), &mut errs)?;
        }
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

    /// The range of the flags, and those of ServiceCIDRs that are there to stay.
    fn ranges(&self, admission: &Admission) -> Vec<Range> {
        let mut ranges = vec![self.addresses];
        let Ok(kind) = admission.registry.kind("networking.k8s.io", "servicecidrs") else {
            return ranges;
        };
        let all = admission.registry.list(&kind, &Selection::default(), &Page::default());
        for version in all.map(|list| list.items).unwrap_or_default() {
            if Object::view(&version.object).metadata().is_terminating() {
                continue;
            }
            let given = version.object.get("spec").get("cidrs").items();
            let given = given.iter().filter_map(object::Value::as_str);
            let given = given.filter_map(|text| text.parse::<Range>().ok());
            ranges.extend(given.filter(|range| *range != self.addresses));
        }
        ranges
    }

    fn address(
        &self,
        service: &mut Service,
        ranges: &[Range],
        taken: &dyn Fn(&Place) -> bool,
        errs: &mut Errors,
    ) {
        let spec = service.spec_mut();
        if spec.type_() == "ExternalName" || spec.cluster_ip() == "None" {
            return;
        }
        let at = Path::Root.field("spec");
        if spec.cluster_ip().is_empty() {
            let free = |ip: &IpAddr| !taken(&Place::Address(*ip));
            let own = |range: &&Range| range.is_ipv4() == self.addresses.is_ipv4();
            match ranges.iter().filter(own).find_map(|range| range.dynamic().find(free)) {
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
            if !ranges.iter().any(|range| range.contains(ip)) {
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
    }

    /// Ports on all nodes, also the one where a load balancer asks for the state of a
    /// node. A dry run takes none, so that it may have any.
    fn node_ports(
        &self,
        service: &mut Service,
        old: Option<&Service>,
        (dry_run, taken): (bool, &dyn Fn(&Place) -> bool),
        errs: &mut Errors,
    ) -> Result<(), Status> {
        let spec = service.spec_mut();
        let more =
            spec.type_() == "NodePort" || spec.allocate_load_balancer_node_ports().unwrap_or(true);
        let mut ports = Ports { all: &self.ports, more, dry_run, taken, own: HashSet::new() };
        let list = Path::Root.field("spec");
        let list = list.field("ports");
        if spec.needs_node_ports() && !spec.ports().is_empty() {
            match old {
                None => ports.give(spec.ports_mut(), &list, errs)?,
                Some(old) => ports.keep(spec.ports_mut(), old, &list, errs)?,
            }
        }
        let kept = old.is_some_and(|old| old.spec().needs_health_check());
        if spec.needs_health_check() && !kept {
            let port = spec.health_check_node_port();
            if port == 0 {
                spec.set_health_check_node_port(ports.next("a HealthCheck NodePort")?);
            } else if let Some(wrong) = ports.wrong(port) {
                let why =
                    format!("failed to allocate requested HealthCheck NodePort {port}: {wrong}");
                return Err(Status::internal(why));
            }
        }
        Ok(())
    }
}

/// The ports that one Service takes.
struct Ports<'a> {
    all: &'a RangeInclusive<i32>,
    /// Whether it gets ports that it has not asked for.
    more: bool,
    dry_run: bool,
    taken: &'a dyn Fn(&Place) -> bool,
    own: HashSet<i32>,
}

impl Ports<'_> {
    /// To a new service: what has the same port in the service has it on the nodes.
    fn give(
        &mut self,
        all: &mut List<ServicePort>,
        list: &Path,
        errs: &mut Errors,
    ) -> Result<(), Status> {
        let wanted: Vec<_> = all.iter().map(|port| (port.port(), port.node_port())).collect();
        let mut given: HashMap<i32, i32> = HashMap::new();
        for (at, port) in all.iter_mut().enumerate() {
            let (own, n) = (port.port(), port.node_port());
            if n == 0 && !self.more {
                continue;
            }
            let asked = match given.get(&own) {
                Some(same) if n == 0 || n == *same => {
                    port.set_node_port(*same);
                    continue;
                }
                Some(_) => n,
                None => wanted.iter().find(|it| it.0 == own && it.1 != 0).map_or(0, |it| it.1),
            };
            let node = if asked == 0 { self.next("a nodePort")? } else { asked };
            if let Some(wrong) = self.wrong(asked).filter(|_| asked != 0) {
                errs.invalid(&list.index(at).field("nodePort"), asked, wrong);
            }
            self.own.insert(node);
            given.entry(own).or_insert(node);
            port.set_node_port(node);
        }
        Ok(())
    }

    /// To a service that has some already.
    fn keep(
        &mut self,
        all: &mut List<ServicePort>,
        old: &Service,
        list: &Path,
        errs: &mut Errors,
    ) -> Result<(), Status> {
        let before: HashSet<i32> = old.spec().ports().iter().map(ServicePort::node_port).collect();
        let mut pairs = Vec::new();
        for (at, port) in all.iter_mut().enumerate() {
            let n = port.node_port();
            if n == 0 && !self.more {
                continue;
            }
            if n != 0 && !before.contains(&n) && !self.own.contains(&n) {
                if let Some(wrong) = self.wrong(n) {
                    errs.invalid(&list.index(at).field("nodePort"), n, wrong);
                }
                self.own.insert(n);
            } else if n == 0 {
                let next = self.next("a nodePort")?;
                port.set_node_port(next);
            }
            let pair = (port.protocol().to_owned(), port.node_port());
            if pairs.contains(&pair) {
                let why = format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1);
                return Err(Status::failure(500, "", why));
            }
            pairs.push(pair);
        }
        Ok(())
    }

    /// Why this port cannot be had.
    fn wrong(&self, port: i32) -> Option<String> {
        if self.dry_run {
            let is_taken = self.own.contains(&port);
            is_taken.then(|| "provided port is already allocated".to_owned())
        } else if !self.all.contains(&port) {
            let (first, last) = (self.all.start(), self.all.end());
            Some(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ))
        } else {
            let is_taken = (self.taken)(&Place::Port(port)) || self.own.contains(&port);
            is_taken.then(|| "provided port is already allocated".to_owned())
        }
    }

    fn next(&mut self, what: &str) -> Result<i32, Status> {
        let free = |n: &i32| !self.own.contains(n) && !(self.taken)(&Place::Port(*n));
        let port = if self.dry_run {
            (DRY_RUN..=i32::MAX).find(|n| !self.own.contains(n))
        } else {
            spread(self.all).find(free)
        };
        let full = || Status::internal(format!("failed to allocate {what}: range is full"));
        let port = port.ok_or_else(full)?;
        self.own.insert(port);
        Ok(port)
    }
}

/// The first port that a dry run gives: none that is ever given.
const DRY_RUN: i32 = 32_769;

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
    let ports = spec.ports().iter().map(api::core::ServicePort::node_port).filter(|n| *n != 0);
    addresses.chain(ports.map(Place::Port)).collect()
}

/// All ports, from a place that nobody foresees.
fn spread(ports: &RangeInclusive<i32>) -> impl Iterator<Item = i32> {
    let (first, count) = (*ports.start(), ports.end() - ports.start() + 1);
    let begin =
        i32::try_from(range::random() % u32::try_from(count.max(1)).unwrap_or(1)).unwrap_or(0);
    (0..count).map(move |n| first + (begin + n) % count)
}
