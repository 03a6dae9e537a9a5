//! Tests of the rules with packets: cluster IPs, node ports, traffic policies, session affinity,
//! load balancer IPs, and stale conntrack entries.

use crate::world::{CLIENT, CLUSTER_IP, NODE, PODS, World, ask, ask_udp, port, service};
use proxy::Protocol;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

#[test]
fn a_cluster_address_reaches_both_pods_from_everywhere() {
    let mut world = World::new();
    world.set(&service("web"));
    let mut answered = BTreeSet::new();
    for _ in 0..40 {
        let (who, saw) = ask(&world.pods[0], (CLUSTER_IP, 80)).expect("from a pod");
        answered.insert(who);
        if who == PODS[0] {
            assert_ne!(saw, PODS[0], "a pod that reaches itself is masqueraded");
        } else {
            assert_eq!(saw, PODS[0], "pods keep their address");
        }
    }
    assert_eq!(answered.len(), 2);
    ask(&world.node, (CLUSTER_IP, 80)).expect("from the node");
    let (_, saw) = ask(&world.client, (CLUSTER_IP, 80)).expect("from outside the cluster");
    assert_ne!(saw, CLIENT, "masqueraded");
}

#[test]
fn what_nobody_serves_is_refused_and_never_routed_out() {
    let mut world = World::new();
    let mut it = service("web");
    world.set(&it);
    for from in [&world.pods[0], &world.node] {
        assert_eq!(ask(from, (CLUSTER_IP, 81)), Err(ErrorKind::ConnectionRefused));
        assert_eq!(ask(from, ([10, 96, 7, 7], 80)), Err(ErrorKind::TimedOut), "unassigned");
    }
    it.ports[0].endpoints.clear();
    world.set(&it);
    assert_eq!(ask(&world.pods[0], (CLUSTER_IP, 80)), Err(ErrorKind::ConnectionRefused));
    assert_eq!(ask(&world.node, (CLUSTER_IP, 80)), Err(ErrorKind::ConnectionRefused));
    world.proxy.update(&[(it.name.clone(), None)]).expect("written");
    assert_eq!(ask(&world.node, (CLUSTER_IP, 80)), Err(ErrorKind::TimedOut));
}

#[test]
fn node_ports_and_traffic_policies() {
    let mut world = World::new();
    let mut it = service("web");
    it.ports[0].node_port = Some(30080);
    it.external_ips = vec![[198, 51, 100, 9].into()];
    world.set(&it);
    let gateways: [IpAddr; 2] = [[10, 244, 0, 1].into(), [10, 244, 1, 1].into()];
    let (_, saw) = ask(&world.client, (NODE, 30080)).expect("node port");
    assert!(gateways.contains(&saw), "policy Cluster masquerades: {saw}");
    ask(&world.node, (NODE, 30080)).expect("node port from the node itself");
    ask(&world.pods[1], (NODE, 30080)).expect("node port from a pod");
    ask(&world.pods[1], ([198, 51, 100, 9], 80)).expect("external address");
    assert_eq!(ask(&world.node, ([127, 0, 0, 1], 30080)), Err(ErrorKind::ConnectionRefused));

    it.external_local = true;
    world.set(&it);
    for _ in 0..8 {
        let answer = ask(&world.client, (NODE, 30080)).expect("node port");
        assert_eq!(answer, (PODS[0], CLIENT), "only the local pod, with the client's address");
    }
    it.ports[0].endpoints.remove(0);
    world.set(&it);
    assert_eq!(ask(&world.client, (NODE, 30080)), Err(ErrorKind::TimedOut), "dropped");
    ask(&world.pods[0], (NODE, 30080)).expect("pods take the cluster's way");

    it.internal_local = true;
    world.set(&it);
    assert_eq!(ask(&world.pods[0], (CLUSTER_IP, 80)), Err(ErrorKind::TimedOut), "dropped");
}

#[test]
fn affinity_keeps_a_client_with_its_pod() {
    let mut world = World::new();
    let mut it = service("web");
    it.session_affinity_timeout = Some(Duration::from_mins(1));
    world.set(&it);
    let (first, _) = ask(&world.client, (CLUSTER_IP, 80)).expect("answered");
    for _ in 0..20 {
        assert_eq!(ask(&world.client, (CLUSTER_IP, 80)).expect("answered").0, first);
    }
    it.ports.push(proxy::ServicePort { port: 81, ..port("other", Protocol::Tcp) });
    world.set(&it);
    assert_eq!(ask(&world.client, (CLUSTER_IP, 80)).expect("answered").0, first, "kept");
    it.ports[0].endpoints.retain(|endpoint| endpoint.ip != first);
    world.set(&it);
    assert_ne!(ask(&world.client, (CLUSTER_IP, 80)).expect("answered").0, first);
}

#[test]
fn tcp_and_udp_share_a_port_number() {
    let mut world = World::new();
    let mut it = service("dns");
    it.ports.push(port("dns-udp", Protocol::Udp));
    world.set(&it);
    ask(&world.client, (CLUSTER_IP, 80)).expect("tcp");
    ask_udp(&world.client, (CLUSTER_IP, 80)).expect("udp");
    it.ports.remove(0);
    world.set(&it);
    assert_eq!(ask(&world.client, (CLUSTER_IP, 80)), Err(ErrorKind::ConnectionRefused));
    ask_udp(&world.client, (CLUSTER_IP, 80)).expect("udp stays");
}

#[test]
fn load_balancer_addresses_and_their_source_ranges() {
    let mut world = World::new();
    let mut it = service("web");
    let balancer: IpAddr = [203, 0, 113, 5].into();
    it.load_balancer_ips = vec![balancer];
    world.set(&it);
    ask(&world.client, (balancer, 80)).expect("open to all");
    it.source_ranges = vec!["198.51.100.0/24".parse().expect("a range")];
    world.set(&it);
    assert_eq!(ask(&world.client, (balancer, 80)), Err(ErrorKind::TimedOut));
    it.source_ranges.push("192.0.2.0/24".parse().expect("a range"));
    world.set(&it);
    ask(&world.client, (balancer, 80)).expect("inside a range");
}

#[test]
fn a_table_that_someone_removed_comes_back() {
    let mut world = World::new();
    let mut it = service("web");
    world.set(&it);
    sys::netlink::run_in_netns(&world.node, || {
        sys::nft::Batch::remove_table(sys::nft::Family::Ip, "kube-proxy")
            .commit()
            .expect("removed");
    })
    .expect("inside");
    it.ports[0].endpoints.pop();
    world.set(&it);
    assert_eq!(ask(&world.client, (CLUSTER_IP, 80)).expect("answered").0, PODS[0]);
    world.proxy.remove_tables().expect("down");
    assert!(ask(&world.client, (CLUSTER_IP, 80)).is_err());
}

#[test]
fn a_udp_flow_to_a_pod_that_is_gone_finds_another() {
    let mut world = World::new();
    let mut it = service("web");
    it.ports = vec![port("dns", Protocol::Udp)];
    let both = it.ports[0].endpoints.clone();
    it.ports[0].endpoints = vec![both[0].clone()];
    world.set(&it);
    let socket = sys::netlink::run_in_netns(&world.client, || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bound");
        socket.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
        socket.connect((CLUSTER_IP, 80)).expect("connected");
        socket
    });
    let socket = socket.expect("inside");
    let who = || {
        socket.send(b"?").expect("sent");
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).expect("an answer");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        text.split(' ').next().and_then(|ip| ip.parse::<IpAddr>().ok())
    };
    assert_eq!(who(), Some(PODS[0]));
    it.ports[0].endpoints = vec![both[1].clone()];
    world.set(&it);
    assert_eq!(who(), Some(PODS[0]), "the flow is remembered");
    let changed = [(it.name.clone(), Some(it.clone()))];
    assert_eq!(world.proxy.delete_stale_conntrack(&changed).expect("forgotten"), 1);
    assert_eq!(who(), Some(PODS[1]));
    assert_eq!(world.proxy.delete_stale_conntrack(&changed).expect("nothing to do"), 0);
}
