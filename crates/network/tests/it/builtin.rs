use crate::world::{World, ask, path, serve};
use network::{Attachment, Cni, Error, NetworkNamespace, PortMapping, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use sys::netlink::{self, Address, NetlinkFamily, Socket, Veth, run_in_netns};

pub(crate) fn port(host_port: u16, host_ip: Option<IpAddr>) -> PortMapping {
    PortMapping { host_port, container_port: 80, protocol: Protocol::Tcp, host_ip }
}

pub(crate) fn with_ports(id: &str, ports: &[PortMapping]) -> Attachment {
    Attachment { sandbox_id: id.to_owned(), port_mappings: ports.to_vec(), ..Attachment::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_and_node_reach_each_other_with_their_own_addresses() {
    let world = World::new();
    let (one, two) = (world.pod("one").await, world.pod("two").await);
    serve(&two.namespace, (two.ip, 80));
    assert_eq!(ask(&one.namespace, (two.ip, 80)).expect("pod to pod"), one.ip);
    let gateway = world.network.gateways()[0];
    assert_eq!(ask(&world.node, (two.ip, 80)).expect("node to pod"), gateway);
    serve(&world.node, (gateway, 8080));
    assert_eq!(ask(&one.namespace, (gateway, 8080)).expect("pod to node"), one.ip);
    serve(&one.namespace, ([127, 0, 0, 1], 81));
    ask(&one.namespace, ([127, 0, 0, 1], 81)).expect("the pod's loopback is up");
    world.network.check(&one.attachment).await.expect("as it should be");
    world.network.status().await.expect("ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_speak_ipv6_too() {
    let world = World::new();
    let (one, two) = (world.pod("one").await, world.pod("two").await);
    let six = |ip: IpAddr| -> IpAddr {
        let IpAddr::V4(ip) = ip else { panic!("the first address is IPv4") };
        format!("fd07::{:x}", ip.octets()[3]).parse().expect("an address")
    };
    serve(&two.namespace, (six(two.ip), 80));
    assert_eq!(ask(&one.namespace, (six(two.ip), 80)).expect("pod to pod"), six(one.ip));
}

#[tokio::test(flavor = "multi_thread")]
async fn host_ports_from_everywhere() {
    let world = World::new();
    let web = world.pod_with(with_ports("web", &[port(8080, None)])).await;
    let client = world.pod("client").await;
    serve(&web.namespace, (web.ip, 80));
    let gateway = world.network.gateways()[0];
    assert_eq!(ask(&client.namespace, (gateway, 8080)).expect("from a pod"), client.ip);
    ask(&world.node, (gateway, 8080)).expect("from the node");
    ask(&world.node, ([127, 0, 0, 1], 8080)).expect("from the node's localhost");
    ask(&web.namespace, (gateway, 8080)).expect("from the pod itself");
    let taken = with_ports("other", &[port(8080, Some([127, 0, 0, 1].into()))]);
    let namespace = NetworkNamespace::create().expect("a namespace");
    let taken = Attachment { netns: path(&namespace), ..taken };
    assert!(matches!(world.network.add(&taken).await, Err(Error::PortTaken(..))));
    world.network.remove(&web.attachment).await.expect("removed");
    ask(&world.node, (gateway, 8080)).expect_err("the port went with its pod");
    world.network.add(&taken).await.expect("the port is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_port_at_two_addresses() {
    let world = World::new();
    let local: IpAddr = [127, 0, 0, 1].into();
    let gateway = world.network.gateways()[0];
    let one = world.pod_with(with_ports("one", &[port(8080, Some(local))])).await;
    let two = world.pod_with(with_ports("two", &[port(8080, Some(gateway))])).await;
    serve(&one.namespace, (one.ip, 80));
    ask(&world.node, (local, 8080)).expect("the first");
    ask(&world.node, (gateway, 8080)).expect_err("the second does not serve yet");
    serve(&two.namespace, (two.ip, 80));
    ask(&world.node, (gateway, 8080)).expect("the second");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_cannot_borrow_addresses() {
    let world = World::new();
    let web = world.pod("web").await;
    let victim = world.pod("victim").await;
    run_in_netns(&web.namespace, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        let index = netlink::link(&mut socket, "eth0").expect("eth0").index;
        let ip = [10, 244, 9, 9].into();
        netlink::add_address(&mut socket, Address { index, ip, prefix: 32 }).expect("added");
    })
    .expect("inside");
    let listener = run_in_netns(&victim.namespace, || {
        let socket = std::net::UdpSocket::bind((victim.ip, 81)).expect("bound");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("set");
        socket
    })
    .expect("inside");
    let send = |from: IpAddr| {
        run_in_netns(&web.namespace, || {
            let socket = std::net::UdpSocket::bind((from, 0)).expect("bound");
            socket.send_to(b"x", (victim.ip, 81)).expect("sent");
        })
        .expect("inside");
    };
    // Packets may be lost where there is much else to do.
    let arrived = (0..60).find_map(|_| {
        send([10, 244, 9, 9].into());
        send(web.ip);
        listener.recv_from(&mut [0; 8]).ok()
    });
    let (_, from) = arrived.expect("what is sent from its own address");
    assert_eq!(from.ip(), web.ip, "what was sent before from a borrowed one was dropped");
}

/// The same with the reverse path filter off, and in IPv6, which has none.
#[tokio::test(flavor = "multi_thread")]
async fn rules_keep_pods_from_borrowing_addresses() {
    let world = World::new();
    let (web, victim, third) =
        (world.pod("web").await, world.pod("victim").await, world.pod("third").await);
    run_in_netns(&world.node, || {
        for entry in std::fs::read_dir("/proc/sys/net/ipv4/conf").expect("settings").flatten() {
            std::fs::write(entry.path().join("rp_filter"), "0").expect("written");
        }
    })
    .expect("inside");
    let six = |ip: IpAddr| -> IpAddr {
        let IpAddr::V4(ip) = ip else { panic!("the first address is IPv4") };
        format!("fd07::{:x}", ip.octets()[3]).parse().expect("an address")
    };
    let pairs = [(web.ip, victim.ip, third.ip), (six(web.ip), six(victim.ip), six(third.ip))];
    for (own, to, borrowed) in pairs {
        run_in_netns(&web.namespace, || {
            let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
            let index = netlink::link(&mut socket, "eth0").expect("eth0").index;
            let prefix = if borrowed.is_ipv4() { 32 } else { 128 };
            netlink::add_address(&mut socket, Address { index, ip: borrowed, prefix })
                .expect("added");
        })
        .expect("inside");
        let listener = run_in_netns(&victim.namespace, || {
            let socket = std::net::UdpSocket::bind((to, 81)).expect("bound");
            socket.set_read_timeout(Some(std::time::Duration::from_mins(1))).expect("set");
            socket
        })
        .expect("inside");
        for from in [borrowed, own] {
            run_in_netns(&web.namespace, || {
                let socket = std::net::UdpSocket::bind((from, 0)).expect("bound");
                socket.send_to(b"x", (to, 81)).expect("sent");
            })
            .expect("inside");
        }
        let (_, from) = listener.recv_from(&mut [0; 8]).expect("its own address");
        assert_eq!(from.ip(), own, "what was sent from another pod's address was dropped");
    }
}

/// Router advertisements and redirects from a pod are ignored.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_learns_no_routes_from_pods() {
    let world = World::new();
    world.pod("web").await;
    let links = world.links();
    let link = links.iter().find(|name| name.len() == 15).expect("the pod's interface");
    run_in_netns(&world.node, || {
        for setting in ["ipv6/conf/{}/accept_ra", "ipv6/conf/{}/accept_redirects"]
            .iter()
            .chain(&["ipv4/conf/{}/accept_redirects", "ipv6/conf/{}/autoconf"])
        {
            let path = format!("/proc/sys/net/{}", setting.replace("{}", link));
            assert_eq!(std::fs::read_to_string(&path).expect("a setting").trim(), "0", "{path}");
        }
    })
    .expect("inside");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_somebody_removes_come_back() {
    let world = World::new();
    let web = world.pod_with(with_ports("web", &[port(8080, None)])).await;
    serve(&web.namespace, (web.ip, 80));
    let gateway = world.network.gateways()[0];
    ask(&world.node, (gateway, 8080)).expect("before");
    run_in_netns(&world.node, || {
        let done = std::process::Command::new("nft").args(["flush", "ruleset"]).status();
        assert!(done.expect("nft runs").success());
    })
    .expect("inside");
    let began = std::time::Instant::now();
    while ask(&world.node, (gateway, 8080)).is_err() {
        assert!(began.elapsed() < std::time::Duration::from_mins(1), "the rules do not come back");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_the_cluster_is_masqueraded() {
    let world = World::new();
    let outside = NetworkNamespace::create().expect("a namespace");
    wire_outside(&world, &outside);
    let pod = world.pod("one").await;
    serve(&outside, ([192, 0, 2, 2], 80));
    let seen = ask(&pod.namespace, ([192, 0, 2, 2], 80)).expect("reached");
    assert_eq!(seen, IpAddr::from([192, 0, 2, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_to_other_nodes_come_and_go() {
    let world = World::new();
    let other = NetworkNamespace::create().expect("a namespace");
    wire_outside(&world, &other);
    let peer = ("10.244.8.0/24".parse().expect("a range"), IpAddr::from([192, 0, 2, 2]));
    world.network.set_routes([peer].into()).await.expect("set");
    world.network.set_routes([peer].into()).await.expect("set again");
    run_in_netns(&other, || {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        let index = netlink::link(&mut socket, "outside").expect("outside").index;
        let ip = [10, 244, 8, 5].into();
        netlink::add_address(&mut socket, Address { index, ip, prefix: 32 }).expect("added");
        netlink::set_route(
            &mut socket,
            &netlink::Route {
                destination: "10.244.7.0/24".parse().expect("a range"),
                gateway: Some([192, 0, 2, 1].into()),
                interface_index: None,
                source: None,
                protocol: 4,
                on_link: false,
            },
        )
        .expect("a route back");
    })
    .expect("inside");
    let pod = world.pod("one").await;
    serve(&other, ([10, 244, 8, 5], 80));
    assert_eq!(ask(&pod.namespace, ([10, 244, 8, 5], 80)).expect("reached"), pod.ip);
    world.network.set_routes(BTreeMap::new()).await.expect("removed");
    ask(&pod.namespace, ([10, 244, 8, 5], 80)).expect_err("no route any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_everything() {
    let mut world = World::new();
    let web = world.pod_with(with_ports("web", &[port(8080, None)])).await;
    serve(&web.namespace, (web.ip, 80));
    world.restart();
    let gateway = world.network.gateways()[0];
    ask(&world.node, (gateway, 8080)).expect("the host port is back");
    world.network.check(&web.attachment).await.expect("untouched");
    let again = world.network.add(&web.attachment).await.expect("added again");
    assert_eq!(again.ips[0], web.ip);
    assert_ne!(world.pod("two").await.ip, web.ip);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_behind() {
    let world = World::new();
    let one = world.pod("one").await;
    let two = world.pod("two").await;
    let before = world.links().len();
    world.network.remove(&one.attachment).await.expect("removed");
    world.network.remove(&one.attachment).await.expect("removing twice is no error");
    assert_eq!((world.links().len(), world.files()), (before - 1, 1));
    assert!(matches!(world.network.check(&one.attachment).await, Err(Error::NotConnected(..))));
    drop(two.namespace);
    world.network.gc(&BTreeSet::new()).await.expect("collected");
    assert_eq!(world.files(), 0);
    world.pod("three").await;
    world.network.tear_down().await.expect("down");
    assert_eq!((world.links(), world.files()), (vec!["lo".to_owned()], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_removed_without_a_network_that_runs() {
    let world = World::new();
    world.pod("one").await;
    let remove = || network::remove(world.directory.path(), &[]);
    run_in_netns(&world.node, remove).expect("inside").expect("removed");
    assert_eq!(world.links(), ["lo"]);
    assert!(!world.directory.path().join("addresses").exists());
    run_in_netns(&world.node, remove).expect("inside").expect("removing twice is no error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_namespace_is_gone_leaves_no_address() {
    let world = World::new();
    let missing = Attachment {
        sandbox_id: "x".to_owned(),
        netns: "/proc/1/no".into(),
        ..Attachment::default()
    };
    world.network.add(&missing).await.expect_err("no namespace");
    let file = world.directory.path().join("plain");
    std::fs::write(&file, b"").expect("written");
    let wrong = Attachment { netns: file, ..missing };
    world.network.add(&wrong).await.expect_err("not a namespace");
    assert_eq!(world.files(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_a_pod_takes_milliseconds() {
    let world = World::new();
    let mut times = Vec::new();
    for n in 0..40 {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let attachment = Attachment {
            sandbox_id: format!("pod{n}"),
            netns: path(&namespace),
            ..Attachment::default()
        };
        let begin = std::time::Instant::now();
        world.network.add(&attachment).await.expect("added");
        times.push(begin.elapsed());
        std::mem::forget(namespace);
    }
    times.sort();
    println!("add: median {:?}, slowest {:?}", times[20], times[39]);
    assert!(times[20].as_millis() < 1000, "median {:?}", times[20]); // seconds, if it grows with the pods
}

/// A neighbour of the node at 192.0.2.2, outside the cluster.
pub(crate) fn wire_outside(world: &World, outside: &NetworkNamespace) {
    let address = |name: &str, ip: [u8; 4]| {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        let index = netlink::link(&mut socket, name).expect("a link").index;
        netlink::set_up(&mut socket, index).expect("up");
        let address = Address { index, ip: ip.into(), prefix: 24 };
        netlink::add_address(&mut socket, address).expect("added");
    };
    run_in_netns(&world.node, || {
        let veth = Veth {
            name: "uplink",
            mac: [2, 0, 0, 0, 0, 1],
            peer_name: "outside",
            peer_mac: [2, 0, 0, 0, 0, 2],
            peer_namespace: outside,
            mtu: 1500,
        };
        netlink::add_veth(&mut Socket::open(NetlinkFamily::Route).expect("a socket"), &veth)
            .expect("made");
        address("uplink", [192, 0, 2, 1]);
    })
    .expect("inside");
    run_in_netns(outside, || address("outside", [192, 0, 2, 2])).expect("inside");
}
