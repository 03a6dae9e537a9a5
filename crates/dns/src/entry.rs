//! What the names of one service stand for, made from the service and its slices.

use std::net::IpAddr;

use api::core::Service;
use api::discovery::{Endpoint, EndpointSlice};
use hickory_proto::rr::Name;
use object::names::sloppy_ip;

/// A service as names see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) shape: Shape,
    /// The endpoints by their names within the service.
    pub(crate) hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Its name stands for addresses of its own.
    Cluster { ips: Vec<IpAddr>, ports: Vec<Port> },
    /// Its name stands for its endpoints.
    Headless,
    /// Its name stands for another; `None`: one that no DNS could have.
    Alias(Option<Name>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Host {
    /// In lower case.
    pub(crate) label: Box<str>,
    /// Somebody chose the label: then the addresses lead back to it.
    pub(crate) named: bool,
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) ports: Vec<Port>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    /// In lower case; empty: it has none.
    pub(crate) name: Box<str>,
    pub(crate) protocol: Box<str>,
    pub(crate) number: u16,
}

impl Entry {
    pub(crate) fn new(service: &Service, slices: &[EndpointSlice]) -> Self {
        let spec = service.spec();
        let shape = if spec.type_() == "ExternalName" {
            Shape::Alias(alias(spec.external_name()))
        } else if service.is_headless() {
            Shape::Headless
        } else {
            let mut ips: Vec<_> = spec.cluster_ips().iter().filter_map(sloppy_ip).collect();
            if ips.is_empty() {
                ips.extend(sloppy_ip(spec.cluster_ip()));
            }
            let ports = spec.ports().iter();
            let ports = ports.filter_map(|it| Port::new(it.name(), it.protocol(), it.port()));
            Shape::Cluster { ips, ports: ports.collect() }
        };
        let mut hosts: Vec<Host> = Vec::new();
        for slice in slices.iter().filter(|slice| slice.address_type() != "FQDN") {
            let ports = slice.ports().iter();
            let ports: Vec<_> =
                ports.filter_map(|it| Port::new(it.name(), it.protocol(), it.port()?)).collect();
            for endpoint in slice.endpoints().iter() {
                let ready = endpoint.conditions().ready().unwrap_or(true);
                if ready || spec.publish_not_ready_addresses() {
                    add(&mut hosts, endpoint, &ports);
                }
            }
        }
        hosts.sort_by(|a, b| a.label.cmp(&b.label));
        Self { shape, hosts }
    }

    pub(crate) fn host(&self, label: &str) -> Option<&Host> {
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

/// Slices of both families, or of different ports, may name the same host.
fn add(hosts: &mut Vec<Host>, endpoint: &Endpoint, ports: &[Port]) {
    for ip in endpoint.addresses().iter().filter_map(sloppy_ip) {
        let hostname = endpoint.hostname().filter(|name| !name.is_empty());
        let label: Box<str> = match hostname {
            Some(name) => name.to_ascii_lowercase().into(),
            None => ip.to_string().replace(['.', ':'], "-").into(),
        };
        let Some(host) = hosts.iter_mut().find(|host| host.label == label) else {
            let named = hostname.is_some();
            hosts.push(Host { label, named, ips: vec![ip], ports: ports.to_vec() });
            continue;
        };
        if !host.ips.contains(&ip) {
            host.ips.push(ip);
        }
        for port in ports {
            if !host.ports.contains(port) {
                host.ports.push(port.clone());
            }
        }
    }
}

fn alias(name: &str) -> Option<Name> {
    if name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}
