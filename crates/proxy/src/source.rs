//! Converts API objects to the input of the rules: a Service joined with its EndpointSlices, and
//! the Node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::core::{self, LoadBalancerIngress};
use api::discovery::{self, EndpointSlice};
use object::{List, names::sloppy_ip};

use crate::{Cidr, Endpoint, NodeConfig, Protocol, Service, ServiceName, ServicePort};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const ZONE: &str = "topology.kubernetes.io/zone";
const DEFAULT_AFFINITY_TIMEOUT: Duration = Duration::from_hours(3);

/// The service with its endpoints as seen from the node `on`; `None` if the proxy does not handle
/// it (headless, ExternalName).
pub(crate) fn service(it: &core::Service, slices: &[EndpointSlice], on: &str) -> Option<Service> {
    let spec = it.spec();
    if spec.type_() == "ExternalName" || matches!(spec.cluster_ip(), "" | "None") {
        return None;
    }
    let mut cluster_ips = ips(spec.cluster_ips());
    if cluster_ips.is_empty() {
        cluster_ips.extend(sloppy_ip(spec.cluster_ip()));
    }
    let external_ips = ips(spec.external_ips());
    let external = spec.type_() != "ClusterIP" || !external_ips.is_empty();
    let ingress = it.status().load_balancer().ingress();
    Some(Service {
        name: ServiceName {
            namespace: it.metadata().namespace().to_owned(),
            name: it.metadata().name().to_owned(),
        },
        cluster_ips,
        external_ips,
        load_balancer_ips: ingress.iter().filter_map(vip_ingress_ip).collect(),
        source_ranges: ranges(spec.load_balancer_source_ranges()),
        session_affinity_timeout: (spec.session_affinity() == "ClientIP").then(|| affinity(spec)),
        external_local: external && spec.external_traffic_policy() == "Local",
        internal_local: spec.internal_traffic_policy() == Some("Local"),
        ports: spec.ports().iter().filter_map(|port| service_port(port, slices, on)).collect(),
    })
}

/// The service that an EndpointSlice belongs to.
pub(crate) fn service_key(slice: &EndpointSlice) -> Option<object::NamespacedName> {
    let meta = slice.metadata();
    let name = meta.labels().get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(object::NamespacedName::new(meta.namespace(), name))
}

/// Completes the node configuration from the Node object: its zone, and its IPs if none were given.
/// `None` if it has no IP yet.
pub(crate) fn node(given: &NodeConfig, known: Option<&core::Node>) -> Option<NodeConfig> {
    let mut node = given.clone();
    if let Some(known) = known {
        if let Some(zone) = known.metadata().labels().get(ZONE) {
            zone.clone_into(&mut node.zone);
        }
        if node.ips.is_empty() {
            node.ips = internal_ips(known);
        }
    }
    if node.ips.is_empty() {
        return None;
    }
    if node.node_port_ips.is_empty() {
        node.node_port_ips.clone_from(&node.ips);
    }
    Some(node)
}

/// The node's InternalIPs, at most one per IP family.
pub(crate) fn internal_ips(node: &core::Node) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    let each = node.status().addresses().iter().filter(|it| it.type_() == "InternalIP");
    for ip in each.filter_map(|it| sloppy_ip(it.address())) {
        if !found.iter().any(|known| known.is_ipv4() == ip.is_ipv4()) {
            found.push(ip);
        }
    }
    found
}

fn service_port(
    port: &core::ServicePort,
    slices: &[EndpointSlice],
    on: &str,
) -> Option<ServicePort> {
    let protocol = protocol(port.protocol())?;
    Some(ServicePort {
        name: port.name().to_owned(),
        protocol,
        port: port_number(port.port())?,
        node_port: port_number(port.node_port()),
        endpoints: endpoints(slices, (port.name(), protocol), on),
    })
}

/// The endpoints of one port, sorted by IP and without duplicates: while an endpoint moves between
/// slices it may be in both.
fn endpoints(slices: &[EndpointSlice], port: (&str, Protocol), on: &str) -> Vec<Endpoint> {
    let mut found = BTreeMap::new();
    for slice in slices.iter().filter(|slice| matches!(slice.address_type(), "IPv4" | "IPv6")) {
        let same = |it: &&discovery::EndpointPort| {
            (it.name(), protocol(it.protocol())) == (port.0, Some(port.1))
        };
        let Some(port) = slice.ports().iter().find(same).and_then(|it| port_number(it.port()?))
        else {
            continue;
        };
        for it in slice.endpoints().iter() {
            if let Some(endpoint) = endpoint(it, port, on) {
                let key = (endpoint.ip, endpoint.port);
                if endpoint.local || !found.contains_key(&key) {
                    found.insert(key, endpoint);
                }
            }
        }
    }
    found.into_values().collect()
}

fn endpoint(it: &discovery::Endpoint, port: u16, on: &str) -> Option<Endpoint> {
    let conditions = it.conditions();
    let hints = it.hints();
    Some(Endpoint {
        ip: it.addresses().iter().next().and_then(sloppy_ip)?,
        port,
        ready: conditions.ready().unwrap_or(true),
        serving: conditions.serving().unwrap_or(true),
        terminating: conditions.terminating().unwrap_or(false),
        local: it.node_name() == Some(on),
        zone_hints: hints.map_or_else(Vec::new, |hints| {
            hints.for_zones().iter().map(|zone| zone.name().to_owned()).collect()
        }),
        node_hints: hints.map_or_else(Vec::new, |hints| {
            hints.for_nodes().iter().map(|node| node.name().to_owned()).collect()
        }),
    })
}

/// The IP of a load balancer ingress. In mode Proxy the load balancer does not keep its IP in the
/// packet.
fn vip_ingress_ip(ingress: &LoadBalancerIngress) -> Option<IpAddr> {
    let leaves = matches!(ingress.ip_mode(), None | Some("VIP"));
    sloppy_ip(ingress.ip()).filter(|_| leaves)
}

fn affinity(spec: &core::ServiceSpec) -> Duration {
    let config = spec.session_affinity_config().and_then(|config| config.client_ip());
    let seconds = config.and_then(api::core::ClientIPConfig::timeout_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(DEFAULT_AFFINITY_TIMEOUT, Duration::from_secs)
}

fn ips(list: &List<String>) -> Vec<IpAddr> {
    list.iter().filter_map(sloppy_ip).collect()
}

/// Parses CIDRs; surrounding white space is allowed, as in upstream.
fn ranges(list: &List<String>) -> Vec<Cidr> {
    list.iter()
        .filter_map(|text| {
            let (ip, prefix) = text.trim().split_once('/')?;
            format!("{}/{prefix}", sloppy_ip(ip)?).parse().ok()
        })
        .collect()
}

fn protocol(name: &str) -> Option<Protocol> {
    match name {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        _ => None,
    }
}

/// A valid port number; 0 means none.
fn port_number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::yaml::from_yaml;

    fn of(service: &str, slices: &[&str]) -> Option<Service> {
        let slices: Vec<_> = slices
            .iter()
            .map(|text| EndpointSlice::from(from_yaml(text).expect("a slice")))
            .collect();
        super::service(&from_yaml(service).expect("a service").into(), &slices, "here")
    }

    const WEB: &str = "
metadata: {namespace: shop, name: web}
spec:
  clusterIP: 10.96.0.7
  clusterIPs: [10.96.0.7, 'fd00::7']
  sessionAffinity: ClientIP
  ports:
  - {name: http, port: 80, protocol: TCP, nodePort: 30080}
  - {name: dns, port: 53, protocol: UDP}
";

    const SLICE: &str = "
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: dns, port: 5353, protocol: TCP}]
endpoints:
- {addresses: [10.244.0.2], nodeName: here, conditions: {}}
- {addresses: [10.244.1.2], nodeName: there, hints: {forZones: [{name: a}]},
   conditions: {ready: false, serving: true, terminating: true}}
";

    #[test]
    fn ports_find_their_endpoints_by_name_and_protocol() {
        let web = of(WEB, &[SLICE]).expect("a service");
        assert_eq!(web.cluster_ips.len(), 2);
        assert_eq!(web.session_affinity_timeout, Some(DEFAULT_AFFINITY_TIMEOUT));
        let http = &web.ports[0];
        assert_eq!((http.port, http.node_port), (80, Some(30080)));
        let local = Endpoint::ready([10, 244, 0, 2].into(), 8080, true);
        let far = Endpoint {
            ready: false,
            terminating: true,
            zone_hints: vec!["a".to_owned()],
            ..Endpoint::ready([10, 244, 1, 2].into(), 8080, false)
        };
        assert_eq!(http.endpoints, [local, far]);
        assert_eq!(web.ports[1].endpoints, [], "the slice has dns on TCP only");
    }

    #[test]
    fn an_endpoint_in_two_slices_counts_once() {
        let twice = SLICE.replace("nodeName: here, ", "");
        let web = of(WEB, &[&twice, SLICE]).expect("a service");
        assert_eq!(web.ports[0].endpoints.len(), 2);
        assert!(web.ports[0].endpoints[0].local, "one of them says that it is here");
        let names = SLICE.replace("IPv4", "FQDN");
        assert_eq!(of(WEB, &[&names]).expect("a service").ports[0].endpoints, []);
    }

    #[test]
    fn what_has_no_cluster_address_needs_no_proxy() {
        for (from, to) in [
            ("clusterIP: 10.96.0.7", "clusterIP: None"),
            ("clusterIP: 10.96.0.7", ""),
            ("sessionAffinity: ClientIP", "type: ExternalName"),
        ] {
            assert_eq!(of(&WEB.replace(from, to), &[]), None, "{to}");
        }
    }

    #[test]
    fn load_balancers_and_policies() {
        let text = "
metadata: {namespace: shop, name: web}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.7
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  loadBalancerSourceRanges: [' 10.0.0.0/8 ']
  ports: [{port: 80, protocol: TCP}]
status:
  loadBalancer:
    ingress: [{ip: 5.6.7.8}, {ip: 5.6.7.9, ipMode: Proxy}, {hostname: example.com}]
";
        let web = of(text, &[]).expect("a service");
        assert_eq!(web.load_balancer_ips, [IpAddr::from([5, 6, 7, 8])]);
        assert_eq!(web.source_ranges, ["10.0.0.0/8".parse().expect("a range")]);
        assert!(web.external_local && web.internal_local);
        let inner = of(&text.replace("LoadBalancer\n", "ClusterIP\n"), &[]).expect("a service");
        assert!(!inner.external_local, "nobody comes from outside");
    }

    #[test]
    fn the_node_is_completed_from_the_api() {
        let given = NodeConfig { ips: Vec::new(), ..crate::service_rules::tests::node() };
        assert_eq!(node(&given, None), None);
        let known = "
metadata: {name: here, labels: {topology.kubernetes.io/zone: east}}
status:
  addresses:
  - {type: Hostname, address: here}
  - {type: InternalIP, address: 192.0.2.1}
  - {type: InternalIP, address: 192.0.2.2}
";
        let known = from_yaml(known).expect("a node").into();
        let made = node(&given, Some(&known)).expect("has an address");
        assert_eq!(made.ips, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(made.zone, "east");
    }
}
