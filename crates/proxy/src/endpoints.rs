//! Selects the endpoints that a service uses from this node: ready ones, those with matching
//! topology hints, and terminating ones only if there is no other.

use std::collections::HashSet;

use crate::{Endpoint, NodeConfig, Service, ServicePort};

/// The selected endpoints by traffic policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CategorizedEndpoints<'a> {
    /// For policy Cluster; empty if the service does not use it.
    pub cluster: Vec<&'a Endpoint>,
    /// For policy Local; empty if the service does not use it.
    pub local: Vec<&'a Endpoint>,
    /// Whether any node has a usable endpoint.
    pub has_any_endpoints: bool,
}

/// Selects the endpoints of a service port for this node.
pub fn categorize_endpoints<'a>(
    service: &Service,
    port: &ServicePort,
    endpoints: &[&'a Endpoint],
    node: &NodeConfig,
) -> CategorizedEndpoints<'a> {
    let mut choice = CategorizedEndpoints::default();
    let draining = |e: &&Endpoint| !e.ready && e.serving && e.terminating;
    if service.uses_cluster(port) {
        let near = topology_mode_from_hints(endpoints, node);
        choice.cluster =
            filter_with_fallback(endpoints, |e| e.ready && near.is_available(e, node), draining);
        choice.has_any_endpoints = !choice.cluster.is_empty();
    }
    if service.uses_local(port) {
        choice.has_any_endpoints |= endpoints.iter().any(|e| e.ready || draining(e));
        choice.local =
            filter_with_fallback(endpoints, |e| e.local && e.ready, |e| e.local && draining(e));
    }
    choice
}

impl<'a> CategorizedEndpoints<'a> {
    /// All endpoints reachable from this node, without duplicates.
    pub(crate) fn all_reachable(&self) -> Vec<&'a Endpoint> {
        let mut known = HashSet::new();
        let all = self.cluster.iter().chain(&self.local).copied();
        all.filter(|endpoint| known.insert((endpoint.ip, endpoint.port))).collect()
    }
}

/// How topology hints restrict the endpoints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TopologyMode {
    Anywhere,
    SameZone,
    SameNode,
}

impl TopologyMode {
    fn is_available(self, endpoint: &Endpoint, node: &NodeConfig) -> bool {
        match self {
            Self::Anywhere => true,
            Self::SameZone => endpoint.zone_hints.contains(&node.zone),
            Self::SameNode => endpoint.node_hints.contains(&node.name),
        }
    }
}

/// Hints are used only if every ready endpoint has one, and at least one is for this node or zone.
fn topology_mode_from_hints(endpoints: &[&Endpoint], node: &NodeConfig) -> TopologyMode {
    let ready = || endpoints.iter().filter(|e| e.ready);
    let all = |hints: fn(&Endpoint) -> &[String], own: &String| {
        ready().all(|e| !hints(e).is_empty()) && ready().any(|e| hints(e).contains(own))
    };
    if all(|e| &e.node_hints, &node.name) {
        TopologyMode::SameNode
    } else if !node.zone.is_empty() && all(|e| &e.zone_hints, &node.zone) {
        TopologyMode::SameZone
    } else {
        TopologyMode::Anywhere
    }
}

fn filter_with_fallback<'a>(
    endpoints: &[&'a Endpoint],
    first: impl Fn(&&Endpoint) -> bool,
    second: impl Fn(&&Endpoint) -> bool,
) -> Vec<&'a Endpoint> {
    let all = |which: &dyn Fn(&&Endpoint) -> bool| -> Vec<&'a Endpoint> {
        endpoints.iter().filter(|e| which(e)).copied().collect()
    };
    let found = all(&first);
    if found.is_empty() { all(&second) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_rules::tests::{node, service};

    fn pick(service: &Service) -> (Vec<u8>, Vec<u8>, bool) {
        let endpoints: Vec<&Endpoint> = service.ports[0].endpoints.iter().collect();
        let choice = categorize_endpoints(service, &service.ports[0], &endpoints, &node());
        let last = |list: &[&Endpoint]| {
            list.iter()
                .map(|e| match e.ip {
                    std::net::IpAddr::V4(ip) => ip.octets()[3],
                    std::net::IpAddr::V6(_) => 0,
                })
                .collect()
        };
        (last(&choice.cluster), last(&choice.local), choice.has_any_endpoints)
    }

    fn endpoint(n: u8, change: impl FnOnce(&mut Endpoint)) -> Endpoint {
        let mut endpoint = Endpoint::ready([10, 0, 0, n].into(), 80, false);
        change(&mut endpoint);
        endpoint
    }

    #[test]
    fn terminating_ones_serve_only_when_no_other_does() {
        let draining = |e: &mut Endpoint| {
            e.ready = false;
            e.terminating = true;
        };
        let mut it = service("a", 80);
        it.ports[0].endpoints = vec![endpoint(1, |_| {}), endpoint(2, draining)];
        assert_eq!(pick(&it), (vec![1], vec![], true));
        it.ports[0].endpoints.remove(0);
        assert_eq!(pick(&it), (vec![2], vec![], true));
        it.ports[0].endpoints[0].serving = false;
        assert_eq!(pick(&it), (vec![], vec![], false));
    }

    #[test]
    fn local_policy_keeps_to_this_node() {
        let mut it = service("a", 80);
        it.internal_local = true;
        it.ports[0].endpoints = vec![endpoint(1, |_| {}), endpoint(2, |e| e.local = true)];
        assert_eq!(pick(&it), (vec![], vec![2], true));
        it.ports[0].endpoints.pop();
        assert_eq!(pick(&it), (vec![], vec![], true), "some other node could serve it");
    }

    #[test]
    fn hints_count_when_all_have_them() {
        let zone =
            |name: &'static str| move |e: &mut Endpoint| e.zone_hints = vec![name.to_owned()];
        let mut it = service("a", 80);
        it.ports[0].endpoints = vec![endpoint(1, zone("here")), endpoint(2, zone("there"))];
        assert_eq!(pick(&it).0, [1]);
        it.ports[0].endpoints.push(endpoint(3, |_| {}));
        assert_eq!(pick(&it).0, [1, 2, 3]);
    }
}
