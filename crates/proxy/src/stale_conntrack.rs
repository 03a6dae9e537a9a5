//! Stale conntrack entries: UDP flows to endpoints that were removed. The kernel would keep sending
//! them there for as long as the client sends packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sys::netlink::{
    ConntrackEntry, NetlinkFamily, Socket, delete_conntrack_entry, udp_conntrack_entries,
};

use crate::{Protocol, Result, Service};

/// The addresses of UDP services, with the endpoints that serve each.
pub(crate) type UdpServices = BTreeMap<(IpAddr, u16), BTreeSet<(IpAddr, u16)>>;

/// Collects the UDP services. One without endpoints rejects packets anyway, so its flows may stay.
pub(crate) fn udp_services<'a>(
    services: impl Iterator<Item = &'a Service>,
    node_port_ips: &[IpAddr],
) -> UdpServices {
    let mut places = UdpServices::new();
    for service in services {
        let udp = service.ports.iter().filter(|port| port.protocol == Protocol::Udp);
        for port in udp {
            let serving = port.endpoints.iter().filter(|endpoint| endpoint.serving);
            let serving: BTreeSet<_> =
                serving.map(|endpoint| (endpoint.ip, endpoint.port)).collect();
            if serving.is_empty() {
                continue;
            }
            let ips = service.cluster_ips.iter().chain(&service.external_ips);
            for ip in ips.chain(&service.load_balancer_ips) {
                places.insert((*ip, port.port), serving.clone());
            }
            for (ip, node_port) in node_port_ips.iter().zip(port.node_port.iter().cycle()) {
                places.insert((*ip, *node_port), serving.clone());
            }
        }
    }
    places
}

/// Deletes stale entries in the network namespace of the calling thread.
pub(crate) fn delete_stale_entries(places: &UdpServices) -> Result<usize> {
    let mut socket = Socket::open(NetlinkFamily::Netfilter)?;
    let mut count = 0;
    for flow in udp_conntrack_entries(&mut socket)?.iter().filter(|flow| is_stale(places, flow)) {
        match delete_conntrack_entry(&mut socket, flow) {
            Ok(()) => count += 1,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn is_stale(places: &UdpServices, flow: &ConntrackEntry) -> bool {
    places
        .get(&flow.original_destination)
        .is_some_and(|serving| !serving.contains(&flow.reply_source))
}
