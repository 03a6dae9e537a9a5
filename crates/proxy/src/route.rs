//! Which pods live behind which node: read here, since a kubelet may not read
//! other nodes and the proxy may.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::core::Node;
use runtime::Context;
use tokio::sync::Notify;

use crate::Cidr;
use crate::source::internal_ips;

/// Calls `tell` with the address behind each pod range of the other nodes, at the
/// start and whenever that changes. `tell` should return soon.
pub fn watch_routes(
    cx: &Context,
    own: &str,
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
            let routes = panics::catch("node routes", || routes(&nodes.all(), &own));
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

/// A range goes to the node's address of the same family.
fn routes(nodes: &[Node], own: &str) -> BTreeMap<String, IpAddr> {
    let mut routes = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.metadata().name() != own) {
        let ips = internal_ips(node);
        let spec = node.spec();
        let first = Some(spec.pod_cidr()).filter(|_| spec.pod_cidrs().is_empty());
        for range in spec.pod_cidrs().iter().chain(first) {
            let Ok(cidr) = range.parse::<Cidr>() else { continue };
            if let Some(ip) = ips.iter().find(|ip| ip.is_ipv4() == cidr.ip.is_ipv4()) {
                routes.insert(range.to_owned(), *ip);
            }
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::yaml::from_yaml;

    #[test]
    fn other_nodes_ranges_go_to_their_addresses() {
        let node = |name: &str, spec: &str| {
            let text = format!(
                "{{metadata: {{name: {name}}}, spec: {spec}, status: {{addresses: [
                {{type: ExternalIP, address: 203.0.113.9}},
                {{type: InternalIP, address: 192.0.2.9}}]}}}}"
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
        assert_eq!(routes(&nodes, "here"), BTreeMap::from(expected));
    }
}
