//! What listens on the node's localhost alone is reached by nobody else (CVE-2020-8558), though host ports of localhost
//! need that the kernel routes such addresses.

use crate::builtin::{port, wire_outside, with_ports};
use crate::world::{World, ask, serve};
use network::NetworkNamespace;
use std::process::Command;
use sys::netlink::run_in_netns;

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 9999);

/// Sends what is for 127.0.0.1 to the node instead of keeping it, as a container with NET_ADMIN or a machine on the same
/// wire may.
fn route_localhost(namespace: &NetworkNamespace, link: &str, gateway: &str) {
    let ip = |words: &str| {
        let done = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
        assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
    };
    run_in_netns(namespace, || {
        for name in ["all", link] {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/route_localnet");
            std::fs::write(path, "1").expect("written");
        }
        let _ = Command::new("ip").args("address del 127.0.0.1/8 dev lo".split(' ')).output();
        ip(&format!("route add 127.0.0.1/32 via {gateway} dev {link} onlink"));
    })
    .expect("inside");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_pods_nor_neighbours_reach_what_listens_on_localhost() {
    let world = World::new();
    let outside = NetworkNamespace::create().expect("a namespace");
    wire_outside(&world, &outside);
    // A host port of localhost makes the kernel route 127.0.0.1 on the pod's interface.
    let local_port = port(8081, Some([127, 0, 0, 1].into()));
    let pod = world.pod_with(with_ports("web", &[port(8080, None), local_port])).await;
    serve(&pod.namespace, (pod.ip, 80));
    serve(&world.node, LOCAL);
    ask(&world.node, LOCAL).expect("the node itself");
    for port in [8080, 8081] {
        ask(&world.node, ([127, 0, 0, 1], port)).expect("a host port, from the node's localhost");
    }
    let gateway = world.network.gateways()[0].to_string();
    route_localhost(&pod.namespace, "eth0", &gateway);
    ask(&pod.namespace, LOCAL).expect_err("from a pod");
    route_localhost(&outside, "outside", "192.0.2.1");
    ask(&outside, LOCAL).expect_err("from a neighbour");
    ask(&outside, ([192, 0, 2, 1], 8080)).expect("a host port of all addresses, from a neighbour");
    ask(&outside, ([127, 0, 0, 1], 8080)).expect_err("the same at localhost");
    ask(&outside, ([127, 0, 0, 1], 8081)).expect_err("a host port of localhost, from a neighbour");
    ask(&world.node, LOCAL).expect("the node itself, still");
}
