//! The nftables table of the pod network, as a pure function of the connected sandboxes: masquerading of traffic that
//! leaves the cluster, and host ports.

use crate::addresses::Allocation;
use crate::names::Names;
use crate::{Cidr, PortMapping};
use std::net::{IpAddr, Ipv4Addr};
use sys::nft::{ChainType, Family, Field, Hook, Key, Match, Rule, Table, Type, ct};

const PORT_FIELDS: [Field; 2] = [Field::Protocol, Field::DestinationPort];
const ADDRESS_FIELDS: [Field; 3] = [Field::Destination, Field::Protocol, Field::DestinationPort];
const MULTICAST: Cidr = Cidr { ip: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), prefix: 4 };
const LOOPBACK: Cidr = Cidr { ip: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 };

/// The table of one address family.
pub(crate) fn table<'a>(
    names: &Names,
    pods: Cidr,
    cluster: &[Cidr],
    records: impl Iterator<Item = &'a Allocation>,
) -> Table {
    let family = Family::of(pods.ip);
    let mut table = Table::new(family, &names.nft_table);
    table.base_chain("prerouting", ChainType::Nat, Hook::Prerouting, -100);
    table.base_chain("output", ChainType::Nat, Hook::Output, -100);
    table.base_chain("postrouting", ChainType::Nat, Hook::Postrouting, 100);
    let target = [family.address(), Type::Port];
    table.map("host-ports", &[Type::Protocol, Type::Port], &target);
    table.map("host-address-ports", &[family.address(), Type::Protocol, Type::Port], &target);
    table.set("hairpin", &[family.address(), family.address()]);
    add_host_port_chain(&mut table, family);
    masquerade(&mut table, names, pods, cluster);
    guard(&mut table, names, family);
    for record in records {
        add_port_elements(&mut table, family, record);
    }
    table
}

/// Whether both use the same host port.
pub(crate) fn conflicts(one: &PortMapping, other: &PortMapping) -> bool {
    one.host_port == other.host_port
        && one.protocol == other.protocol
        && (one.host_ip == other.host_ip || one.host_ip.is_none() || other.host_ip.is_none())
}

fn add_host_port_chain(table: &mut Table, family: Family) {
    let local = || Rule::new(family).when_local(Field::Destination);
    table.chain("prerouting").rule(local().jump("host-ports"));
    table.chain("output").rule(local().jump("host-ports"));
    table
        .chain("host-ports")
        .rule(Rule::new(family).dnat_map(&ADDRESS_FIELDS, "host-address-ports"))
        .rule(Rule::new(family).dnat_map(&PORT_FIELDS, "host-ports"));
}

fn masquerade(table: &mut Table, names: &Names, pods: Cidr, cluster: &[Cidr]) {
    let family = Family::of(pods.ip);
    let chain = table.chain("postrouting");
    chain.rule(
        Rule::new(family)
            .when_status(ct::DNAT)
            .when_in(&[Field::Source, Field::Destination], "hairpin")
            .masquerade()
            .comment("a pod reaches itself through its host port"),
    );
    if family == Family::Ip {
        chain.rule(
            Rule::new(family)
                .when(Field::Source, Match::In(LOOPBACK))
                .when(Field::OutInterface, Match::interface_prefix(&names.veth_prefix))
                .masquerade()
                .comment("from the node's localhost to a host port"),
        );
        chain.rule(Rule::new(family).when(Field::Destination, Match::In(MULTICAST)).accept());
    }
    let mut out = Rule::new(family).when(Field::Source, Match::In(pods));
    for range in cluster.iter().filter(|range| Family::of(range.ip) == family) {
        out = out.when(Field::Destination, Match::NotIn(*range));
    }
    chain.rule(out.masquerade().comment("from pods to outside the cluster"));
}

/// What pods and neighbours may not send. Host ports of localhost need `route_localnet`; without the first
/// rule a pod could then reach what listens on the node's loopback only, and a machine on the same wire the
/// host ports of localhost: their addresses are translated before the kernel looks where packets go. The kernel's own check of
/// sources depends on a setting of all interfaces, and IPv6 has none.
fn guard(table: &mut Table, names: &Names, family: Family) {
    table.base_chain("guard", ChainType::Filter, Hook::Prerouting, -300);
    let from_pods =
        || Rule::new(family).when(Field::InInterface, Match::interface_prefix(&names.veth_prefix));
    let chain = table.chain("guard");
    if family == Family::Ip {
        let loopback_interface = [b"lo".as_slice(), &[0; 14]].concat();
        let loopback = Rule::new(family)
            .when(Field::InInterface, Match::IsNot(loopback_interface))
            .when(Field::Destination, Match::In(LOOPBACK))
            .drop();
        chain.rule(loopback.comment("nobody else reaches the node's localhost"));
    }
    let spoofed = from_pods().when_source_is_elsewhere().drop();
    chain.rule(spoofed.comment("pods send from their own address"));
}

fn add_port_elements(table: &mut Table, family: Family, record: &Allocation) {
    let Some(ip) = record.ips.iter().copied().find(|ip| Family::of(*ip) == family) else { return };
    for port in &record.port_mappings {
        let target = Key::new().address(ip).port(port.container_port);
        let key = Key::new();
        match port.host_ip.filter(|ip| !ip.is_unspecified()) {
            None => {
                let key = key.protocol(port.protocol.number()).port(port.host_port);
                set(table, "host-ports").add_value(key, target);
            }
            Some(at) if Family::of(at) == family => {
                let key = key.address(at).protocol(port.protocol.number()).port(port.host_port);
                set(table, "host-address-ports").add_value(key, target);
            }
            Some(_) => continue,
        }
        set(table, "hairpin").add(Key::new().address(ip).address(ip));
    }
}

#[expect(clippy::expect_used, reason = "`table` declares the sets that are named here")]
fn set<'a>(table: &'a mut Table, name: &str) -> &'a mut sys::nft::Set {
    table.sets.get_mut(name).expect("declared with the table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use std::path::Path;
    use sys::nft::diff;

    fn record(ports: &[PortMapping]) -> Allocation {
        Allocation {
            id: "a".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            ips: vec![[10, 244, 0, 2].into()],
            port_mappings: ports.to_vec(),
        }
    }

    fn port(host_port: u16, host_ip: Option<IpAddr>) -> PortMapping {
        PortMapping { host_port, container_port: 80, protocol: Protocol::Tcp, host_ip }
    }

    fn of(records: &[Allocation]) -> Table {
        let cluster = ["10.244.0.0/16".parse().expect("a range")];
        let pods = "10.244.0.0/24".parse().expect("a range");
        table(&Names::of(Path::new("/x")), pods, &cluster, records.iter())
    }

    #[test]
    fn a_host_port_is_two_elements() {
        let batch = diff(Some(&of(&[])), &of(&[record(&[port(8080, None)])]));
        assert_eq!(batch.change_count(), 2);
        assert!(diff(Some(&of(&[])), &of(&[record(&[])])).is_empty());
    }

    #[test]
    fn ports_collide_unless_their_addresses_differ() {
        let one = [127, 0, 0, 1].into();
        let two = [127, 0, 0, 2].into();
        assert!(!conflicts(&port(80, Some(one)), &port(80, Some(two))));
        assert!(conflicts(&port(80, Some(one)), &port(80, None)));
        assert!(!conflicts(&port(80, None), &port(81, None)));
    }
}
