//! Links, addresses and routes, tested in network namespaces of their own.

use super::*;
use std::net::IpAddr;

#[test]
fn a_veth_pair_reaches_into_another_namespace() {
    let here = NetworkNamespace::create().expect("a namespace");
    let there = NetworkNamespace::create().expect("a namespace");
    run_in_netns(&here, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        let veth = Veth {
            name: "outside",
            mac: [2, 0, 0, 0, 0, 1],
            peer_name: "eth0",
            peer_mac: [2, 0, 0, 0, 0, 2],
            peer_namespace: &there,
            mtu: 1400,
        };
        add_veth(&mut socket, &veth).expect("made");
        assert!(add_veth(&mut socket, &veth).expect_err("made twice").is_already_exists());
        let outside = link(&mut socket, "outside").expect("listed");
        assert_eq!((outside.mac, outside.mtu, outside.up), (Some(veth.mac), 1400, true));
        let route = Route {
            destination: Cidr::host(IpAddr::from([10, 9, 0, 2])),
            gateway: None,
            interface_index: Some(outside.index),
            source: None,
            protocol: 200,
            on_link: false,
        };
        set_route(&mut socket, &route).expect("routed");
        set_route(&mut socket, &route).expect("routed again");
        assert!(routes(&mut socket).expect("listed").contains(&route));
        remove_route(&mut socket, &route).expect("removed");
        assert!(remove_route(&mut socket, &route).expect_err("removed twice").is_not_found());
    })
    .expect("inside");
    run_in_netns(&there, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        let inside = link(&mut socket, "eth0").expect("listed");
        let address = Address { index: inside.index, ip: IpAddr::from([10, 9, 0, 2]), prefix: 32 };
        add_address(&mut socket, address).expect("added");
        assert!(addresses(&mut socket).expect("listed").contains(&address));
        let neighbour =
            Neighbour { index: inside.index, ip: [10, 9, 0, 1].into(), mac: [2, 0, 0, 0, 0, 1] };
        set_neighbour(&mut socket, neighbour).expect("set");
        remove_link(&mut socket, "eth0").expect("removed");
    })
    .expect("inside");
    run_in_netns(&here, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        assert!(link(&mut socket, "outside").expect_err("its peer is gone").is_not_found());
        assert!(remove_link(&mut socket, "outside").expect_err("gone").is_not_found());
    })
    .expect("inside");
}

#[test]
fn a_bridge_takes_ports() {
    let here = NetworkNamespace::create().expect("a namespace");
    let there = NetworkNamespace::create().expect("a namespace");
    run_in_netns(&here, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        add_bridge(&mut socket, "bridge", [2, 0, 0, 0, 0, 9]).expect("made");
        let veth = Veth {
            name: "port",
            mac: [2, 0, 0, 0, 0, 1],
            peer_name: "eth0",
            peer_mac: [2, 0, 0, 0, 0, 2],
            peer_namespace: &there,
            mtu: 1500,
        };
        add_veth(&mut socket, &veth).expect("made");
        let bridge = link(&mut socket, "bridge").expect("listed");
        assert_eq!(bridge.kind.as_deref(), Some("bridge"));
        let port = link(&mut socket, "port").expect("listed").index;
        set_master(&mut socket, port, bridge.index).expect("attached");
        set_hairpin(&mut socket, port, true).expect("hairpin");
        set_mtu(&mut socket, port, 1400).expect("mtu");
        let port = link(&mut socket, "port").expect("listed");
        assert_eq!((port.master, port.mtu), (Some(bridge.index), 1400));
    })
    .expect("inside");
}
