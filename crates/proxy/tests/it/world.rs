//! A node with two pods behind it and a client in front.

use proxy::{Endpoint, NodeConfig, Protocol, Proxier, Service, ServiceName, ServicePort};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use sys::netlink::{
    self, Address, Cidr, NetlinkFamily, NetworkNamespace, Route, Socket, Veth, run_in_netns,
};

pub(crate) const NODE: IpAddr = ip([192, 0, 2, 1]);
pub(crate) const CLIENT: IpAddr = ip([192, 0, 2, 2]);
pub(crate) const PODS: [IpAddr; 2] = [ip([10, 244, 0, 2]), ip([10, 244, 1, 2])];
pub(crate) const CLUSTER_IP: IpAddr = ip([10, 96, 0, 10]);

pub(crate) struct World {
    pub(crate) node: NetworkNamespace,
    pub(crate) client: NetworkNamespace,
    pub(crate) pods: Vec<NetworkNamespace>,
    pub(crate) proxy: Proxier,
}

const fn ip(octets: [u8; 4]) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::from_octets(octets))
}

impl World {
    pub(crate) fn new() -> Self {
        let make = || NetworkNamespace::create().expect("a namespace");
        let (node, client, pods) = (make(), make(), vec![make(), make()]);
        wire(&node, &client, "client", NODE, CLIENT);
        for (n, (pod, at)) in pods.iter().zip(PODS).enumerate() {
            let IpAddr::V4(v4) = at else { panic!("an IPv4 address") };
            let [a, b, c, _] = v4.octets();
            wire(&node, pod, &format!("pod{n}"), ip([a, b, c, 1]), at);
        }
        run_in_netns(&node, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
            default_route(CLIENT);
        })
        .expect("inside");
        let proxy =
            run_in_netns(&node, || Proxier::new(&this_node())).expect("inside").expect("a proxy");
        let world = Self { node, client, pods, proxy };
        for (pod, at) in world.pods.iter().zip(PODS) {
            serve(pod, at);
        }
        world
    }

    pub(crate) fn set(&mut self, service: &Service) -> usize {
        self.proxy.update(&[(service.name.clone(), Some(service.clone()))]).expect("written")
    }
}

pub(crate) fn this_node() -> NodeConfig {
    NodeConfig {
        name: "node".to_owned(),
        zone: String::new(),
        ips: vec![NODE],
        node_port_ips: vec![NODE],
        cluster_cidrs: vec!["10.244.0.0/16".parse().expect("a range")],
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        masquerade_all: false,
        masquerade_bit: 14,
        table: proxy::TABLE.to_owned(),
    }
}

/// A service with both pods as endpoints; the first is on this node.
pub(crate) fn service(name: &str) -> Service {
    Service {
        name: ServiceName { namespace: "default".to_owned(), name: name.to_owned() },
        cluster_ips: vec![CLUSTER_IP],
        external_ips: vec![],
        load_balancer_ips: vec![],
        source_ranges: vec![],
        session_affinity_timeout: None,
        external_local: false,
        internal_local: false,
        ports: vec![port("http", Protocol::Tcp)],
    }
}

pub(crate) fn port(name: &str, protocol: Protocol) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        protocol,
        port: 80,
        node_port: None,
        endpoints: vec![
            Endpoint::ready(PODS[0], 8080, true),
            Endpoint::ready(PODS[1], 8080, false),
        ],
    }
}

/// Connects; returns which server answered and which client address it saw.
pub(crate) fn ask(
    from: &NetworkNamespace,
    to: impl Into<SocketAddr>,
) -> Result<(IpAddr, IpAddr), ErrorKind> {
    let to = to.into();
    let answer = run_in_netns(from, || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    answer.expect("inside").map(|answer| parse(&answer)).map_err(|e| e.kind())
}

pub(crate) fn ask_udp(
    from: &NetworkNamespace,
    to: impl Into<SocketAddr>,
) -> Result<(IpAddr, IpAddr), ErrorKind> {
    let to = to.into();
    let answer = run_in_netns(from, || -> std::io::Result<String> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_mins(1)))?;
        socket.connect(to)?;
        socket.send(b"?")?;
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    });
    answer.expect("inside").map(|answer| parse(&answer)).map_err(|e| e.kind())
}

fn parse(answer: &str) -> (IpAddr, IpAddr) {
    let (own, peer) = answer.split_once(' ').expect("two addresses");
    (own.parse().expect("an address"), peer.parse().expect("an address"))
}

/// Answers on TCP and UDP port 8080 with its own and the caller's address.
fn serve(namespace: &NetworkNamespace, at: IpAddr) {
    let (tcp, udp) = run_in_netns(namespace, || {
        (TcpListener::bind((at, 8080)).expect("bound"), UdpSocket::bind((at, 8080)).expect("bound"))
    })
    .expect("inside");
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = tcp.accept() {
            let _ = write!(stream, "{at} {}", peer.ip());
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, peer)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(format!("{at} {}", peer.ip()).as_bytes(), peer);
        }
    });
}

fn wire(node: &NetworkNamespace, other: &NetworkNamespace, name: &str, near: IpAddr, far: IpAddr) {
    let address = |name: &str, ip: IpAddr| {
        let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
        for name in ["lo", name] {
            let index = netlink::link(&mut socket, name).expect("a link").index;
            netlink::set_up(&mut socket, index).expect("up");
        }
        let index = netlink::link(&mut socket, name).expect("a link").index;
        netlink::add_address(&mut socket, Address { index, ip, prefix: 24 }).expect("added");
    };
    run_in_netns(node, || {
        let IpAddr::V4(v4) = far else { panic!("an IPv4 address") };
        let [_, b, c, _] = v4.octets();
        let veth = Veth {
            name,
            mac: [2, 1, b, c, 0, 1],
            peer_name: "eth0",
            peer_mac: [2, 1, b, c, 0, 2],
            peer_namespace: other,
            mtu: 1500,
        };
        netlink::add_veth(&mut Socket::open(NetlinkFamily::Route).expect("a socket"), &veth)
            .expect("made");
        address(name, near);
    })
    .expect("inside");
    run_in_netns(other, || {
        address("eth0", far);
        default_route(near);
    })
    .expect("inside");
}

fn default_route(gateway: IpAddr) {
    let route = Route {
        destination: Cidr::any_of_family(gateway),
        gateway: Some(gateway),
        interface_index: None,
        source: None,
        protocol: 4,
        on_link: false,
    };
    netlink::set_route(&mut Socket::open(NetlinkFamily::Route).expect("a socket"), &route)
        .expect("routed");
}
