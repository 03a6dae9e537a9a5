//! Malformed and hostile HTTP/2: none of it stops the server.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use prost::Message as _;
use store::{
    MemoryLog,
    wire::pb::{self, kv_client::KvClient},
};

use crate::face::{self, Running};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// The headers of a call, without the dynamic table.
fn headers(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(":path", path), ("content-type", "application/grpc")] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn message(request: &impl prost::Message) -> Vec<u8> {
    let length = u32::try_from(request.encoded_len()).unwrap().to_be_bytes();
    [&[0][..], &length, &request.encode_to_vec()].concat()
}

fn connect(etcd: &Running, settings: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(etcd.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()).unwrap();
    stream
}

/// The next frame: its type, flags, stream and payload. `None` if the connection is closed.
fn next(stream: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], id, payload))
}

fn until(stream: &mut TcpStream, kind: u8) -> Option<(u8, u8, u32, Vec<u8>)> {
    loop {
        let found = next(stream)?;
        if found.0 == kind {
            return Some(found);
        }
    }
}

/// Other clients are still served.
async fn is_well(etcd: &Running) {
    let mut kv = KvClient::new(etcd.channel().await);
    let put = pb::PutRequest { key: "well".into(), value: "1".into(), ..Default::default() };
    kv.put(put).await.expect("it is well");
}

fn memory() -> Running {
    face::start(Arc::new(MemoryLog::default()), 0)
}

#[tokio::test]
async fn an_answer_waits_for_the_window() {
    let etcd = memory();
    let mut kv = KvClient::new(etcd.channel().await);
    let value = vec![7; 100];
    let put = pb::PutRequest { key: "a".into(), value: value.clone().into(), ..Default::default() };
    kv.put(put).await.unwrap();
    let mut stream = connect(&etcd, &[0, 4, 0, 0, 0, 10]); // an initial window of ten bytes
    let range = message(&pb::RangeRequest { key: "a".into(), ..Default::default() });
    stream.write_all(&frame(HEADERS, 4, 1, &headers("/etcdserverpb.KV/Range"))).unwrap();
    stream.write_all(&frame(DATA, 1, 1, &range)).unwrap();
    let mut answer = Vec::new();
    while let Some((kind, flags, _, payload)) = next(&mut stream) {
        if kind == DATA {
            assert!(payload.len() <= 10, "{} at once", payload.len());
            answer.extend(payload);
            stream.write_all(&frame(WINDOW, 0, 1, &[0, 0, 0, 10])).unwrap();
        } else if kind == HEADERS && flags & 1 != 0 {
            break;
        }
    }
    let answer = pb::RangeResponse::decode(&answer[5..]).expect("whole");
    assert_eq!(answer.kvs[0].value, value);
}

#[tokio::test]
async fn large_values_come_and_go_in_pieces() {
    let etcd = memory();
    let channel = etcd.channel().await;
    let mut kv = KvClient::new(channel).max_decoding_message_size(64 << 20);
    for nth in 0..20 {
        let value = vec![nth; 1_400_000];
        let put = pb::PutRequest {
            key: vec![b'k', nth].into(),
            value: value.into(),
            ..Default::default()
        };
        kv.put(put).await.unwrap();
    }
    let range = pb::RangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() };
    let found = kv.range(range).await.unwrap().into_inner();
    assert_eq!((found.kvs.len(), found.count), (20, 20));
    for (nth, kv) in (0..20).zip(found.kvs) {
        assert!(kv.value.len() == 1_400_000 && kv.value.iter().all(|byte| *byte == nth));
    }
    let huge =
        pb::PutRequest { key: "h".into(), value: vec![1; 3 << 20].into(), ..Default::default() };
    let refused = kv.put(huge).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    is_well(&etcd).await;
}

#[tokio::test]
async fn what_violates_the_protocol_ends_the_connection_and_no_other() {
    let etcd = memory();
    let path = headers("/etcdserverpb.KV/Range");
    let long = vec![0; 20_000];
    let bad: Vec<(&str, Vec<u8>)> = vec![
        ("data of no stream", frame(DATA, 1, 0, b"x")),
        ("data of a stream to come", frame(DATA, 1, 9, b"x")),
        ("headers of an even stream", frame(HEADERS, 5, 2, &path)),
        ("headers that make no sense", frame(HEADERS, 5, 1, &[0xff; 9])),
        ("a frame that is too long", frame(DATA, 0, 1, &long)),
        ("a continuation of nothing", frame(CONTINUATION, 4, 1, &path)),
        (
            "something between headers",
            [frame(HEADERS, 0, 1, &path), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        ("a ping of a wrong size", frame(PING, 0, 0, &[0; 7])),
        ("settings of a wrong size", frame(SETTINGS, 0, 0, &[0; 5])),
        ("settings of a stream", frame(SETTINGS, 0, 1, &[])),
        ("too wide a window", frame(WINDOW, 0, 0, &0x7fff_ffff_u32.to_be_bytes())),
        ("a reset of a stream to come", frame(RESET, 0, 7, &[0; 4])),
        (
            "padding that is too long",
            [frame(HEADERS, 4, 1, &path), frame(DATA, 9, 1, &[9, 0])].concat(),
        ),
    ];
    for (what, bytes) in bad {
        let mut stream = connect(&etcd, &[]);
        stream.write_all(&bytes).unwrap();
        let (.., payload) = until(&mut stream, GO_AWAY).unwrap_or_else(|| panic!("{what}"));
        assert_ne!(payload[4..8], [0; 4], "{what}: it says why");
        assert!(until(&mut stream, DATA).is_none(), "{what}: it is over");
    }
    is_well(&etcd).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_on_its_stream() {
    let etcd = memory();
    let mut stream = connect(&etcd, &[]);
    let cases: [(&str, &[u8], &str); 4] = [
        ("/etcdserverpb.KV/Range", &[1, 0, 0, 0, 0], "12"), // compressed
        ("/etcdserverpb.KV/Range", &[0, 0, 0, 0, 9], "13"), // truncated
        ("/etcdserverpb.KV/Put", &[0, 0, 0, 0, 0], "3"),    // no key
        ("/etcdserverpb.Nothing/None", &[0, 0, 0, 0, 0], "12"),
    ];
    for (nth, (path, body, code)) in (0..).zip(cases) {
        let id = nth * 2 + 1;
        stream.write_all(&frame(HEADERS, 4, id, &headers(path))).unwrap();
        stream.write_all(&frame(DATA, 1, id, body)).unwrap();
        let (_, flags, of, block) = until(&mut stream, HEADERS).expect("an answer");
        let said = block.windows(b"grpc-status".len()).position(|part| part == b"grpc-status");
        let said = &block[said.expect("a status") + b"grpc-status".len() + 1..][..code.len()];
        assert_eq!((flags & 1, of, said), (1, id, code.as_bytes()), "{path}");
    }
}

/// Valid input with a few flipped bits, many times. Other clients are still served.
#[tokio::test]
async fn noise_stops_nobody() {
    let etcd = memory();
    let put = pb::PutRequest { key: "a".into(), value: vec![1; 300].into(), ..Default::default() };
    let range = pb::RangeRequest { key: "a".into(), range_end: "z".into(), ..Default::default() };
    let mut good = Vec::new();
    for (id, path, body) in [
        (1, "/etcdserverpb.KV/Put", message(&put)),
        (3, "/etcdserverpb.KV/Range", message(&range)),
        (5, "/etcdserverpb.Maintenance/Status", vec![0; 5]),
        (7, "/etcdserverpb.Watch/Watch", vec![0; 5]),
    ] {
        good.extend(frame(HEADERS, 4, id, &headers(path)));
        good.extend(frame(DATA, 1, id, &body));
    }
    good.extend(frame(PING, 0, 0, &[1; 8]));
    let mut dice = 1_u64;
    let mut throw = |below: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % below
    };
    for round in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..=throw(4) {
            let at = throw(bytes.len());
            bytes[at] ^= u8::try_from(1 + throw(255)).unwrap();
        }
        bytes.truncate(bytes.len() - throw(40));
        let mut stream = connect(&etcd, &[]);
        let _ = stream.write_all(&bytes); // the connection may be closed before everything is written
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        if round % 50 == 0 {
            is_well(&etcd).await;
        }
    }
    is_well(&etcd).await;
}

/// A setting applies to all open streams, and one frame may contain many settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_do_not_cost_more_the_more_streams_there_are() {
    let etcd = memory();
    let mut stream = connect(&etcd, &[]);
    let mut flood = Vec::new();
    for id in 0..30_000 {
        flood.extend(frame(HEADERS, 4, 2 * id + 1, &headers("/etcdserverpb.KV/Range")));
    }
    let setting = |size: u8| [0, 4, 0, 0, 1, size];
    let payload: Vec<u8> =
        (0..2_700).flat_map(|n| setting(u8::try_from(n % 200).unwrap())).collect();
    for _ in 0..60 {
        flood.extend(frame(SETTINGS, 0, 0, &payload));
    }
    let before = std::time::Instant::now();
    let writer = std::thread::spawn(move || {
        stream.write_all(&flood).unwrap();
        stream.write_all(&frame(PING, 0, 0, &[7; 8])).unwrap();
        until(&mut stream, PING).expect("an answer")
    });
    is_well(&etcd).await;
    tokio::task::spawn_blocking(move || writer.join().unwrap()).await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
}

#[tokio::test]
async fn who_changes_its_settings_without_end_is_sent_away() {
    let etcd = memory();
    let mut stream = connect(&etcd, &[]);
    let flood: Vec<u8> = (0..500).flat_map(|_| frame(SETTINGS, 0, 0, &[])).collect();
    stream.write_all(&flood).unwrap();
    let (_, _, _, payload) = until(&mut stream, GO_AWAY).expect("a farewell");
    assert_eq!(payload[4..8], [0, 0, 0, 11], "calm down");
    is_well(&etcd).await;
}

/// A window update releases the waiting data, and no more than that.
#[tokio::test]
async fn a_wider_window_lets_waiting_answers_go_on() {
    let etcd = memory();
    let mut kv = KvClient::new(etcd.channel().await);
    let put = pb::PutRequest { key: "a".into(), value: vec![7; 100].into(), ..Default::default() };
    kv.put(put).await.unwrap();
    let mut stream = connect(&etcd, &[0, 4, 0, 0, 0, 0]); // an initial window of zero
    let range = message(&pb::RangeRequest { key: "a".into(), ..Default::default() });
    stream.write_all(&frame(HEADERS, 4, 1, &headers("/etcdserverpb.KV/Range"))).unwrap();
    stream.write_all(&frame(DATA, 1, 1, &range)).unwrap();
    until(&mut stream, HEADERS).expect("the beginning of an answer");
    stream.write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 4, 0])).unwrap();
    let (_, _, _, payload) = until(&mut stream, DATA).expect("the rest of it");
    assert!(payload.len() > 100);
}
