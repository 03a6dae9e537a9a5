//! Request bodies that are not read, over a real socket: the client gets the response nevertheless.

use std::{sync::Arc, time::Duration};

use apiserver::RunningServer;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::connection_flags::behind_port;

const PATIENCE: Duration = Duration::from_mins(2);

async fn connect(running: &RunningServer) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(running.cluster.ca.certificate().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(pki::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", running.port)).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

fn request(path: &str, size: usize, more: &str) -> Vec<u8> {
    let head = format!("PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n{more}\r\n");
    let mut bytes = head.into_bytes();
    bytes.resize(bytes.len() + size, b'x');
    bytes
}

/// Reads one response with its body; returns its head in lower case.
async fn answer(io: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut read = Vec::new();
    let mut end = None;
    let talk = async {
        loop {
            if end.is_none() {
                end = read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            }
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
                let size = head.split("content-length: ").nth(1).and_then(|at| at.lines().next());
                let size: usize = size.and_then(|size| size.parse().ok()).unwrap_or(0);
                if read.len() >= end + size {
                    return head;
                }
            }
            let mut part = [0; 4096];
            let n = io.read(&mut part).await.expect("the whole answer");
            assert!(n > 0, "cut off: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&part[..n]);
        }
    };
    timeout(PATIENCE, talk).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_read_does_not_cut_off_the_answer() {
    let folder = TempDir::new().unwrap();
    let running = behind_port(&folder, |flags| {
        flags.authorization_mode = vec!["AlwaysAllow".to_owned()];
    })
    .await;
    let mut io = connect(&running).await;
    // Small bodies: the connection stays open, whatever the response.
    for (path, code) in [
        ("/openapi/v2", "200"),
        ("/version", "405"),
        ("/healthz", "200"),
        ("/nowhere", "404"),
        ("/apis/apps/v1/nowhere", "404"),
        ("/api/v1/namespaces/default/configmaps", "405"),
    ] {
        io.write_all(&request(path, 200 << 10, "")).await.unwrap();
        let head = answer(&mut io).await;
        assert!(head.starts_with(&format!("http/1.1 {code}")), "{path}: {head}");
        assert!(!head.contains("connection: close"), "{path}: {head}");
    }
    // A large body: the response arrives, and the connection is closed.
    let (mut reader, mut writer) = tokio::io::split(connect(&running).await);
    let body = request("/version", 8 << 20, "");
    let send = async {
        let _ = writer.write_all(&body).await; // the server may have closed the connection
    };
    let (head, ()) = tokio::join!(answer(&mut reader), send);
    assert!(head.starts_with("http/1.1 405") && head.contains("connection: close"), "{head}");
    // With `expect: 100-continue`, no body is requested if it is not needed.
    let mut io = connect(&running).await;
    let body = request("/version", 1 << 10, "expect: 100-continue\r\n");
    let head_only = body.len() - (1 << 10);
    io.write_all(&body[..head_only]).await.unwrap();
    let head = answer(&mut io).await;
    assert!(head.starts_with("http/1.1 405") && head.contains("connection: close"), "{head}");
    running.stop().await;
}
