//! Routes to the pod CIDRs of other nodes. They are computed here, because the proxy may read all
//! Nodes and a kubelet may not.
//!
//! A node can write its own Node object, so its content is not trusted: a podCIDR is accepted only
//! within the cluster's pod CIDRs and if no older node has it; an IP only if it can belong to
//! another host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::core::Node;
use runtime::Context;
use tokio::sync::Notify;

use crate::Cidr;
use crate::source::internal_ips;

/// Calls `tell` with the next hop of each pod CIDR of the other nodes, at the start and on every
/// change. `tell` should return quickly. `pods` are the cluster's pod CIDRs.
pub fn watch_pod_routes(
    cx: &Context,
    own: &str,
    pods: Vec<Cidr>,
    tell: impl Fn(BTreeMap<String, IpAddr>) + Send + 'static,
) {
    let nodes = cx.cache::<Node>();
    let wake = Arc::new(Notify::new());
    let changed = wake.clone();
    nodes.on_change(move |_, _| changed.notify_one());
    let own = own.to_owned();
    cx.spawn("node routes", async move {
        let mut synced = nodes.synced();
        let mut told = None;
        if synced.wait_for(|synced| *synced).await.is_err() {
            return;
        }
        loop {
            let routes = panics::catch("node routes", || routes(&nodes.all(), &own, &pods));
            if let Ok(routes) = routes
                && told.as_ref() != Some(&routes)
            {
                tell(routes.clone());
                told = Some(routes);
            }
            wake.notified().await;
        }
    });
}

/// Computes the routes: each pod CIDR via the node's IP of the same family.
fn routes(nodes: &[Node], own: &str, pods: &[Cidr]) -> BTreeMap<String, IpAddr> {
    let (mut routes, mut taken) = (BTreeMap::new(), Taken::default());
    let mut nodes: Vec<&Node> = nodes.iter().collect();
    // this node first, then older nodes
    nodes.sort_by_key(|node| {
        let meta = node.metadata();
        (meta.name() != own, meta.creation_timestamp().to_owned(), meta.name().to_owned())
    });
    let here = nodes.first().filter(|node| node.metadata().name() == own);
    let own_ips = here.map(|node| internal_ips(node)).unwrap_or_default();
    for node in &nodes {
        let spec = node.spec();
        let first = Some(spec.pod_cidr()).filter(|_| spec.pod_cidrs().is_empty());
        for range in spec.pod_cidrs().iter().chain(first) {
            let Ok(cidr) = range.parse::<Cidr>() else { continue };
            if !pods.iter().any(|pods| is_within(cidr, *pods)) || !taken.take(cidr) {
                continue;
            }
            let can_reach = |ip: &&IpAddr| {
                ip.is_ipv4() == cidr.ip.is_ipv4() && is_other_machine(**ip, &own_ips, pods)
            };
            let ips = internal_ips(node);
            if let Some(ip) = ips.iter().find(can_reach) {
                routes.insert(range.to_owned(), *ip);
            }
        }
    }
    routes
}

/// Whether an IP can be that of another node of this cluster.
fn is_other_machine(ip: IpAddr, own: &[IpAddr], pods: &[Cidr]) -> bool {
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some(),
    };
    !is_local
        && !ip.is_loopback()
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && !own.contains(&ip)
        && !pods.iter().any(|pods| is_within(Cidr::host(ip), *pods))
}

/// The first and last address of a CIDR, as numbers.
fn bounds(cidr: Cidr) -> (u128, u128) {
    let (start, bits) = match cidr.network() {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let free = u128::MAX.checked_shr(128 - (bits - u32::from(cidr.prefix))).unwrap_or(0);
    (start, start | free)
}

fn is_within(inner: Cidr, outer: Cidr) -> bool {
    let ((start, end), (first, last)) = (bounds(inner), bounds(outer));
    inner.ip.is_ipv4() == outer.ip.is_ipv4() && first <= start && end <= last
}

/// The CIDRs of all nodes, which do not overlap: last address by first.
#[derive(Default)]
struct Taken(BTreeMap<(bool, u128), u128>);

impl Taken {
    /// Adds a CIDR if it does not overlap with another.
    fn take(&mut self, cidr: Cidr) -> bool {
        let (family, (start, end)) = (cidr.ip.is_ipv4(), bounds(cidr));
        let before = self.0.range((family, 0)..=(family, end)).next_back();
        let is_free = before.is_none_or(|(_, last)| *last < start);
        if is_free {
            self.0.insert((family, start), end);
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::yaml::from_yaml;

    #[test]
    fn other_nodes_ranges_go_to_their_addresses() {
        let node = |name: &str, spec: &str| {
            let last = if name == "here" { 2 } else { 9 };
            let text = format!(
                "{{metadata: {{name: {name}}}, spec: {spec}, status: {{addresses: [
                {{type: ExternalIP, address: 203.0.113.9}},
                {{type: InternalIP, address: 192.0.2.{last}}}]}}}}"
            );
            Node::from(from_yaml(&text).expect("a node"))
        };
        let nodes = [
            node("here", "{podCIDR: 10.244.0.0/24}"),
            node("dual", "{podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24, 'fd00:1::/64']}"),
            node("old", "{podCIDR: 10.244.2.0/24}"),
            node("new", "{}"),
        ];
        let ip = IpAddr::from([192, 0, 2, 9]);
        let expected = [("10.244.1.0/24".to_owned(), ip), ("10.244.2.0/24".to_owned(), ip)];
        assert_eq!(routes(&nodes, "here", &pods()), BTreeMap::from(expected));
    }

    fn pods() -> Vec<Cidr> {
        vec!["10.244.0.0/16".parse().expect("a range")]
    }

    /// A compromised node claims CIDRs and IPs of others.
    #[test]
    fn a_node_takes_no_traffic_but_that_of_its_own_pods() {
        let node = |name: &str, age: u8, range: &str, ip: &str| {
            let text = format!(
                "{{metadata: {{name: {name}, creationTimestamp: '2026-01-0{age}T00:00:00Z'}}, \
                 spec: {{podCIDR: '{range}', podCIDRs: ['{range}']}}, \
                 status: {{addresses: [{{type: InternalIP, address: '{ip}'}}]}}}}"
            );
            Node::from(from_yaml(&text).expect("a node"))
        };
        let here = || node("here", 3, "10.244.0.0/24", "192.0.2.2");
        let old = || node("old", 1, "10.244.1.0/24", "192.0.2.3");
        for (range, ip) in [
            ("0.0.0.0/1", "192.0.2.77"),
            ("8.8.0.0/16", "192.0.2.77"),
            ("10.96.0.0/16", "192.0.2.77"),
            ("10.244.0.0/16", "192.0.2.77"),
            ("10.244.0.128/25", "192.0.2.77"),
            ("10.244.1.64/26", "192.0.2.77"),
            ("10.244.0.0/23", "192.0.2.77"),
            ("192.0.2.128/25", "192.0.2.77"),
            ("10.244.7.0/24", "127.0.0.1"),
            ("10.244.7.0/24", "169.254.1.1"),
            ("10.244.7.0/24", "0.0.0.0"),
            ("10.244.7.0/24", "224.0.0.1"),
            ("10.244.7.0/24", "192.0.2.2"),
            ("10.244.7.0/24", "10.244.1.5"),
            ("fd00::/64", "fd00::1"),
        ] {
            let found = routes(&[node("evil", 2, range, ip), here(), old()], "here", &pods());
            let ip = IpAddr::from([192, 0, 2, 3]);
            let expected = BTreeMap::from([("10.244.1.0/24".to_owned(), ip)]);
            assert_eq!(found, expected, "{range} by {ip}");
        }
    }
}
