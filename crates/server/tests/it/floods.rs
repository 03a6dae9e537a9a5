//! Tests of floods: connections that waste the server's time do not affect others.

use std::time::Duration;

use bytes::Bytes;
use client::{ConnectionUse, Connector as _, Io};
use http::{HeaderMap, Method};
use server::UserInfo;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_mins(2);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// GET / over https.
const GET: &[u8] = &[0x82, 0x84, 0x87];
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// More memory than any flood may use; a leak uses more.
const ROOM: u64 = 96 << 20;

#[tokio::test]
async fn streams_that_are_reset_at_once() {
    let cluster = TestCluster::start().await;
    let flood = (0..20_000u32).flat_map(|at| {
        let stream = 2 * at + 1;
        [frame(HEADERS, 5, stream, GET), frame(RESET, 0, stream, &[0, 0, 0, 8])].concat()
    });
    flooded(&cluster, flood.collect()).await;
}

#[tokio::test]
async fn headers_without_an_end() {
    let cluster = TestCluster::start().await;
    let mut flood = frame(HEADERS, 1, 1, GET);
    // A literal header of 16 KiB, repeated.
    let mut header = vec![0, 1, b'x', 0x7f, 0x80, 0x7f];
    header.resize(16_000, b'y');
    for _ in 0..2_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &header));
    }
    flooded(&cluster, flood).await;
}

#[tokio::test]
async fn pings_and_settings() {
    let cluster = TestCluster::start().await;
    let mut flood = Vec::new();
    for _ in 0..20_000 {
        flood.extend(frame(PING, 0, 0, &[7; 8]));
        flood.extend(frame(SETTINGS, 0, 0, &[]));
    }
    flooded(&cluster, flood).await;
}

#[tokio::test]
async fn headers_by_the_thousand() {
    let cluster = TestCluster::start().await;
    let mut request = b"GET /api HTTP/1.1\r\nhost: x\r\n".to_vec();
    (0..100_000).for_each(|n| request.extend(format!("x-{n}: {n}\r\n").bytes()));
    request.extend(b"\r\n");
    let answer = crate::raw::send(&cluster, &request).await;
    assert_eq!(answer.code, 431);
    served(&cluster).await;
}

#[tokio::test]
async fn bodies_that_never_come() {
    let cluster = TestCluster::start().await;
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut io = line(&cluster).await;
        let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\n\
                    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
        io.write_all(head.as_bytes()).await.expect("the server reads");
        open.push(io);
    }
    served(&cluster).await;
}

/// Sends a flood over HTTP/2, and checks that other clients are served during and after it.
async fn flooded(cluster: &TestCluster, flood: Vec<u8>) {
    served(cluster).await;
    let before = resident();
    let mut io = line(cluster).await;
    let rushing = async {
        let _ = io.write_all(PREFACE).await;
        let _ = io.write_all(&frame(SETTINGS, 0, 0, &[])).await;
        let (mut read, mut write) = tokio::io::split(io);
        let send = async {
            let _ = write.write_all(&flood).await; // the server may have closed the connection
            let _ = write.shutdown().await;
        };
        let listen = async {
            let mut buffer = [0; 4096];
            while read.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        tokio::join!(send, listen);
    };
    let beside = async {
        for _ in 0..20 {
            served(cluster).await;
        }
    };
    timeout(PATIENCE, async { tokio::join!(rushing, beside) }).await.expect("the flood ends");
    served(cluster).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < ROOM, "{} MiB more", grown >> 20);
}

async fn served(cluster: &TestCluster) {
    let admin = cluster.admin_client();
    let path = "/api/v1/namespaces/default";
    let asked = admin.request(Method::GET, path, HeaderMap::new(), Bytes::new());
    let answer = timeout(PATIENCE, asked).await.expect("in time").expect("an answer");
    assert_eq!(answer.status, 200);
}

async fn line(cluster: &TestCluster) -> Box<dyn Io> {
    let user = UserInfo::new("flood", &["system:masters", "system:authenticated"]);
    cluster.running.pipe(user).connect(ConnectionUse::Upgrade).await.expect("the server runs").io
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Memory in use, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() * 4096
}
