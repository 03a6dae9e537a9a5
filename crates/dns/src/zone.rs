//! The zone of the cluster domain in memory, according to the Kubernetes DNS specification 1.1.
//!
//! ```text
//!  web.shop.svc.cluster.local                a Service: cluster IPs, endpoints, or a CNAME
//!  _http._tcp.web.shop.svc.cluster.local     a port of it (SRV)
//!  web-0.web.shop.svc.cluster.local          an endpoint of it
//!  10-244-0-7.shop.pod.cluster.local         a pod IP
//! ```

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use hickory_proto::rr::{
    Name, RData, Record, RecordType,
    rdata::{CNAME, PTR, SOA, SRV, TXT},
};

use crate::service_entry::{EndpointHost, Port, ServiceEntry, ServiceKind};

/// TTL of all records in seconds.
pub(crate) const TTL: u32 = 5;
const VERSION: &str = "1.1.0";
const TOTAL_SRV_WEIGHT: usize = 100;
/// Maximum number of records of an answer: more than the largest message holds.
const MOST_RECORDS: usize = 4096;

/// The result of looking up a name.
#[derive(Debug, PartialEq)]
pub(crate) enum Lookup {
    /// The name is outside the cluster domain.
    NotInZone,
    /// The name does not exist.
    NxDomain,
    /// Answer records, possibly none of the requested type, and additional records.
    Records(Vec<Record>, Vec<Record>),
    /// The name is an alias.
    Cname(Name),
}

/// The records of the cluster domain.
#[derive(Debug)]
pub(crate) struct Zone {
    domain: Name,
    /// The number of changes so far.
    serial: u32,
    namespaces: HashSet<Box<str>>,
    services: HashMap<Box<str>, HashMap<Box<str>, ServiceEntry>>,
    reverse: HashMap<IpAddr, Vec<Name>>,
}

impl Zone {
    pub(crate) fn new(domain: &Name) -> Self {
        Self {
            domain: domain.to_lowercase(),
            serial: 1,
            namespaces: HashSet::new(),
            services: HashMap::new(),
            reverse: HashMap::new(),
        }
    }

    pub(crate) fn set_namespace(&mut self, name: &str, exists: bool) {
        self.serial = self.serial.wrapping_add(1);
        if exists {
            self.namespaces.insert(name.into());
        } else {
            self.namespaces.remove(name);
        }
    }

    /// Replaces the data of a Service; `None` removes it.
    pub(crate) fn set_service(&mut self, namespace: &str, name: &str, entry: Option<ServiceEntry>) {
        let old = self.services.get(namespace).and_then(|services| services.get(name));
        if old == entry.as_ref() {
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        let at = [name, namespace];
        for (ip, target) in old.map(|old| self.ptr_names(at, old)).unwrap_or_default() {
            if let Some(names) = self.reverse.get_mut(&ip) {
                names.retain(|name| *name != target);
                if names.is_empty() {
                    self.reverse.remove(&ip);
                }
            }
        }
        let Some(entry) = entry else {
            if let Some(services) = self.services.get_mut(namespace) {
                services.remove(name);
                if services.is_empty() {
                    self.services.remove(namespace);
                }
            }
            return;
        };
        for (ip, target) in self.ptr_names(at, &entry) {
            self.reverse.entry(ip).or_default().push(target);
        }
        self.services.entry(namespace.into()).or_default().insert(name.into(), entry);
    }

    pub(crate) fn lookup(&self, asked: &Name, kind: RecordType) -> Lookup {
        let name = asked.to_lowercase();
        if !self.domain.zone_of(&name) {
            return self.lookup_ptr(asked, kind);
        }
        let own = usize::from(name.num_labels().saturating_sub(self.domain.num_labels()));
        let mut labels = [""; 5];
        if own > labels.len() {
            return Lookup::NxDomain;
        }
        for (slot, label) in labels.iter_mut().zip(name.iter().take(own)) {
            let Ok(label) = str::from_utf8(label) else { return Lookup::NxDomain };
            *slot = label;
        }
        let question = ZoneQuery { zone: self, asked, kind };
        match *labels.get(..own).unwrap_or_default() {
            [] if kind == RecordType::SOA => Lookup::Records(vec![self.soa()], Vec::new()),
            [] | ["svc" | "pod"] => no_data(),
            ["dns-version"] => question.version(),
            [namespace, "svc" | "pod"] => self.in_namespace(namespace, no_data),
            [ip, namespace, "pod"] => self.in_namespace(namespace, || question.pod(ip)),
            [ref inner @ .., service, namespace, "svc"] => {
                let entry = self.services.get(namespace).and_then(|all| all.get(service));
                entry.map_or(Lookup::NxDomain, |entry| {
                    question.service(entry, inner, service, namespace)
                })
            }
            _ => Lookup::NxDomain,
        }
    }

    /// The SOA record, for negative answers.
    pub(crate) fn soa(&self) -> Record {
        let below = |label: &str, of: &Name| of.prepend_label(label).unwrap_or_else(|_| of.clone());
        let server = below("ns", &below("dns", &self.domain));
        let person = below("hostmaster", &self.domain);
        let soa = SOA::new(server, person, self.serial, 7200, 1800, 86_400, TTL);
        Record::from_rdata(self.domain.clone(), TTL, RData::SOA(soa))
    }

    fn in_namespace(&self, name: &str, then: impl FnOnce() -> Lookup) -> Lookup {
        if self.namespaces.contains(name) { then() } else { Lookup::NxDomain }
    }

    /// Looks up a reverse name. IP addresses unknown to the cluster are not in the zone.
    fn lookup_ptr(&self, asked: &Name, kind: RecordType) -> Lookup {
        let names = asked.parse_arpa_name().ok().and_then(|range| {
            let whole = range.prefix_len() == range.max_prefix_len();
            self.reverse.get(&range.addr()).filter(|_| whole)
        });
        match names {
            None => Lookup::NotInZone,
            Some(names) if kind == RecordType::PTR => {
                let each = names.iter().map(|name| RData::PTR(PTR(name.clone())));
                records(asked, each)
            }
            Some(_) => no_data(),
        }
    }

    /// The IP addresses that have PTR records for the Service, with the names.
    fn ptr_names(&self, at: [&str; 2], entry: &ServiceEntry) -> Vec<(IpAddr, Name)> {
        let mut all = Vec::new();
        if let ServiceKind::ClusterIp { ips, .. } = &entry.kind {
            all.extend(
                self.name(&at)
                    .map(|name| ips.iter().map(move |ip| (*ip, name.clone())))
                    .into_iter()
                    .flatten(),
            );
        }
        for host in entry.hosts.iter().filter(|host| host.has_hostname) {
            let Some(name) = self.name(&[&host.label, at[0], at[1]]) else { continue };
            all.extend(host.ips.iter().map(|ip| (*ip, name.clone())));
        }
        all
    }

    /// The full name of something below `svc`.
    fn name(&self, labels: &[&str]) -> Option<Name> {
        let all = labels.iter().map(|label| label.as_bytes()).chain([&b"svc"[..]]);
        Name::from_labels(all.chain(self.domain.iter())).ok()
    }
}

struct ZoneQuery<'a> {
    zone: &'a Zone,
    asked: &'a Name,
    kind: RecordType,
}

impl ZoneQuery<'_> {
    fn version(&self) -> Lookup {
        match self.kind {
            RecordType::TXT => {
                records(self.asked, [RData::TXT(TXT::new(vec![VERSION.to_owned()]))].into_iter())
            }
            _ => no_data(),
        }
    }

    /// The label contains the address; whether a pod has it is not checked.
    fn pod(&self, label: &str) -> Lookup {
        let ip = label.replace('-', ".").parse().map(IpAddr::V4);
        let ip = ip.or_else(|_| label.replace('-', ":").parse().map(IpAddr::V6));
        ip.map_or(Lookup::NxDomain, |ip| self.addresses(std::iter::once(ip)))
    }

    fn service(
        &self,
        entry: &ServiceEntry,
        inner: &[&str],
        service: &str,
        namespace: &str,
    ) -> Lookup {
        let at = [service, namespace];
        match (&entry.kind, inner) {
            (ServiceKind::ExternalName(to), []) => to.clone().map_or_else(no_data, Lookup::Cname),
            (ServiceKind::Headless, []) if entry.hosts.is_empty() => Lookup::NxDomain,
            (_, []) if self.kind == RecordType::SRV => self.srv(entry, at, |_| true),
            (ServiceKind::ClusterIp { ips, .. }, []) => self.addresses(ips.iter().copied()),
            (ServiceKind::Headless, []) => {
                self.addresses(entry.hosts.iter().flat_map(|host| host.ips.iter().copied()))
            }
            (_, [label]) => match label.strip_prefix('_') {
                Some(protocol) => {
                    let some = |port: &&Port| *port.protocol == *protocol && !port.name.is_empty();
                    if all_ports(entry).any(|port| some(&port)) {
                        no_data()
                    } else {
                        Lookup::NxDomain
                    }
                }
                None => entry.host(label).map_or(Lookup::NxDomain, |host| self.host(host, at)),
            },
            (_, [port, protocol]) => match (port.strip_prefix('_'), protocol.strip_prefix('_')) {
                (Some(port), Some(protocol)) if !port.is_empty() => {
                    self.srv(entry, at, |it| *it.name == *port && *it.protocol == *protocol)
                }
                _ => Lookup::NxDomain,
            },
            _ => Lookup::NxDomain,
        }
    }

    fn host(&self, host: &EndpointHost, at: [&str; 2]) -> Lookup {
        if self.kind != RecordType::SRV {
            return self.addresses(host.ips.iter().copied());
        }
        let Some(target) = self.zone.name(&[&host.label, at[0], at[1]]) else { return no_data() };
        let each = host.ports.iter().map(|port| (port.number, target.clone())).collect();
        self.srv_records(each, addresses_of(&target, &host.ips))
    }

    /// The SRV records of the ports that `meant` selects.
    fn srv(&self, entry: &ServiceEntry, at: [&str; 2], meant: impl Fn(&Port) -> bool) -> Lookup {
        let (mut places, mut helpful) = (Vec::new(), Vec::new());
        match &entry.kind {
            ServiceKind::ClusterIp { ips, ports } => {
                let Some(target) = self.zone.name(&at) else { return Lookup::NxDomain };
                let each = ports.iter().filter(|port| meant(port));
                places.extend(each.map(|port| (port.number, target.clone())));
                helpful = addresses_of(&target, ips);
            }
            ServiceKind::Headless => {
                for host in entry.hosts.iter().take(MOST_RECORDS) {
                    let each = host.ports.iter().filter(|port| meant(port));
                    let Some(target) = self.zone.name(&[&host.label, at[0], at[1]]) else {
                        continue;
                    };
                    places.extend(each.map(|port| (port.number, target.clone())));
                    if helpful.len() < MOST_RECORDS {
                        helpful.extend(addresses_of(&target, &host.ips));
                    }
                }
            }
            ServiceKind::ExternalName(_) => {}
        }
        match (places.is_empty(), self.kind) {
            (true, _) => Lookup::NxDomain,
            (false, RecordType::SRV) => self.srv_records(places, helpful),
            (false, _) => no_data(),
        }
    }

    fn srv_records(&self, places: Vec<(u16, Name)>, helpful: Vec<Record>) -> Lookup {
        let weight = (TOTAL_SRV_WEIGHT / places.len().max(1)).max(1);
        let weight = u16::try_from(weight).unwrap_or(u16::MAX);
        let each =
            places.into_iter().map(|(port, target)| RData::SRV(SRV::new(0, weight, port, target)));
        match records(self.asked, each) {
            Lookup::Records(answers, _) => Lookup::Records(answers, helpful),
            other => other,
        }
    }

    fn addresses(&self, ips: impl Iterator<Item = IpAddr>) -> Lookup {
        let wanted = |ip: &IpAddr| match self.kind {
            RecordType::A => ip.is_ipv4(),
            RecordType::AAAA => ip.is_ipv6(),
            _ => false,
        };
        records(self.asked, ips.filter(wanted).map(RData::from))
    }
}

/// A CNAME record.
pub(crate) fn cname_record(name: &Name, target: &Name) -> Record {
    Record::from_rdata(name.clone(), TTL, RData::CNAME(CNAME(target.clone())))
}

fn all_ports(entry: &ServiceEntry) -> impl Iterator<Item = &Port> {
    let (own, hosts) = match &entry.kind {
        ServiceKind::ClusterIp { ports, .. } => (&ports[..], &[][..]),
        ServiceKind::Headless => (&[][..], &entry.hosts[..]),
        ServiceKind::ExternalName(_) => (&[][..], &[][..]),
    };
    own.iter().chain(hosts.iter().flat_map(|host| host.ports.iter()))
}

fn addresses_of(name: &Name, ips: &[IpAddr]) -> Vec<Record> {
    let ips = ips.iter().take(MOST_RECORDS);
    ips.map(|ip| Record::from_rdata(name.clone(), TTL, RData::from(*ip))).collect()
}

/// Records under the name as queried, which preserves its case.
fn records(asked: &Name, each: impl Iterator<Item = RData>) -> Lookup {
    let all = each.take(MOST_RECORDS).map(|data| Record::from_rdata(asked.clone(), TTL, data));
    Lookup::Records(all.collect(), Vec::new())
}

fn no_data() -> Lookup {
    Lookup::Records(Vec::new(), Vec::new())
}

#[cfg(test)]
mod tests;
