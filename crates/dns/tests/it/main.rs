//! The whole DNS server, from API objects to responses.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use api::{
    core::{Namespace, Service},
    discovery::EndpointSlice,
};
use client::{Api, Client, DeleteParams};
use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RecordType},
};
use object::{NamespacedName, yaml::from_yaml};
use runtime::Context;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    task::JoinSet,
    time::{sleep, timeout},
};

const LONG: Duration = Duration::from_mins(1);

async fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    listener.local_addr().expect("an address")
}

async fn ask(server: SocketAddr, name: &str) -> (ResponseCode, Vec<String>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let mut message = Message::new(1, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).expect("a name"), RecordType::A));
    socket.send_to(&message.to_vec().expect("bytes"), server).await.expect("sent");
    let mut buffer = [0; 1500];
    let length = timeout(LONG, socket.recv(&mut buffer)).await.expect("in time").expect("received");
    let answer = Message::from_vec(&buffer[..length]).expect("a message");
    let data = answer.answers.iter().map(|record| record.data.to_string()).collect();
    (answer.metadata.response_code, data)
}

/// Queries until the response is as expected.
async fn becomes(server: SocketAddr, name: &str, expected: (ResponseCode, &[&str])) {
    let until = async {
        loop {
            let (code, data) = ask(server, name).await;
            if code == expected.0 && data == expected.1 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, until).await.expect(name);
}

async fn get(server: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(server).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: dns\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// More idle connections from another address than the server accepts.
async fn hold(server: SocketAddr) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..300 {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).expect("an address");
        held.push(
            timeout(LONG, socket.connect(server)).await.expect("in time").expect("connected"),
        );
    }
    held
}

async fn ask_over_tcp(server: SocketAddr, name: Name) {
    let mut message = Message::new(1, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name, RecordType::A));
    let bytes = message.to_vec().expect("bytes");
    let length = u16::try_from(bytes.len()).expect("short").to_be_bytes();
    let mut stream = TcpStream::connect(server).await.expect("connected");
    stream.write_all(&[&length[..], &bytes].concat()).await.expect("sent");
    let length = stream.read_u16().await.expect("an answer");
    stream.read_exact(&mut vec![0; length.into()]).await.expect("an answer");
}

async fn fill(client: &Client) {
    let shop = Namespace::from(from_yaml("metadata: {name: shop}").expect("a namespace"));
    Api::<Namespace>::new(client).create(shop).await.expect("made");
    let web = "{metadata: {namespace: shop, name: web}, spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}}";
    let db =
        "{metadata: {namespace: shop, name: db}, spec: {clusterIP: None, ports: [{port: 80}]}}";
    for text in [web, db] {
        let service = Service::from(from_yaml(text).expect("a service"));
        Api::<Service>::new(client).create(service).await.expect("made");
    }
}

#[tokio::test]
async fn names_follow_the_api() {
    let (cluster, mut tasks) = (TestCluster::start().await, JoinSet::new());
    let client = cluster.admin_client();
    fill(&client).await;
    let (listen, http_listen) = (free().await, free().await);
    let config = dns::Config {
        listen: vec![listen],
        domain: "cluster.local".to_owned(),
        upstreams: Vec::new(),
        http_listen,
    };
    let cx = Context::new(&client);
    let running = cx.clone();
    tasks.spawn(async move { dns::run(&running, config).await.expect("served") });
    cx.wait_for_cache_sync().await;

    becomes(listen, "web.shop.svc.cluster.local.", (ResponseCode::NoError, &["10.96.0.7"])).await;
    becomes(listen, "db.shop.svc.cluster.local.", (ResponseCode::NXDomain, &[])).await;
    assert!(get(http_listen, "/ready").await.starts_with("HTTP/1.1 200"));
    assert!(get(http_listen, "/health").await.starts_with("HTTP/1.1 200"));
    assert!(
        get(http_listen, "/metrics")
            .await
            .contains("coredns_dns_responses_total{rcode=\"NOERROR\"}")
    );
    assert!(get(http_listen, "/other").await.starts_with("HTTP/1.1 404"));
    let held = (hold(http_listen).await, hold(listen).await);
    let probe = timeout(LONG / 4, get(http_listen, "/health")).await;
    assert!(probe.expect("not kept out").starts_with("HTTP/1.1 200"));
    let web = Name::from_ascii("web.shop.svc.cluster.local.").expect("a name");
    timeout(LONG / 4, ask_over_tcp(listen, web)).await.expect("not kept out");
    drop(held);

    let slice = "
metadata: {namespace: shop, name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.2], hostname: db-0, conditions: {ready: true}}]
";
    let slices = Api::<EndpointSlice>::new(&client);
    slices.create(from_yaml(slice).expect("a slice").into()).await.expect("made");
    let found = (ResponseCode::NoError, &["10.244.0.2"][..]);
    becomes(listen, "db-0.db.shop.svc.cluster.local.", found).await;

    let services = Api::<Service>::new(&client);
    services
        .delete(&NamespacedName::new("shop", "web"), &DeleteParams::default())
        .await
        .expect("gone");
    becomes(listen, "web.shop.svc.cluster.local.", (ResponseCode::NXDomain, &[])).await;
    becomes(listen, "example.com.", (ResponseCode::ServFail, &[])).await;
    cx.stop().await;
    cluster.stop().await;
}
