//! The part of the table that belongs to one service: its chains, its own sets, and its elements of
//! the shared sets.

use crate::base_table::{REJECT, shared};
use crate::endpoints::{CategorizedEndpoints, categorize_endpoints};
use crate::input::of_family;
use crate::{Endpoint, NodeConfig, Service, ServicePort, names};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;
use sys::nft::{Chain, Data, Family, Field, Key, Map, Match, Rule, Set, Type, Verdict};

/// Maximum number of clients in an affinity set.
const MAX_AFFINITY_CLIENTS: u32 = 65_535;

/// Up to this many endpoints are written inline, and so rewritten when one of them changes.
const MAX_INLINE_ENDPOINTS: usize = 4;

/// The rules of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServiceRules {
    pub(crate) chains: BTreeMap<String, Chain>,
    pub(crate) sets: BTreeMap<String, Set>,
    pub(crate) elements: BTreeMap<(&'static str, Key), Option<Data>>,
    /// The order of endpoints in each load-balancing chain. It is kept from plan to plan, so that
    /// adding or removing an endpoint moves no other.
    pub(crate) endpoint_order: BTreeMap<String, Vec<(IpAddr, u16)>>,
}

/// Plans the rules of one service; `previous` only determines the order of endpoints.
pub(crate) fn service_rules(
    service: &Service,
    node: &NodeConfig,
    family: Family,
    previous: Option<&ServiceRules>,
) -> ServiceRules {
    let mut part = ServiceRules::default();
    let service = service.without_cluster_addresses(node);
    let service = &*service;
    for port in &service.ports {
        for ip in of_family(&service.cluster_ips, family) {
            let one = PortRules { service, port, node, family, ip, previous };
            one.plan(&mut part);
        }
    }
    part
}

/// Orders endpoints: known ones keep their position, new ones fill the gaps, and the last ones are
/// moved into the remaining gaps.
pub(crate) fn stable_order(
    previous: &[(IpAddr, u16)],
    now: &[(IpAddr, u16)],
) -> Vec<(IpAddr, u16)> {
    let (old, new): (HashSet<_>, HashSet<_>) = (previous.iter().collect(), now.iter().collect());
    let mut slots: Vec<Option<(IpAddr, u16)>> =
        previous.iter().map(|old| new.contains(old).then_some(*old)).collect();
    let newcomers = now.iter().filter(|new| !old.contains(new));
    let mut gap = 0;
    for newcomer in newcomers {
        while slots.get(gap).is_some_and(Option::is_some) {
            gap += 1;
        }
        match slots.get_mut(gap) {
            Some(slot) => *slot = Some(*newcomer),
            None => slots.push(Some(*newcomer)),
        }
    }
    let mut gap = 0;
    while let Some(slot) = slots.get(gap) {
        if slot.is_some() {
            gap += 1;
        } else {
            slots.swap_remove(gap); // the last one moves into the gap
        }
    }
    slots.into_iter().flatten().collect()
}

/// Plans the rules of one port and cluster IP.
struct PortRules<'a> {
    service: &'a Service,
    port: &'a ServicePort,
    node: &'a NodeConfig,
    family: Family,
    ip: IpAddr,
    previous: Option<&'a ServiceRules>,
}

impl PortRules<'_> {
    fn plan(&self, plan: &mut ServiceRules) {
        let (service, port) = (self.service, self.port);
        let endpoints: Vec<&Endpoint> =
            port.endpoints.iter().filter(|e| Family::of(e.ip) == self.family).collect();
        let choice = categorize_endpoints(service, port, &endpoints, self.node);
        let base = names::service_port_name(&service.name, port.protocol, &port.name);
        let cluster = format!("service-{base}");
        let local = format!("local-{base}");
        for (chain, endpoints) in [(&cluster, &choice.cluster), (&local, &choice.local)] {
            if !endpoints.is_empty() {
                self.add_balancing_chain(plan, chain, endpoints);
            }
        }
        for endpoint in choice.all_reachable().into_iter().filter(|e| e.local) {
            let key = Key::new().address(endpoint.ip).address(endpoint.ip);
            let key = key.protocol(port.protocol.number()).port(endpoint.port);
            plan.elements.insert((shared::HAIRPIN, key), None);
        }
        let internal = if service.internal_local { &local } else { &cluster };
        self.add_cluster_ip(plan, internal, &choice);
        if service.is_external(port) {
            let external = format!("external-{base}");
            let target = if service.external_local { &local } else { &cluster };
            if choice.has_any_endpoints {
                self.external_chain(
                    plan,
                    &external,
                    &cluster,
                    has_external(service, &choice).then_some(target),
                );
            }
            self.add_external(plan, &external, &format!("firewall-{base}"), &choice);
        }
    }

    /// Adds the cluster IP.
    fn add_cluster_ip(
        &self,
        part: &mut ServiceRules,
        chain: &str,
        choice: &CategorizedEndpoints<'_>,
    ) {
        part.elements.insert((shared::CLUSTER_IPS, Key::new().address(self.ip)), None);
        let key = self.key(self.ip);
        let served =
            choice.has_any_endpoints && !(self.service.internal_local && choice.local.is_empty());
        if served {
            insert_goto(part, shared::SERVICE_IPS, key, chain);
        } else {
            insert_reject_or_drop(
                part,
                shared::NO_ENDPOINT_SERVICES,
                key,
                choice.has_any_endpoints,
            );
        }
    }

    /// Adds the other addresses: external IPs, load balancer IPs and node ports.
    fn add_external(
        &self,
        part: &mut ServiceRules,
        chain: &str,
        firewall: &str,
        choice: &CategorizedEndpoints<'_>,
    ) {
        let (service, family) = (self.service, self.family);
        let served = has_external(service, choice);
        let balancers: Vec<IpAddr> = of_family(&service.load_balancer_ips, family).collect();
        for ip in of_family(&service.external_ips, family).chain(balancers.iter().copied()) {
            if choice.has_any_endpoints {
                insert_goto(part, shared::SERVICE_IPS, self.key(ip), chain);
            }
            if !served {
                insert_reject_or_drop(
                    part,
                    shared::NO_ENDPOINT_SERVICES,
                    self.key(ip),
                    choice.has_any_endpoints,
                );
            }
        }
        if let Some(node_port) = self.port.node_port {
            let key = || Key::new().protocol(self.port.protocol.number()).port(node_port);
            if choice.has_any_endpoints {
                insert_goto(part, shared::SERVICE_NODE_PORTS, key(), chain);
            }
            if !served {
                insert_reject_or_drop(
                    part,
                    shared::NO_ENDPOINT_NODE_PORTS,
                    key(),
                    choice.has_any_endpoints,
                );
            }
        }
        if !balancers.is_empty() && !service.source_ranges.is_empty() {
            self.firewall(part, firewall, &balancers);
        }
    }

    /// Adds the chain for external traffic. Policy Cluster may forward to another node and so
    /// masquerades; policy Local keeps the client's IP, but traffic from this node and its pods is
    /// handled as policy Cluster.
    fn external_chain(
        &self,
        part: &mut ServiceRules,
        name: &str,
        cluster: &str,
        target: Option<&String>,
    ) {
        let rule = || Rule::new(self.family);
        let mark = self.node.masquerade_mark();
        let mut chain = Chain::default();
        if self.service.external_local {
            for range in self.node.cluster_cidrs.iter().filter(|r| Family::of(r.ip) == self.family)
            {
                let from_pods = rule().when(Field::Source, Match::In(*range));
                chain.rule(from_pods.goto(cluster).comment("short-circuit pod traffic"));
            }
            let from_here = || rule().when_local(Field::Source);
            chain.rule(from_here().set_mark_bits(mark).comment("masquerade local traffic"));
            chain.rule(from_here().goto(cluster).comment("short-circuit local traffic"));
        } else {
            chain.rule(rule().set_mark_bits(mark).comment("masquerade"));
        }
        if let Some(target) = target {
            chain.rule(rule().goto(target));
        }
        part.chains.insert(name.to_owned(), chain);
    }

    /// Adds the firewall chain: accepts loadBalancerSourceRanges and drops other sources. If the
    /// node's own IP is in a range, packets with the load balancer's IP as source are accepted too.
    fn firewall(&self, part: &mut ServiceRules, name: &str, balancers: &[IpAddr]) {
        let rule = || Rule::new(self.family);
        let ranges = &self.service.source_ranges;
        let mut chain = Chain::default();
        for range in ranges.iter().filter(|range| Family::of(range.ip) == self.family) {
            let inside = rule().when(Field::Source, Match::In(*range));
            chain.rule(inside.verdict(Verdict::Return));
        }
        if self.node.ips.iter().any(|ip| ranges.iter().any(|range| range.contains(*ip))) {
            for ip in balancers {
                let own = rule().when(Field::Source, Match::In(sys::netlink::Cidr::host(*ip)));
                chain.rule(own.verdict(Verdict::Return));
            }
        }
        chain.rule(rule().drop());
        part.chains.insert(name.to_owned(), chain);
        for ip in balancers {
            insert_goto(part, shared::FIREWALL_IPS, self.key(*ip), name);
        }
    }

    /// Adds the chain that selects an endpoint at random, or by session affinity.
    fn add_balancing_chain(&self, part: &mut ServiceRules, chain: &str, endpoints: &[&Endpoint]) {
        let now: Vec<(IpAddr, u16)> = endpoints.iter().map(|e| (e.ip, e.port)).collect();
        let before = self.previous.and_then(|part| part.endpoint_order.get(chain));
        let order = stable_order(before.map_or(&[][..], |order| order), &now);
        match self.service.session_affinity_timeout {
            Some(timeout) => self.add_affinity_chain(part, chain, &order, timeout),
            None => self.add_random_chain(part, chain, &order),
        }
        part.endpoint_order.insert(chain.to_owned(), order);
    }

    /// Adds the chain that selects an endpoint at random. A few endpoints are one rule each, with
    /// equal probability; many are a map, so that a change of one does not rewrite the others. (A
    /// map for every service would be simpler, but the kernel searches all maps of a table
    /// linearly: loading 5,000 services took 3 s more.)
    fn add_random_chain(&self, part: &mut ServiceRules, chain: &str, order: &[(IpAddr, u16)]) {
        let rule = || Rule::new(self.family).when(Field::Protocol, self.protocol());
        let mut rules = Chain::default();
        if order.len() <= MAX_INLINE_ENDPOINTS {
            for (left, (ip, port)) in (1..=count(order)).rev().zip(order) {
                let chance = if left == 1 { rule() } else { rule().when_one_in(left) };
                rules.rule(chance.dnat(*ip, *port));
            }
        } else {
            let mut targets = index_map(&[self.family.address(), Type::Port]);
            for (at, (ip, port)) in (0..).zip(order) {
                targets.add_value(Key::new().number(at), Key::new().address(*ip).port(*port));
            }
            let map = inline_or_named_map(part, chain, targets);
            rules.rule(rule().dnat_map(&[Field::Random(count(order))], map));
        }
        part.chains.insert(chain.to_owned(), rules);
    }

    /// Adds the chain for session affinity (ClientIP).
    fn add_affinity_chain(
        &self,
        part: &mut ServiceRules,
        chain: &str,
        order: &[(IpAddr, u16)],
        timeout: Duration,
    ) {
        let mut targets = index_map(&[Type::Verdict]);
        let mut rules = Chain::default();
        for (at, (ip, port)) in (0..).zip(order) {
            let endpoint = Endpoint::ready(*ip, *port, false);
            let name = names::endpoint_name(
                &self.service.name,
                self.port.protocol,
                &self.port.name,
                &endpoint,
            );
            let (own, clients) = (format!("endpoint-{name}"), format!("affinity-{name}"));
            self.add_affinity_endpoint(part, &own, &clients, (&endpoint, timeout));
            rules.rule(Rule::new(self.family).when_in(&[Field::Source], &clients).goto(&own));
            targets.add_verdict(Key::new().number(at), Verdict::Goto(own));
        }
        let map = inline_or_named_map(part, chain, targets);
        rules.rule(Rule::new(self.family).vmap(&[Field::Random(count(order))], map));
        part.chains.insert(chain.to_owned(), rules);
    }

    /// Adds the chain of one endpoint, which records its clients in the affinity set.
    fn add_affinity_endpoint(
        &self,
        part: &mut ServiceRules,
        own: &str,
        clients: &str,
        to: (&Endpoint, Duration),
    ) {
        let (endpoint, timeout) = to;
        let rule = || Rule::new(self.family);
        let set = Set {
            key: vec![self.family.address()],
            dynamic_timeout: Some(timeout),
            size: Some(MAX_AFFINITY_CLIENTS),
            ..Set::default()
        };
        part.sets.insert(clients.to_owned(), set);
        let mut chain = Chain::default();
        chain
            .rule(rule().update_set(&[Field::Source], clients, None))
            .rule(rule().when(Field::Protocol, self.protocol()).dnat(endpoint.ip, endpoint.port));
        part.chains.insert(own.to_owned(), chain);
    }

    fn protocol(&self) -> Match {
        Match::protocol(self.port.protocol.number())
    }

    fn key(&self, ip: IpAddr) -> Key {
        Key::new().address(ip).protocol(self.port.protocol.number()).port(self.port.port)
    }
}

fn has_external(service: &Service, choice: &CategorizedEndpoints<'_>) -> bool {
    choice.has_any_endpoints && !(service.external_local && choice.local.is_empty())
}

fn index_map(data: &[Type]) -> Set {
    Set { key: vec![Type::Index], data: data.to_vec(), ..Set::default() }
}

/// Returns a small map inline in the rule, and adds a large one to the table.
fn inline_or_named_map(part: &mut ServiceRules, chain: &str, targets: Set) -> Map {
    if targets.elements.len() <= MAX_INLINE_ENDPOINTS {
        return Map::Anonymous(targets);
    }
    let name = format!("endpoints-{chain}");
    part.sets.insert(name.clone(), targets);
    Map::Named(name)
}

fn insert_goto(part: &mut ServiceRules, set: &'static str, key: Key, chain: &str) {
    let verdict = Data::Verdict(Verdict::Goto(chain.to_owned()));
    part.elements.insert((set, key), Some(verdict));
}

/// Adds a reject if no node has an endpoint, a drop if only this node has none.
fn insert_reject_or_drop(part: &mut ServiceRules, set: &'static str, key: Key, elsewhere: bool) {
    let verdict = if elsewhere { Verdict::Drop } else { Verdict::Goto(REJECT.to_owned()) };
    part.elements.insert((set, key), Some(Data::Verdict(verdict)));
}

fn count(order: &[(IpAddr, u16)]) -> u32 {
    u32::try_from(order.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Protocol, ServiceName};

    pub(crate) fn node() -> NodeConfig {
        NodeConfig {
            name: "node".to_owned(),
            zone: "here".to_owned(),
            ips: vec![[192, 168, 0, 2].into()],
            node_port_ips: vec![[192, 168, 0, 2].into()],
            cluster_cidrs: vec!["10.0.0.0/8".parse().expect("a range")],
            service_cidrs: vec!["172.30.0.0/16".parse().expect("a range")],
            masquerade_all: false,
            masquerade_bit: 14,
            table: crate::TABLE.to_owned(),
        }
    }

    pub(crate) fn service(name: &str, port: u16) -> Service {
        Service {
            name: ServiceName { namespace: "ns".to_owned(), name: name.to_owned() },
            cluster_ips: vec![[172, 30, 0, 41].into()],
            external_ips: vec![],
            load_balancer_ips: vec![],
            source_ranges: vec![],
            session_affinity_timeout: None,
            external_local: false,
            internal_local: false,
            ports: vec![ServicePort {
                name: "p".to_owned(),
                protocol: Protocol::Tcp,
                port,
                node_port: None,
                endpoints: vec![],
            }],
        }
    }

    /// Set and verdict of each element, without its key.
    fn said(part: &ServiceRules) -> Vec<String> {
        let word = |data: &Option<Data>| match data {
            Some(Data::Verdict(Verdict::Goto(chain))) => {
                format!(" goto {}", chain.split('-').next().unwrap_or_default())
            }
            Some(Data::Verdict(verdict)) => format!(" {verdict:?}").to_lowercase(),
            _ => String::new(),
        };
        part.elements.iter().map(|((set, _), data)| format!("{set}{}", word(data))).collect()
    }

    fn plan(service: &Service) -> ServiceRules {
        service_rules(service, &node(), Family::Ip, None)
    }

    #[test]
    fn without_endpoints_it_is_rejected() {
        let part = plan(&service("a", 80));
        assert_eq!(said(&part), ["cluster-ips", "no-endpoint-services goto reject"]);
        assert!(part.chains.is_empty());
    }

    #[test]
    fn external_local_without_local_endpoints_drops_but_serves_the_node_itself() {
        let mut it = service("a", 80);
        it.external_local = true;
        it.ports[0].node_port = Some(30080);
        it.ports[0].endpoints = vec![Endpoint::ready([10, 0, 0, 1].into(), 8080, false)];
        assert_eq!(
            said(&plan(&it)),
            [
                "cluster-ips",
                "no-endpoint-nodeports drop",
                "service-ips goto service",
                "service-nodeports goto external"
            ]
        );
        it.ports[0].endpoints[0].local = true;
        let part = plan(&it);
        assert_eq!(
            said(&part),
            [
                "cluster-ips",
                "hairpin-connections",
                "service-ips goto service",
                "service-nodeports goto external"
            ]
        );
        assert_eq!(part.chains.len(), 3, "service, local, external");
    }

    #[test]
    fn source_ranges_guard_load_balancers() {
        let mut it = service("a", 80);
        it.load_balancer_ips = vec![[5, 6, 7, 8].into()];
        it.source_ranges = vec!["203.0.113.0/25".parse().expect("a range")];
        it.ports[0].endpoints = vec![Endpoint::ready([10, 0, 0, 1].into(), 8080, false)];
        let part = plan(&it);
        assert!(said(&part).contains(&"firewall-ips goto firewall".to_owned()));
        let firewall = part.chains.iter().find(|(name, _)| name.starts_with("firewall-"));
        assert_eq!(firewall.expect("a chain").1.rules.len(), 2);
    }

    #[test]
    fn the_other_family_has_nothing() {
        assert_eq!(
            service_rules(&service("a", 80), &node(), Family::Ip6, None),
            ServiceRules::default()
        );
    }

    /// Any user who can write EndpointSlices determines the number of endpoints, so the cost must
    /// not be quadratic.
    #[test]
    fn a_hundred_thousand_endpoints_are_arranged_at_once() {
        let at = |n: u32| (IpAddr::from(n.to_be_bytes()), 80);
        let (all, few): (Vec<_>, Vec<_>) = ((0..100_000).map(at).collect(), vec![at(99_999)]);
        let began = std::time::Instant::now();
        assert_eq!(stable_order(&all, &all).len(), all.len());
        assert_eq!(stable_order(&all, &few), few);
        let endpoints: Vec<_> = all.iter().map(|at| Endpoint::ready(at.0, at.1, true)).collect();
        let (cluster, local): (Vec<_>, Vec<_>) =
            (endpoints.iter().collect(), endpoints.iter().collect());
        assert_eq!(
            CategorizedEndpoints { cluster, local, has_any_endpoints: true }.all_reachable().len(),
            all.len()
        );
        // takes minutes if it is quadratic
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    }

    #[test]
    fn endpoints_keep_their_places() {
        let at = |n| (IpAddr::from([10, 0, 0, n]), 80);
        assert_eq!(stable_order(&[], &[at(2), at(1)]), [at(2), at(1)]);
        assert_eq!(stable_order(&[at(1), at(2), at(3)], &[at(3), at(2)]), [at(3), at(2)]);
        assert_eq!(stable_order(&[at(1), at(2)], &[at(1), at(2), at(3)]), [at(1), at(2), at(3)]);
        assert_eq!(
            stable_order(&[at(1), at(2), at(3)], &[at(1), at(3), at(4)]),
            [at(1), at(4), at(3)]
        );
        assert_eq!(stable_order(&[at(1), at(2)], &[]), []);
        assert_eq!(stable_order(&[at(1), at(2), at(3)], &[at(2)]), [at(2)]);
        assert_eq!(stable_order(&[at(1), at(2), at(3), at(4)], &[at(1), at(4)]), [at(1), at(4)]);
    }
}
