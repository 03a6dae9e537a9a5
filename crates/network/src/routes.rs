//! Routes to the other nodes' pods: computes a difference, then applies it with netlink.

use crate::interface::ROUTE_PROTOCOL;
use crate::{Cidr, Result};
use std::collections::BTreeMap;
use std::net::IpAddr;
use sys::netlink::{self, NetlinkFamily, Route, Socket};

/// The routes to set and to remove in order to reach `peers`. Considers only our own routes within the cluster CIDRs,
/// and never that of a single pod.
pub(crate) fn diff_routes(
    current: &[Route],
    cluster: &[Cidr],
    peers: &BTreeMap<Cidr, IpAddr>,
) -> (Vec<Route>, Vec<Route>) {
    let ours = |route: &&Route| {
        route.protocol == ROUTE_PROTOCOL
            && route.gateway.is_some()
            && cluster.iter().any(|range| range.contains(route.destination.ip))
    };
    let current: BTreeMap<Cidr, &Route> =
        current.iter().filter(ours).map(|route| (route.destination, route)).collect();
    let set = peers
        .iter()
        .map(|(range, node)| (Cidr { ip: range.network(), ..*range }, *node))
        .filter(|(range, node)| current.get(range).is_none_or(|r| r.gateway != Some(*node)))
        .map(|(to, node)| Route {
            destination: to,
            gateway: Some(node),
            interface_index: None,
            source: None,
            protocol: ROUTE_PROTOCOL,
            on_link: false,
        })
        .collect();
    let kept =
        |to: &Cidr| peers.keys().any(|range| range.network() == to.ip && range.prefix == to.prefix);
    let gone = current.into_iter().filter(|(to, _)| !kept(to)).map(|(_, route)| *route).collect();
    (set, gone)
}

/// Applies the routes of `peers` to the kernel.
pub(crate) fn apply(cluster: &[Cidr], peers: &BTreeMap<Cidr, IpAddr>) -> Result<()> {
    let mut socket = Socket::open(NetlinkFamily::Route)?;
    let current = netlink::routes(&mut socket)?;
    let (set, gone) = diff_routes(&current, cluster, peers);
    for route in &gone {
        match netlink::remove_route(&mut socket, route) {
            Err(error) if error.is_not_found() => {}
            done => done?,
        }
    }
    for route in &set {
        netlink::set_route(&mut socket, route)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect("a range")
    }

    #[test]
    fn only_differences() {
        let cluster = [cidr("10.244.0.0/16")];
        let node = |n| IpAddr::from([192, 168, 0, n]);
        let peers: BTreeMap<_, _> =
            [(cidr("10.244.1.0/24"), node(1)), (cidr("10.244.2.0/24"), node(2))].into();
        let (set, gone) = diff_routes(&[], &cluster, &peers);
        assert_eq!((set.len(), gone.len()), (2, 0));
        let foreign = Route { destination: cidr("10.244.9.0/24"), protocol: 4, ..set[0] };
        let pod = Route { destination: cidr("10.244.0.5/32"), gateway: None, ..set[0] };
        let old = Route { destination: cidr("10.244.3.0/24"), ..set[0] };
        let moved = Route { gateway: Some(node(9)), ..set[1] };
        let (set, gone) = diff_routes(&[set[0], moved, foreign, pod, old], &cluster, &peers);
        assert_eq!(set.len(), 1);
        assert_eq!(set[0].gateway, Some(node(2)));
        assert_eq!(gone, [old]);
    }
}
