//! Fuzz targets in a whole API server: damaged requests over connections within this process reach the parsers of
//! paths, queries, headers and frames as external clients do.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use client::{ConnectionUse, Connector as _, PipeConnector};
use httpstream::spdy;
use server::UserInfo;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    runtime::{Builder, Runtime},
    time::timeout,
};

pub(super) const TARGETS: &[&str] =
    &["request", "query", "continue", "accept", "impersonation", "websocket", "spdy"];

const PATIENCE: Duration = Duration::from_secs(5);
const A_MOMENT: Duration = Duration::from_millis(1);
const LIST: &str = "GET /api/v1/namespaces/default/configmaps";
const END: &str = "HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const UPGRADE: &str = "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: x\r\n\
    connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// An API server in this process.
pub(super) struct LiveServer {
    runtime: Runtime,
    _cluster: TestCluster,
    /// Connections that are authenticated as an administrator.
    admin: PipeConnector,
    /// Connections that must authenticate themselves.
    anybody: PipeConnector,
}

impl LiveServer {
    pub(super) fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (cluster, admin, anybody) = runtime.block_on(async {
            let cluster = TestCluster::start().await;
            let admin = UserInfo::new("admin", &["system:masters", "system:authenticated"]);
            let (admin, anybody) = (cluster.running.pipe(admin), cluster.running.open_pipe());
            (cluster, admin, anybody)
        });
        Ok(Self { runtime, _cluster: cluster, admin, anybody })
    }

    /// The corpus of a target.
    pub(super) fn corpus(&self, target: &str) -> Vec<Vec<u8>> {
        match target {
            "spdy" => vec![self.runtime.block_on(session())],
            "websocket" => vec![
                b"\x81\x85\x01\x02\x03\x04igohn".to_vec(),
                b"\x89\x80abcd\x88\x82abcd\x62\x8a".to_vec(),
                b"\x02\xfe\x00\x03abcdefg\x80\x80abcd".to_vec(),
            ],
            target => seeds(target).iter().map(|seed| seed.as_bytes().to_vec()).collect(),
        }
    }

    /// Sends an input. Returns whether the server accepted it; no response within the timeout is an error.
    pub(super) fn feed(&self, target: &str, input: &[u8]) -> Result<bool> {
        let text = || String::from_utf8_lossy(input).replace(['\r', '\n', ' '], "+");
        let talk = async {
            match target {
                "spdy" => Ok(understood(input).await),
                "websocket" => {
                    send_and_read(&self.admin, &[UPGRADE.as_bytes(), input].concat()).await
                }
                "continue" => {
                    let token = URL_SAFE_NO_PAD.encode(input);
                    let request = format!("{LIST}?limit=1&continue={token} {END}");
                    send_and_read(&self.admin, request.as_bytes()).await
                }
                "query" => {
                    send_and_read(&self.admin, format!("{LIST}?{} {END}", text()).as_bytes()).await
                }
                _ => {
                    let known = send_and_read(&self.admin, input).await?;
                    Ok(send_and_read(&self.anybody, input).await? || known)
                }
            }
        };
        let answered = self.runtime.block_on(async { timeout(PATIENCE, talk).await });
        answered.with_context(|| format!("no answer to {}", input.escape_ascii()))?
    }
}

/// Sends these bytes and no more, and reads to the end. After a complete request head, waits for the response before
/// the connection is closed.
async fn send_and_read(pipe: &PipeConnector, bytes: &[u8]) -> Result<bool> {
    let mut io = pipe.connect(ConnectionUse::Upgrade).await?.io;
    let mut read = Vec::new();
    let _ = io.write_all(bytes).await; // the server may have closed the connection early
    if bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let _ = timeout(50 * A_MOMENT, io.read_buf(&mut read)).await;
    }
    let _ = io.shutdown().await;
    let _ = io.read_to_end(&mut read).await;
    let code = read.get(9..12).and_then(|code| str::from_utf8(code).ok()?.parse().ok());
    Ok(code.is_some_and(|code: u16| code < 400))
}

fn seeds(target: &str) -> &'static [&'static str] {
    match target {
        "request" => &[
            "GET /api/v1/namespaces/default/configmaps/a%2Fb/status HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /apis/apps/v1/watch/namespaces/default/deployments/x?timeoutSeconds=1 HTTP/1.1\r\nhost: x\r\n\r\n",
            "POST /api/v1/namespaces/default/pods/a/exec?command=ls&stdout=true HTTP/1.1\r\nhost: x\r\n\
             connection: upgrade\r\nupgrade: SPDY/3.1\r\n\r\n",
            "PATCH /api/v1/namespaces/default/configmaps/a?dryRun=All&fieldManager=m HTTP/1.1\r\nhost: x\r\n\
             content-type: application/apply-patch+yaml\r\ncontent-length: 64\r\n\r\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}",
            "POST /api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict HTTP/1.1\r\nhost: x\r\n\
             content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
             24\r\n{\"metadata\":{\"name\":\"a\"},\"data\":{}}\r\n0\r\n\r\n",
            "DELETE /apis/batch/v1/namespaces/default/jobs?labelSelector=a HTTP/1.1\r\nhost: x\r\n\
             content-length: 31\r\n\r\n{\"preconditions\":{\"uid\":\"u\"}}",
            "GET /api/v1/nodes/https:n:10250/proxy/logs/../x?a=b HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /openapi/v3/apis/apps/v1?hash=0 HTTP/1.1\r\nhost: x\r\nif-none-match: \"x\"\r\n\r\n",
            "GET /readyz/etcd?verbose&exclude=ping HTTP/1.1\r\nhost: x\r\n\r\n",
        ],
        "query" => &[
            "labelSelector=a+in+(b,c),!d,e%3E5&fieldSelector=metadata.name%3Dx,metadata.namespace!=y",
            "limit=2&resourceVersion=5&resourceVersionMatch=NotOlderThan&pretty=true",
            "watch=1&timeoutSeconds=0&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=Exact",
            "includeObject=Object&dryRun=All&propagationPolicy=Orphan&gracePeriodSeconds=-1&orphanDependents=true",
            "%zz&a;b=c&&=&+=+&labelSelector=%00",
        ],
        "continue" => &[
            r#"{"v":"meta.k8s.io/v1","rv":5,"start":"default/a\u0000"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"kube-root-ca.crt\u0000"}"#,
            r#"{"v":"v0","rv":18446744073709551615,"start":"../x"}"#,
        ],
        "accept" => &[
            "GET /api/v1/configmaps?limit=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\naccept-encoding: gzip;q=0.5, *\r\n\
             accept: application/json;as=Table;v=v1;g=meta.k8s.io, application/vnd.kubernetes.protobuf;q=0.9, */*\r\n\r\n",
            "GET /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             accept: application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io;pretty=1\r\n\r\n",
            "GET /apis HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json\r\n\r\n",
            "PUT /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\
             content-type: application/yaml; charset=\"utf-8\"; a=b\r\n\r\n{}",
        ],
        _ => &[
            "GET /api/v1/configmaps?limit=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             impersonate-user: system:serviceaccount:a:b\r\nimpersonate-uid: u\r\nimpersonate-group: g\r\n\
             impersonate-group: h\r\nimpersonate-extra-example.com%2fscope: s\r\n\r\n",
            "GET /apis HTTP/1.1\r\nhost: x\r\nconnection: close\r\nimpersonate-user: system:node:n\r\n\
             impersonate-extra-: x\r\n\r\n",
            "GET /apis HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer eyJhbGciOiJFUzI1NiJ9.e30.AA\r\n\
             sec-websocket-protocol: base64url.bearer.authorization.k8s.io.dG9rZW4, v4.channel.k8s.io\r\n\r\n",
            "GET /apis HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Basic YWxpY2U6cGFzcw==\r\n\
             x-remote-user: a\r\nx-forwarded-for: 192.0.2.4, [::1]\r\naudit-id: x\r\norigin: https://a\r\n\r\n",
        ],
    }
}

/// The bytes that a client sends to open SPDY streams. There is no server: the frames are sent nevertheless.
async fn session() -> Vec<u8> {
    let (ours, mut theirs) = duplex(1 << 20);
    let client = spdy::Connection::client(ours);
    let opener = client.opener();
    for name in ["error", "stdin", "stdout"] {
        let headers = [("streamType", name), ("port", "80"), ("requestID", "1")];
        let _ = timeout(50 * A_MOMENT, opener.open(headers.into_iter().collect())).await;
    }
    let mut said = Vec::new();
    while timeout(100 * A_MOMENT, theirs.read_buf(&mut said)).await.is_ok_and(|n| n.is_ok()) {}
    said
}

/// Whether such a session opens a stream. All of it is read.
async fn understood(input: &[u8]) -> bool {
    let (ours, mut theirs) = duplex(1 << 16);
    let mut server = spdy::Connection::server(ours);
    let mut opened = false;
    tokio::join!(tell(&mut theirs, input), async {
        while let Some(mut stream) = server.accept().await {
            opened = true;
            let _ = timeout(A_MOMENT, stream.read(&mut [0; 64])).await;
            let _ = timeout(A_MOMENT, stream.write_all(b"x")).await;
        }
        drop(server);
    });
    opened
}

async fn tell(theirs: &mut DuplexStream, input: &[u8]) {
    let _ = theirs.write_all(input).await; // the server may have closed the connection early
    let _ = theirs.shutdown().await;
    let _ = theirs.read_to_end(&mut Vec::new()).await;
}
