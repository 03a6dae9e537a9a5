//! Tests over real sockets on the loopback interface.

use super::*;
use crate::{serve, service_entry::ServiceEntry};
use object::yaml::from_yaml;
use std::{
    fmt::Write, net::Ipv4Addr, sync::atomic::AtomicUsize, sync::atomic::Ordering, time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::timeout,
};

const SOON: Duration = Duration::from_mins(1);

/// A server with a few names, which runs until this is dropped.
struct World {
    address: SocketAddr,
    resolver: Arc<Resolver>,
    _tasks: JoinSet<()>,
}

impl World {
    async fn new(upstreams: Vec<SocketAddr>) -> Self {
        let metrics = Arc::new(Metrics::default());
        let forward = Forwarder::new(upstreams, metrics.clone());
        let zone = Arc::new(RwLock::new(zone()));
        let resolver = Arc::new(Resolver::new(zone, ZoneSync::none(), forward, metrics));
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let udp = UdpSocket::bind(address).await.expect("the same port");
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::udp(udp, resolver.clone()));
        tasks.spawn(serve::tcp(tcp, resolver.clone()));
        Self { address, resolver, _tasks: tasks }
    }

    async fn udp(&self, request: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        socket.send_to(request, self.address).await.expect("sent");
        let mut buffer = [0; 2048];
        let received = timeout(SOON, socket.recv(&mut buffer)).await.expect("in time");
        buffer[..received.expect("received")].to_vec()
    }

    async fn tcp(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        let length = u16::try_from(request.len()).expect("short");
        stream.write_all(&[&length.to_be_bytes()[..], request].concat()).await.expect("sent");
        let length = stream.read_u16().await.expect("a length");
        let mut answer = vec![0; length.into()];
        stream.read_exact(&mut answer).await.expect("an answer");
        answer
    }

    async fn ask(&self, name: &str, kind: RecordType) -> Message {
        read(&self.udp(&question(name, kind, None)).await)
    }
}

fn zone() -> Zone {
    let mut zone = Zone::new(&Name::from_ascii("cluster.local.").expect("a name"));
    zone.set_namespace("shop", true);
    let mut slice = "addressType: IPv4\nports: []\nendpoints:\n".to_owned();
    for n in 0..200 {
        writeln!(slice, "- {{addresses: [10.244.1.{n}], conditions: {{}}}}").expect("a string");
    }
    for (name, spec) in [
        ("web", "clusterIP: 10.96.0.7"),
        ("many", "clusterIP: None"),
        ("alias", "{type: ExternalName, externalName: web.shop.svc.cluster.local}"),
        ("outside", "{type: ExternalName, externalName: www.example.com}"),
        ("loop", "{type: ExternalName, externalName: loop.shop.svc.cluster.local}"),
    ] {
        let service = from_yaml(&format!("spec:\n  {spec}")).expect("a service").into();
        let slices = [from_yaml(&slice).expect("a slice").into()];
        let slices = if name == "many" { &slices[..] } else { &[] };
        zone.set_service("shop", name, Some(ServiceEntry::new(&service, slices)));
    }
    zone
}

fn question(name: &str, kind: RecordType, payload: Option<u16>) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).expect("a name"), kind));
    if let Some(payload) = payload {
        let mut edns = Edns::new();
        edns.set_max_payload(payload);
        message.set_edns(edns);
    }
    message.to_vec().expect("a message")
}

fn read(bytes: &[u8]) -> Message {
    let message = Message::from_vec(bytes).expect("a message");
    assert_eq!((message.metadata.id, message.metadata.message_type), (7, MessageType::Response));
    message
}

fn texts(message: &Message) -> Vec<String> {
    message.answers.iter().map(|record| record.data.to_string()).collect()
}

/// An upstream server that answers every name with one address, and counts the queries.
async fn upstream(tasks: &mut JoinSet<()>) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tasks.spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.expect("received");
            count.fetch_add(1, Ordering::SeqCst);
            let mut message =
                Message::from_vec(&buffer[..length]).expect("a message").into_response();
            let data = RData::from(std::net::IpAddr::from([192, 0, 2, 1]));
            let name = message.queries[0].name().clone();
            message.add_answer(Record::from_rdata(name, 60, data));
            socket.send_to(&message.to_vec().expect("bytes"), from).await.expect("sent");
        }
    });
    (address, asked)
}

#[tokio::test]
async fn own_names_over_both_transports() {
    let world = World::new(Vec::new()).await;
    let request = question("wEb.shop.svc.cluster.local.", RecordType::A, None);
    let (udp, tcp) = (world.udp(&request).await, world.tcp(&request).await);
    assert_eq!(udp, tcp);
    let answer = read(&udp);
    assert_eq!(texts(&answer), ["10.96.0.7"]);
    assert!(answer.metadata.authoritative && answer.metadata.recursion_available);
    let asked = Name::from_ascii("wEb.shop.svc.cluster.local.").expect("a name");
    assert!(answer.queries[0].name().eq_case(&asked) && answer.answers[0].name.eq_case(&asked));
}

#[tokio::test]
async fn what_is_not_there_comes_with_the_soa() {
    let world = World::new(Vec::new()).await;
    for (name, code) in [
        ("nobody.shop.svc.cluster.local.", ResponseCode::NXDomain),
        ("shop.svc.cluster.local.", ResponseCode::NoError),
    ] {
        let answer = world.ask(name, RecordType::A).await;
        assert_eq!((answer.metadata.response_code, answer.answers.len()), (code, 0), "{name}");
        assert_eq!(answer.authorities[0].record_type(), RecordType::SOA);
    }
}

#[tokio::test]
async fn long_answers_are_cut_and_whole_over_tcp() {
    let world = World::new(Vec::new()).await;
    let name = "many.shop.svc.cluster.local.";
    for (payload, least, most) in [(None, 480, 512), (Some(4096), 1200, 1232)] {
        let bytes = world.udp(&question(name, RecordType::A, payload)).await;
        assert!((least..=most).contains(&bytes.len()), "{}", bytes.len());
        let answer = read(&bytes);
        assert!(answer.metadata.truncation && answer.edns.is_some() == payload.is_some());
    }
    let answer = read(&world.tcp(&question(name, RecordType::A, None)).await);
    assert_eq!((answer.answers.len(), answer.metadata.truncation), (200, false));
}

#[tokio::test]
async fn other_names_are_asked_for_and_remembered() {
    let mut tasks = JoinSet::new();
    let (server, asked) = upstream(&mut tasks).await;
    let world = World::new(vec![server]).await;
    for _ in 0..3 {
        let answer = world.ask("www.Example.com.", RecordType::A).await;
        assert_eq!(texts(&answer), ["192.0.2.1"]);
        assert!(!answer.metadata.authoritative);
    }
    let answer = world.ask("outside.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(texts(&answer), ["www.example.com.", "192.0.2.1"]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let report = world.resolver.metrics_text();
    assert!(report.contains("coredns_cache_hits_total 3\n"), "{report}");
    assert!(report.contains("{family=\"1\",proto=\"udp\",type=\"A\"} 4\n"), "{report}");
}

#[tokio::test]
async fn aliases_are_followed_and_loops_end() {
    let world = World::new(Vec::new()).await;
    let answer = world.ask("alias.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(texts(&answer), ["web.shop.svc.cluster.local.", "10.96.0.7"]);
    let answer = world.ask("alias.shop.svc.cluster.local.", RecordType::CNAME).await;
    assert_eq!(texts(&answer), ["web.shop.svc.cluster.local."]);
    let answer = world.ask("loop.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn a_dead_server_outside_hurts_only_names_outside() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let mut tasks = JoinSet::new();
    let silent_at = silent.local_addr().expect("an address");
    let world = World::new(vec![silent_at]).await;
    let mut waiting = std::pin::pin!(world.ask("www.example.com.", RecordType::A));
    let own = world.ask("web.shop.svc.cluster.local.", RecordType::A);
    tokio::select! {
        biased;
        own = own => assert_eq!(texts(&own), ["10.96.0.7"]),
        _ = &mut waiting => panic!("a name of ours waits for a server outside"),
    }
    assert_eq!(waiting.await.metadata.response_code, ResponseCode::ServFail);

    let (server, _) = upstream(&mut tasks).await;
    let world = World::new(vec![silent_at, server]).await;
    assert_eq!(texts(&world.ask("a.example.com.", RecordType::A).await), ["192.0.2.1"]);
    while silent.try_recv(&mut [0; 512]).is_ok() {}
    assert_eq!(texts(&world.ask("b.example.com.", RecordType::A).await), ["192.0.2.1"]);
    assert!(silent.try_recv(&mut [0; 512]).is_err(), "the good one is asked first now");
}

#[tokio::test]
async fn nonsense_is_refused() {
    let world = World::new(Vec::new()).await;
    let good = question("web.shop.svc.cluster.local.", RecordType::A, Some(1232));
    let code = |bytes: Vec<u8>| read(&bytes).metadata.response_code;
    let cut = world.udp(&good[..good.len() - 20]).await;
    assert_eq!(code(cut), ResponseCode::FormErr);
    let mut update = good.clone();
    update[2] = 4 << 3;
    assert_eq!(code(world.udp(&update).await), ResponseCode::NotImp);
    let mut version = good.clone();
    let at = version.len() - 5; // in the OPT record, which is the last
    version[at] = 1;
    assert_eq!(u16::from(code(world.udp(&version).await)), 16, "BADVERS");
    let transfer = question("cluster.local.", RecordType::AXFR, None);
    assert_eq!(code(world.tcp(&transfer).await), ResponseCode::Refused);
    let mut answer = good;
    answer[2] |= 0x80;
    let from = world.address;
    assert!(matches!(world.resolver.handle(&answer, from, Transport::Udp), Outcome::Drop));
}
