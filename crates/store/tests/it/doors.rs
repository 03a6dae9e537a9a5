//! Tests of everything on etcd's port but KV calls: JSON gateway, health, cluster, maintenance, and what is rejected.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use store::{
    MemoryLog,
    etcd_server::Compaction,
    wire::pb::{
        self, cluster_client::ClusterClient, kv_client::KvClient, watch_client::WatchClient,
        watch_request::RequestUnion,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::Code;

use crate::face::{self, Running};

/// The status and body of an HTTP/1.1 response.
async fn ask(etcd: &Running, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&etcd.url["http://".len()..]).await.expect("it listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_over_http_and_json() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 0);
    let post = async |path: &str, body: &str| ask(&etcd, "POST", path, body).await;
    // "a" and "b" in base64.
    let (code, text) = post("/v3/kv/put", r#"{"key":"YQ==","value":"Yg=="}"#).await;
    assert!(code == 200 && text.contains(r#""revision":"2""#), "{text}");
    let (_, text) = post("/v3/kv/range", r#"{"key":"YQ=="}"#).await;
    assert!(text.contains(r#""value":"Yg==""#) && text.contains(r#""count":"1""#), "{text}");
    let txn = r#"{"compare":[{"key":"YQ==","target":"VERSION","version":"1"}],
        "success":[{"requestPut":{"key":"YQ==","value":"Yw=="}}]}"#;
    let (_, text) = post("/v3/kv/txn", txn).await;
    assert!(text.contains(r#""succeeded":true"#), "{text}");
    let (_, text) = post("/v3/lease/grant", r#"{"TTL":"60","ID":"7"}"#).await;
    assert!(text.contains(r#""ID":"7""#), "{text}");
    let (_, text) = post("/v3/cluster/member/list", "{}").await;
    assert!(text.contains(r#""peerURLs":["http://peer:2380"]"#), "{text}");
    for path in ["cluster/member/add", "cluster/member/remove", "maintenance/transfer-leadership"] {
        let (code, text) = post(&format!("/v3/{path}"), "{}").await;
        assert!(code == 501 && text.contains("run etcd itself"), "{path}: {code} {text}");
    }
    let (code, text) = post("/v3/auth/enable", "{}").await;
    assert!(code == 501 && text.contains("users and roles are not supported here"), "{text}");
    assert_eq!(post("/v3/nothing", "{}").await.0, 404);
    assert_eq!(ask(&etcd, "GET", "/v3/kv/range", "").await.0, 405);
    assert_eq!(post("/v3/kv/range", "{nonsense").await.0, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_version_and_metrics() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 1);
    let get = async |path: &str| ask(&etcd, "GET", path, "").await;
    assert_eq!(get("/health").await, (200, r#"{"health":"true","reason":""}"#.to_owned()));
    assert_eq!((get("/livez").await.0, get("/readyz").await.0), (200, 200));
    assert!(get("/version").await.1.contains(r#""etcdserver":"3.7.0""#));
    let (_, metrics) = get("/metrics").await;
    for name in [
        "etcd_server_has_leader 1",
        "etcd_server_quota_backend_bytes 1",
        "etcd_mvcc_db_total_size_in_bytes 0",
        "etcd_mvcc_put_total 0",
        "etcd_debugging_mvcc_current_revision 1",
        "etcd_disk_wal_fsync_duration_seconds_count",
        "etcd_disk_backend_commit_duration_seconds_bucket{le=\"0.001\"} 0",
        "etcd_server_proposals_failed_total 0",
        "# TYPE etcd_server_version gauge\netcd_server_version{server_version=\"3.7.0\"} 1",
        "etcd_network_client_grpc_received_bytes_total 0",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    // The quota is exceeded: an alarm is raised, and the server is unhealthy.
    let (code, _) = ask(&etcd, "POST", "/v3/kv/put", r#"{"key":"YQ=="}"#).await;
    assert_eq!(code, 429);
    assert_eq!(get("/health").await.0, 503);
    let off = r#"{"action":"DEACTIVATE","alarm":"NOSPACE"}"#;
    assert_eq!(ask(&etcd, "POST", "/v3/maintenance/alarm", off).await.0, 200);
    assert_eq!(get("/health").await.0, 200, "it is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_several_members_names_etcd_itself() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 0);
    let mut cluster = ClusterClient::new(etcd.channel().await);
    let add = pb::MemberAddRequest { peer_ur_ls: vec!["http://b:2380".into()], is_learner: false };
    let refused = cluster.member_add(add).await.expect_err("there is one");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("run etcd itself"), "{}", refused.message());

    let mut any = tonic::client::Grpc::new(etcd.channel().await);
    any.ready().await.expect("connected");
    let path = http::uri::PathAndQuery::from_static("/etcdserverpb.Auth/AuthEnable");
    let codec = tonic_prost::ProstCodec::<pb::StatusRequest, pb::StatusResponse>::default();
    let refused = any.unary(tonic::Request::new(pb::StatusRequest {}), path, codec).await;
    let refused = refused.expect_err("there are no users");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("users and roles are not supported here"), "{refused}");
}

/// Events of one revision that are too large for one message are sent in fragments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_news_comes_in_fragments_to_who_wants_them() {
    let etcd = face::start(Arc::new(MemoryLog::default()), 0);
    let mut kv = KvClient::new(etcd.channel().await);
    for nth in 0..8 {
        let (key, value) = (format!("k{nth}").into(), Bytes::from(vec![7; 900_000]));
        kv.put(pb::PutRequest { key, value, ..Default::default() }).await.expect("written");
    }
    for fragment in [false, true] {
        let create = pb::WatchCreateRequest {
            key: "k".into(),
            range_end: "l".into(),
            start_revision: 1,
            fragment,
            ..Default::default()
        };
        let (sender, requests) = tokio::sync::mpsc::channel(1);
        let create = RequestUnion::CreateRequest(create);
        sender.send(pb::WatchRequest { request_union: Some(create) }).await.expect("open");
        let mut client =
            WatchClient::new(etcd.channel().await).max_decoding_message_size(usize::MAX);
        let mut answers =
            client.watch(ReceiverStream::new(requests)).await.expect("a stream").into_inner();
        let (mut events, mut fragments) = (0, 0);
        while events < 8 {
            let answer = tokio::time::timeout(Duration::from_mins(1), answers.next()).await;
            let answer = answer.expect("in time").expect("open").expect("well");
            events += answer.events.len();
            fragments += usize::from(answer.fragment);
        }
        assert_eq!((events, fragments > 0), (8, fragment));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_revisions_are_forgotten_without_being_asked() {
    let compaction = Compaction::Periodic(Duration::from_millis(100));
    let etcd = face::start_with(Arc::new(MemoryLog::default()), 0, compaction);
    let mut kv = KvClient::new(etcd.channel().await);
    let put = || pb::PutRequest { key: "a".into(), ..Default::default() };
    let first = kv.put(put()).await.expect("written").into_inner().header.expect("one").revision;
    let begun = std::time::Instant::now();
    loop {
        kv.put(put()).await.expect("written");
        let old = pb::RangeRequest { key: "a".into(), revision: first, ..Default::default() };
        match kv.range(old).await {
            Ok(_) => assert!(begun.elapsed() < Duration::from_mins(2), "nothing is forgotten"),
            Err(status) => {
                assert_eq!(status.code(), Code::OutOfRange);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
