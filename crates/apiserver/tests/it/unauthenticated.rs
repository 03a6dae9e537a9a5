//! Connections of unauthenticated clients.

use bytes::Bytes;
use client::{ConnectionUse, Connector as _, PipeConnector};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use server::UserInfo;
use std::time::Duration;
use testkit::TestCluster;

use crate::flags::with;

/// Whether the server closes an HTTP/2 connection after one request.
async fn ends(pipe: PipeConnector, path: &str) -> bool {
    let io = TokioIo::new(pipe.connect(ConnectionUse::Requests).await.unwrap().io);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test has no context")]
    let ended = tokio::spawn(connection);
    let request = Request::get(format!("http://localhost{path}")).body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    answer.into_body().collect().await.unwrap();
    tokio::time::timeout(Duration::from_secs(2), ended).await.is_ok()
}

#[tokio::test]
async fn nobody_keeps_a_connection() {
    let cluster = TestCluster::start().await;
    for path in ["/version", "/api/v1/secrets"] {
        assert!(ends(cluster.running.open_pipe(), path).await, "{path}");
    }
    let bob = UserInfo::new("bob", &["system:authenticated"]);
    assert!(!ends(cluster.running.pipe(bob), "/version").await, "he is somebody");
    let gate = "UnauthenticatedHTTP2DOSMitigation=false".to_owned();
    let cluster = with(|flags| flags.feature_gates = vec![gate]).await;
    assert!(!ends(cluster.running.open_pipe(), "/version").await, "it was turned off");
}
