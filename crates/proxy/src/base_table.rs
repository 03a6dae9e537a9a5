//! The part of the nftables table that does not depend on services: base chains, the maps that
//! dispatch to services, reject and masquerade chains.

use crate::NodeConfig;
use crate::input::of_family;
use sys::nft::{ChainType, Family, Field, Hook, Key, Match, Rule, Set, Table, Type, ct};

/// The name of the table, as in upstream.
pub const TABLE: &str = "kube-proxy";
/// The chain that rejects packets.
pub(crate) const REJECT: &str = "reject-chain";

/// Names of the sets and maps that all services share.
pub(crate) mod shared {
    pub(crate) const CLUSTER_IPS: &str = "cluster-ips";
    pub(crate) const SERVICE_IPS: &str = "service-ips";
    pub(crate) const SERVICE_NODE_PORTS: &str = "service-nodeports";
    pub(crate) const NO_ENDPOINT_SERVICES: &str = "no-endpoint-services";
    pub(crate) const NO_ENDPOINT_NODE_PORTS: &str = "no-endpoint-nodeports";
    pub(crate) const FIREWALL_IPS: &str = "firewall-ips";
    pub(crate) const HAIRPIN: &str = "hairpin-connections";
    pub(crate) const ALL: [&str; 7] = [
        CLUSTER_IPS,
        SERVICE_IPS,
        SERVICE_NODE_PORTS,
        NO_ENDPOINT_SERVICES,
        NO_ENDPOINT_NODE_PORTS,
        FIREWALL_IPS,
        HAIRPIN,
    ];
}

const NODE_PORT_IPS: &str = "nodeport-ips";
const SERVICE_KEY: [Field; 3] = [Field::Destination, Field::Protocol, Field::DestinationPort];
const NODE_PORT_KEY: [Field; 2] = [Field::Protocol, Field::DestinationPort];
const HAIRPIN_KEY: [Field; 4] =
    [Field::Source, Field::Destination, Field::Protocol, Field::DestinationPort];

/// The key and data types of a shared set.
pub(crate) fn shared_set(family: Family, name: &str) -> Set {
    let ip = family.address();
    let service = vec![ip, Type::Protocol, Type::Port];
    let port = vec![Type::Protocol, Type::Port];
    let (key, data) = match name {
        shared::CLUSTER_IPS => (vec![ip], vec![]),
        shared::HAIRPIN => (vec![ip, ip, Type::Protocol, Type::Port], vec![]),
        shared::SERVICE_NODE_PORTS | shared::NO_ENDPOINT_NODE_PORTS => (port, vec![Type::Verdict]),
        _ => (service, vec![Type::Verdict]),
    };
    Set { key, data, ..Set::default() }
}

/// The table without services.
pub(crate) fn table(family: Family, node: &NodeConfig) -> Table {
    let mut table = Table::new(family, &node.table);
    for name in shared::ALL {
        table.sets.insert(name.to_owned(), shared_set(family, name));
    }
    let ips = table.set(NODE_PORT_IPS, &[family.address()]);
    for ip in of_family(&node.node_port_ips, family) {
        ips.add(Key::new().address(ip));
    }
    add_base_chains(&mut table);
    add_filter_chains(&mut table, family, node);
    add_nat_chains(&mut table, family, node);
    add_masquerade_chain(&mut table, family, node);
    table
}

fn add_base_chains(table: &mut Table) {
    use ChainType::{Filter, Nat};
    use Hook::{Forward, Input, Output, Postrouting, Prerouting};
    for (name, kind, hook, priority) in [
        // Before DNAT, so that the firewall for loadBalancerSourceRanges sees the service's
        // address.
        ("filter-prerouting-pre-dnat", Filter, Prerouting, -110),
        ("filter-output-pre-dnat", Filter, Output, -110),
        ("filter-input", Filter, Input, 0),
        ("filter-forward", Filter, Forward, 0),
        ("filter-output", Filter, Output, 0),
        ("nat-prerouting", Nat, Prerouting, -100),
        ("nat-output", Nat, Output, -100),
        ("nat-postrouting", Nat, Postrouting, 100),
    ] {
        table.base_chain(name, kind, hook, priority);
    }
}

/// Adds the filter chains: they drop or reject firewalled sources, services without endpoints, and
/// unassigned cluster IPs.
fn add_filter_chains(table: &mut Table, family: Family, node: &NodeConfig) {
    let rule = || Rule::new(family);
    let fresh = |chain: &str| rule().when_state(ct::NEW).jump(chain);
    for (chain, jumps) in [
        ("filter-prerouting-pre-dnat", &["firewall-check"][..]),
        ("filter-output-pre-dnat", &["firewall-check"]),
        ("filter-forward", &["service-endpoints-check", "cluster-ips-check"]),
        ("filter-input", &["nodeport-endpoints-check", "service-endpoints-check"]),
        ("filter-output", &["service-endpoints-check", "cluster-ips-check"]),
    ] {
        for jump in jumps {
            table.chain(chain).rule(fresh(jump));
        }
    }
    table.chain("firewall-check").rule(rule().vmap(&SERVICE_KEY, shared::FIREWALL_IPS));
    table
        .chain("service-endpoints-check")
        .rule(rule().vmap(&SERVICE_KEY, shared::NO_ENDPOINT_SERVICES));
    table.chain("nodeport-endpoints-check").rule(
        rule()
            .when_in(&[Field::Destination], NODE_PORT_IPS)
            .vmap(&NODE_PORT_KEY, shared::NO_ENDPOINT_NODE_PORTS),
    );
    // Unlike ICMP errors, TCP resets are not rate-limited.
    table
        .chain(REJECT)
        .rule(rule().when(Field::Protocol, Match::protocol(6)).reject_tcp())
        .rule(rule().reject());
    let unknown = table.chain("cluster-ips-check");
    unknown.rule(
        rule()
            .when_in(&[Field::Destination], shared::CLUSTER_IPS)
            .goto(REJECT)
            .comment("reject invalid ports of cluster addresses"),
    );
    for range in node.service_cidrs.iter().filter(|range| Family::of(range.ip) == family) {
        unknown.rule(
            rule()
                .when(Field::Destination, Match::In(*range))
                .drop()
                .comment("drop unassigned cluster addresses"),
        );
    }
}

fn add_nat_chains(table: &mut Table, family: Family, node: &NodeConfig) {
    let rule = || Rule::new(family);
    for hook in ["nat-prerouting", "nat-output"] {
        table.chain(hook).rule(rule().jump("services"));
    }
    let services = table.chain("services");
    let to_cluster = || rule().when_in(&[Field::Destination], shared::CLUSTER_IPS);
    let ranges: Vec<_> = node.cluster_cidrs.iter().filter(|r| Family::of(r.ip) == family).collect();
    if node.masquerade_all {
        services.rule(to_cluster().set_mark_bits(node.masquerade_mark()).comment("masquerade all"));
    } else if !ranges.is_empty() {
        let mut outside = to_cluster();
        for range in ranges {
            outside = outside.when(Field::Source, Match::NotIn(*range));
        }
        services.rule(
            outside
                .set_mark_bits(node.masquerade_mark())
                .comment("masquerade traffic from outside the cluster"),
        );
    }
    services.rule(rule().vmap(&SERVICE_KEY, shared::SERVICE_IPS));
    services.rule(
        rule()
            .when_in(&[Field::Destination], NODE_PORT_IPS)
            .vmap(&NODE_PORT_KEY, shared::SERVICE_NODE_PORTS),
    );
}

fn add_masquerade_chain(table: &mut Table, family: Family, node: &NodeConfig) {
    let rule = || Rule::new(family);
    table.chain("nat-postrouting").rule(rule().jump("masquerading"));
    table
        .chain("masquerading")
        .rule(
            rule()
                .when_mark(node.masquerade_mark())
                .flip_mark_bits(node.masquerade_mark())
                .masquerade(),
        )
        .rule(rule().when_status(ct::DNAT).when_in(&HAIRPIN_KEY, shared::HAIRPIN).masquerade());
}
