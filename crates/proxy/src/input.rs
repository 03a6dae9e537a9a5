//! What the plan is made from: services with their endpoints, and this node.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;
use sys::netlink::Cidr;
use sys::nft::Family;

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    pub namespace: String,
    pub name: String,
}

/// A service that has cluster addresses, joined with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub name: ServiceName,
    /// One a family.
    pub cluster_ips: Vec<IpAddr>,
    pub external_ips: Vec<IpAddr>,
    /// Only those of load balancers that leave the address in the packet.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Who may use the load balancer's addresses; nobody named: everyone.
    pub source_ranges: Vec<Cidr>,
    /// How long a client stays with its endpoint.
    pub session_affinity_timeout: Option<Duration>,
    /// externalTrafficPolicy: Local.
    pub external_local: bool,
    /// internalTrafficPolicy: Local.
    pub internal_local: bool,
    pub ports: Vec<ServicePort>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// An address and port behind a service, and when it may be used.
#[expect(clippy::struct_excessive_bools, reason = "the API's own conditions")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub ip: IpAddr,
    pub port: u16,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    /// On this node.
    pub local: bool,
    /// Where it should be used from; empty: no preference.
    pub zone_hints: Vec<String>,
    pub node_hints: Vec<String>,
}

/// This node, and what of the cluster's addresses it must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    pub name: String,
    pub zone: String,
    /// The node's own addresses, one a family.
    pub ips: Vec<IpAddr>,
    /// Where node ports are served: by default the node's own addresses.
    pub node_port_ips: Vec<IpAddr>,
    /// The pods' ranges: traffic from elsewhere to a cluster address is masqueraded.
    pub cluster_cidrs: Vec<Cidr>,
    /// The service ranges: unassigned addresses in them are dropped, never routed out.
    pub service_cidrs: Vec<Cidr>,
    /// Masquerades all traffic to cluster addresses.
    pub masquerade_all: bool,
    /// The bit of the packet mark that asks for masquerading (0 to 31).
    pub masquerade_bit: u8,
    /// The name of the nftables table: `TABLE`, unless another cluster on this machine has it.
    pub table: String,
}

impl Service {
    /// The service without external addresses that are the cluster's own: whoever may create services could take the
    /// connections of another service, or of a pod, with them.
    pub(crate) fn without_cluster_addresses(&self, node: &NodeConfig) -> Cow<'_, Self> {
        let foreign = |ip: &IpAddr| {
            let mut ranges = node.service_cidrs.iter().chain(&node.cluster_cidrs);
            !ranges.any(|range| range.contains(ip.to_canonical()))
        };
        if self.external_ips.iter().chain(&self.load_balancer_ips).all(foreign) {
            return Cow::Borrowed(self);
        }
        let ServiceName { namespace, name } = &self.name;
        tracing::warn!(namespace, name, "a service's external address is one of the cluster's own");
        let mut service = self.clone();
        service.external_ips.retain(foreign);
        service.load_balancer_ips.retain(foreign);
        Cow::Owned(service)
    }

    /// Reached by anything but its cluster addresses.
    pub(crate) fn is_external(&self, port: &ServicePort) -> bool {
        port.node_port.is_some()
            || !self.external_ips.is_empty()
            || !self.load_balancer_ips.is_empty()
    }

    pub(crate) fn uses_cluster(&self, port: &ServicePort) -> bool {
        !self.internal_local || self.is_external(port)
    }

    pub(crate) fn uses_local(&self, port: &ServicePort) -> bool {
        self.internal_local || (self.external_local && self.is_external(port))
    }
}

impl Endpoint {
    /// A ready one, as tests and simple callers need it.
    pub fn ready(ip: IpAddr, port: u16, local: bool) -> Self {
        Self {
            ip,
            port,
            ready: true,
            serving: true,
            terminating: false,
            local,
            zone_hints: Vec::new(),
            node_hints: Vec::new(),
        }
    }
}

impl NodeConfig {
    pub(crate) fn masquerade_mark(&self) -> u32 {
        1 << (self.masquerade_bit & 31)
    }
}

impl Protocol {
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// Those of a family.
pub(crate) fn of_family(ips: &[IpAddr], family: Family) -> impl Iterator<Item = IpAddr> {
    ips.iter().copied().filter(move |ip| Family::of(*ip) == family)
}
