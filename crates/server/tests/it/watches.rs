//! Tests of watches over WebSockets, cached documents, names of metrics, and shutdown.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use client::{Client, PipeConnector};
use futures_util::{StreamExt, future::join_all};
use http::{HeaderMap, HeaderValue, Method, header};
use object::from_json;
use server::{Config, Listener, Server, Shutdown, UserInfo};
use testkit::TestCluster;
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_mins(2);
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_watch_over_a_web_socket() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let path = format!("{OBJECTS}?watch=true&fieldSelector=metadata.name%3Da");
    let mut socket = admin.upgrade(&path, &[]).await.expect("a WebSocket").stream;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
    admin.request(Method::POST, OBJECTS, headers, body).await.expect("made");
    let told = timeout(PATIENCE, socket.next()).await.expect("in time").expect("a message");
    let event = from_json(&told.expect("readable").into_data()).expect("JSON");
    assert_eq!(event["type"].as_str(), Some("ADDED"));
    assert_eq!(event["object"]["kind"].as_str(), Some("ConfigMap"));
    assert_eq!(event["object"]["metadata"]["name"].as_str(), Some("a"));
    cluster.stop().await;
    assert!(
        timeout(PATIENCE, async { while let Some(Ok(_)) = socket.next().await {} }).await.is_ok()
    );
}

#[tokio::test]
async fn who_knows_what_is_served_is_not_told_again() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in
        [("/apis", aggregated), ("/api", aggregated), ("/openapi/v3/api/v1", "*/*")]
    {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let ask = |headers: HeaderMap| admin.request(Method::GET, path, headers, Bytes::new());
        let first = ask(headers.clone()).await.expect("an answer");
        let tag = first.headers[header::ETAG].clone();
        headers.insert(header::IF_NONE_MATCH, tag);
        assert_eq!(ask(headers.clone()).await.expect("an answer").status, 304, "{path}");
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(ask(headers).await.expect("an answer").status, 200, "{path}");
    }
}

#[tokio::test]
async fn numbers_have_upstreams_names() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let get = |path: &'static str| admin.request(Method::GET, path, HeaderMap::new(), Bytes::new());
    get("/api/v1/pods").await.expect("a list").bytes().await.expect("whole");
    get("/apis/no.such/v1/things").await.expect("an answer");
    let watching = get("/api/v1/namespaces/default/pods?watch=true").await.expect("a watch");
    let text = get("/metrics").await.expect("numbers").bytes().await.expect("whole");
    let text = String::from_utf8_lossy(&text).into_owned();
    let labels = r#"component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1""#;
    for expected in [
        format!(r#"apiserver_request_total{{code="200",{labels}}} 1"#),
        format!("apiserver_request_duration_seconds_count{{{labels}}} 1"),
        r#"apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="WATCH",version="v1"} 1"#.to_owned(),
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#.to_owned(),
        r#"apiserver_resource_objects{group="",resource="namespaces"}"#.to_owned(),
        "process_resident_memory_bytes ".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("no.such"), "nobody makes up names");
    drop(watching);
}

#[tokio::test]
async fn the_end_comes_to_watches_one_after_the_other() {
    const WATCHES: usize = 200;
    const SPREAD: Duration = Duration::from_mins(1);
    let cluster = TestCluster::start().await;
    let whole = &cluster.running.server;
    let shutdown = Shutdown { watch_termination: SPREAD, ..Shutdown::default() };
    let config = Config { shutdown, ..whole.config.clone() };
    let mut server = Server::new(whole.registry.clone(), config);
    server.authorizers.clone_from(&whole.authorizers);
    let server = Arc::new(server);
    let (pipe, ends) = PipeConnector::new();
    let admin = UserInfo::new("admin", &["system:masters"]);
    server.listen(Listener::Pipe(ends, Some(Arc::new(admin))));
    let client = Client::new(client::Config::pipe(pipe));
    let path = format!("{OBJECTS}?watch=true");
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let watch = client.request(Method::GET, &path, HeaderMap::new(), Bytes::new()).await;
        watches.push(watch.expect("a watch"));
    }
    tokio::time::pause(); // from here on only what is waited for takes time
    let began = Instant::now();
    let ended = join_all(watches.into_iter().map(async |mut watch| {
        while watch.chunk().await.expect("a watch ends well").is_some() {}
        began.elapsed()
    }));
    let (mut ended, ()) = tokio::join!(ended, server.stop(SPREAD));
    ended.sort_unstable();
    assert!(ended[0] < SPREAD / 4, "the first after {:?}", ended[0]);
    assert!(ended[WATCHES - 1] < SPREAD * 2, "the last after {:?}", ended[WATCHES - 1]);
    for part in ended.windows(WATCHES / 4) {
        let (first, last) = (part[0], part[part.len() - 1]);
        assert!(last > first + SPREAD / 20, "a herd between {first:?} and {last:?}");
    }
}
