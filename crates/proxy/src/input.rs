//! Input of the rules: services with their endpoints, and the configuration of this node.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;
use sys::netlink::Cidr;
use sys::nft::Family;

/// Namespace and name of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    pub namespace: String,
    pub name: String,
}

/// A service with cluster IPs, joined with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub name: ServiceName,
    /// One per IP family.
    pub cluster_ips: Vec<IpAddr>,
    pub external_ips: Vec<IpAddr>,
    /// Only those of load balancers with `ipMode: VIP`, which keep the address in the packet.
    pub load_balancer_ips: Vec<IpAddr>,
    /// `loadBalancerSourceRanges`: the allowed clients; empty means everyone.
    pub source_ranges: Vec<Cidr>,
    /// Session affinity: how long a client keeps its endpoint.
    pub session_affinity_timeout: Option<Duration>,
    /// externalTrafficPolicy: Local.
    pub external_local: bool,
    /// internalTrafficPolicy: Local.
    pub internal_local: bool,
    pub ports: Vec<ServicePort>,
}

/// A port of a service, with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub endpoints: Vec<Endpoint>,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// An endpoint of a service, with its conditions.
#[expect(clippy::struct_excessive_bools, reason = "the API's own conditions")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub ip: IpAddr,
    pub port: u16,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    /// Whether it is on this node.
    pub local: bool,
    /// Topology hints: the zones and nodes that should use it; empty means no preference.
    pub zone_hints: Vec<String>,
    pub node_hints: Vec<String>,
}

/// This node, and the address ranges of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    pub name: String,
    pub zone: String,
    /// The node's own IPs, one per IP family.
    pub ips: Vec<IpAddr>,
    /// The IPs that serve node ports; by default the node's own.
    pub node_port_ips: Vec<IpAddr>,
    /// Pod CIDRs: traffic from elsewhere to a cluster IP is masqueraded.
    pub cluster_cidrs: Vec<Cidr>,
    /// Service CIDRs: packets to unassigned addresses in them are dropped.
    pub service_cidrs: Vec<Cidr>,
    /// Whether to masquerade all traffic to cluster IPs.
    pub masquerade_all: bool,
    /// The bit of the packet mark that requests masquerading (0 to 31).
    pub masquerade_bit: u8,
    /// The name of the nftables table: `TABLE`, unless another cluster on this host uses it.
    pub table: String,
}

impl Service {
    /// The service without external IPs that belong to the cluster's own ranges: with them a user
    /// who can create services could intercept the connections of another service or of a pod.
    pub(crate) fn without_cluster_addresses(&self, node: &NodeConfig) -> Cow<'_, Self> {
        let foreign = |ip: &IpAddr| {
            let mut ranges = node.service_cidrs.iter().chain(&node.cluster_cidrs);
            !ranges.any(|range| range.contains(ip.to_canonical()))
        };
        if self.external_ips.iter().chain(&self.load_balancer_ips).all(foreign) {
            return Cow::Borrowed(self);
        }
        let ServiceName { namespace, name } = &self.name;
        tracing::warn!(
            namespace,
            name,
            "ignoring an external IP of a Service that is within the cluster's own ranges"
        );
        let mut service = self.clone();
        service.external_ips.retain(foreign);
        service.load_balancer_ips.retain(foreign);
        Cow::Owned(service)
    }

    /// Whether the port is reachable by other means than cluster IPs.
    pub(crate) fn is_external(&self, port: &ServicePort) -> bool {
        port.node_port.is_some()
            || !self.external_ips.is_empty()
            || !self.load_balancer_ips.is_empty()
    }

    /// Whether the port uses endpoints of all nodes (policy Cluster).
    pub(crate) fn uses_cluster(&self, port: &ServicePort) -> bool {
        !self.internal_local || self.is_external(port)
    }

    /// Whether the port uses endpoints of this node only (policy Local).
    pub(crate) fn uses_local(&self, port: &ServicePort) -> bool {
        self.internal_local || (self.external_local && self.is_external(port))
    }
}

impl Endpoint {
    /// A ready endpoint, for tests and simple callers.
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
    /// The IP protocol number.
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

/// The IPs of a family.
pub(crate) fn of_family(ips: &[IpAddr], family: Family) -> impl Iterator<Item = IpAddr> {
    ips.iter().copied().filter(move |ip| Family::of(*ip) == family)
}
