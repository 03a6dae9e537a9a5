//! The DNS data of one Service, built from the Service and its EndpointSlices.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use api::core::Service;
use api::discovery::{Endpoint, EndpointSlice};
use hickory_proto::rr::Name;
use object::names::sloppy_ip;

/// A Service as the DNS sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServiceEntry {
    pub(crate) kind: ServiceKind,
    /// The endpoints by their host names.
    pub(crate) hosts: Vec<EndpointHost>,
}

/// The type of a Service, as far as the DNS differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ServiceKind {
    /// A Service with cluster IPs.
    ClusterIp { ips: Vec<IpAddr>, ports: Vec<Port> },
    /// A headless Service, whose name resolves to its endpoints.
    Headless,
    /// An ExternalName Service; `None` if the external name is invalid.
    ExternalName(Option<Name>),
}

/// The endpoints that share a host name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndpointHost {
    /// In lower case.
    pub(crate) label: Box<str>,
    /// Whether the endpoint sets a hostname. Only then PTR records point to the label.
    pub(crate) has_hostname: bool,
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) ports: Vec<Port>,
}

/// A port of a Service or an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    /// In lower case; empty for an unnamed port.
    pub(crate) name: Box<str>,
    pub(crate) protocol: Box<str>,
    pub(crate) number: u16,
}

impl ServiceEntry {
    pub(crate) fn new(service: &Service, slices: &[EndpointSlice]) -> Self {
        let spec = service.spec();
        let shape = if spec.type_() == "ExternalName" {
            ServiceKind::ExternalName(parse_external_name(spec.external_name()))
        } else if service.is_headless() {
            ServiceKind::Headless
        } else {
            let mut ips: Vec<_> = spec.cluster_ips().iter().filter_map(sloppy_ip).collect();
            if ips.is_empty() {
                ips.extend(sloppy_ip(spec.cluster_ip()));
            }
            let ports = spec.ports().iter();
            let ports = ports.filter_map(|it| Port::new(it.name(), it.protocol(), it.port()));
            ServiceKind::ClusterIp { ips, ports: ports.collect() }
        };
        let mut hosts = Hosts::default();
        for slice in slices.iter().filter(|slice| slice.address_type() != "FQDN") {
            let ports = slice.ports().iter();
            let ports: Vec<_> =
                ports.filter_map(|it| Port::new(it.name(), it.protocol(), it.port()?)).collect();
            for endpoint in slice.endpoints().iter() {
                let ready = endpoint.conditions().ready().unwrap_or(true);
                if ready || spec.publish_not_ready_addresses() {
                    hosts.add(endpoint, &ports);
                }
            }
        }
        Self { kind: shape, hosts: hosts.sorted() }
    }

    pub(crate) fn host(&self, label: &str) -> Option<&EndpointHost> {
        let at = self.hosts.binary_search_by(|host| (*host.label).cmp(label)).ok()?;
        self.hosts.get(at)
    }
}

impl Port {
    fn new(name: &str, protocol: &str, number: i32) -> Option<Self> {
        Some(Self {
            name: name.to_ascii_lowercase().into(),
            protocol: protocol.to_ascii_lowercase().into(),
            number: u16::try_from(number).ok().filter(|number| *number != 0)?,
        })
    }
}

/// The endpoint hosts so far. The number of hosts and addresses is controlled by the author of the EndpointSlices.
#[derive(Default)]
struct Hosts {
    all: Vec<EndpointHost>,
    by_label: HashMap<Box<str>, usize>,
    ips: HashSet<(usize, IpAddr)>,
}

impl Hosts {
    /// Adds an endpoint. EndpointSlices of both address families, or of different ports, may contain the same host.
    fn add(&mut self, endpoint: &Endpoint, ports: &[Port]) {
        let mut last = None;
        for ip in endpoint.addresses().iter().filter_map(sloppy_ip) {
            let hostname = endpoint.hostname().filter(|name| !name.is_empty());
            let label: Box<str> = match hostname {
                Some(name) => name.to_ascii_lowercase().into(),
                None => ip.to_string().replace(['.', ':'], "-").into(),
            };
            let next = self.all.len();
            let at = *self.by_label.entry(label.clone()).or_insert(next);
            if at == next {
                let named = hostname.is_some();
                self.all.push(EndpointHost {
                    label,
                    has_hostname: named,
                    ips: Vec::new(),
                    ports: Vec::new(),
                });
            }
            let Some(host) = self.all.get_mut(at) else { continue };
            if self.ips.insert((at, ip)) {
                host.ips.push(ip);
            }
            if last.replace(at) == Some(at) {
                continue; // the ports are added already
            }
            for port in ports {
                if !host.ports.contains(port) {
                    host.ports.push(port.clone());
                }
            }
        }
    }

    fn sorted(self) -> Vec<EndpointHost> {
        let mut all = self.all;
        all.sort_by(|a, b| a.label.cmp(&b.label));
        all
    }
}

fn parse_external_name(name: &str) -> Option<Name> {
    if name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}
