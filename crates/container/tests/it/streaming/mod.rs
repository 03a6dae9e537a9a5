//! Tests of the streaming server with clients of all protocols.

mod forwards;
mod spdy;
mod web_sockets;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use container::streaming::{
    AttachRequest, BoxFuture, Duplex, Error, ExecRequest, ExitStatus, Server, SessionIo,
    StreamingRuntime,
};
use http_body_util::Empty;
use hyper::{Request, Response, body::Incoming, client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

/// A fake container with the commands `cat`, `exit N`, `sizes N`, `hang` and `fail`.
struct Container;

impl StreamingRuntime for Container {
    fn exec(
        &self,
        request: ExecRequest,
        io: SessionIo,
    ) -> BoxFuture<'_, Result<ExitStatus, Error>> {
        Box::pin(async move {
            let words: Vec<_> = request.cmd.iter().map(String::as_str).collect();
            let broken = |error: std::io::Error| Error(error.to_string());
            match words[..] {
                ["cat"] => {
                    let (mut stdin, mut stdout) =
                        (io.stdin.expect("asked for"), io.stdout.expect("asked for"));
                    tokio::io::copy(&mut stdin, &mut stdout).await.map_err(broken)?;
                    if let Some(mut stderr) = io.stderr {
                        stderr.write_all(b"done").await.map_err(broken)?;
                    }
                    Ok(ExitStatus(0))
                }
                ["exit", code] => Ok(ExitStatus(code.parse().expect("a number"))),
                ["sizes", count] => {
                    let (mut resize, mut stdout) =
                        (io.resize.expect("a terminal"), io.stdout.expect("asked for"));
                    for _ in 0..count.parse().expect("a number") {
                        let size = resize.recv().await.expect("a size");
                        stdout
                            .write_all(format!("{}x{};", size.width, size.height).as_bytes())
                            .await
                            .map_err(broken)?;
                    }
                    Ok(ExitStatus(0))
                }
                ["hang"] => std::future::pending().await,
                _ => Err(Error("no such command".to_owned())),
            }
        })
    }

    fn attach(&self, request: AttachRequest, io: SessionIo) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let text = format!("attached to {}", request.container_id);
            let written = io.stdout.expect("asked for").write_all(text.as_bytes()).await;
            written.map_err(|error| Error(error.to_string()))
        })
    }

    /// Port 1 refuses, all others echo.
    fn port_forward(
        &self,
        _: String,
        port: u16,
        stream: Box<dyn Duplex>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if port == 1 {
                return Err(Error("connection refused".to_owned()));
            }
            let (mut read, mut write) = tokio::io::split(stream);
            tokio::io::copy(&mut read, &mut write)
                .await
                .map_err(|error| Error(error.to_string()))?;
            write.shutdown().await.map_err(|error| Error(error.to_string()))
        })
    }
}

async fn server() -> Server {
    Server::bind("127.0.0.1:0".parse().expect("an address"), Arc::new(Container))
        .await
        .expect("loopback")
}

fn exec(cmd: &str) -> ExecRequest {
    let cmd = cmd.split(' ').map(ToOwned::to_owned).collect();
    ExecRequest {
        container_id: "c".to_owned(),
        cmd,
        stdin: true,
        stdout: true,
        ..ExecRequest::default()
    }
}

/// Requests an upgrade; returns the response, with the connection if it was upgraded.
async fn upgrade(
    url: &str,
    headers: &[(&str, &str)],
) -> (Response<Incoming>, Option<TokioIo<Upgraded>>, JoinSet<()>) {
    let uri: hyper::Uri = url.parse().expect("an address");
    let authority = uri.authority().expect("a host").as_str().to_owned();
    let stream = TcpStream::connect(&authority).await.expect("the server listens");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    let mut request =
        Request::post(uri.path()).header("host", authority).header("connection", "Upgrade");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).expect("valid");
    let mut answer = sender.send_request(request).await.expect("an answer");
    let upgraded = match answer.status().as_u16() {
        101 => Some(TokioIo::new(hyper::upgrade::on(&mut answer).await.expect("granted"))),
        _ => None,
    };
    (answer, upgraded, tasks)
}

/// Bytes in which a lost or repeated part is noticed.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| u8::try_from((n ^ (n >> 8) ^ (n >> 16)) % 251).expect("small")).collect()
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_mins(2), work).await.expect("it should not take so long")
}

async fn read_all(mut from: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).await.expect("it ends");
    bytes
}

#[tokio::test]
async fn addresses_serve_once_and_only_upgrades() {
    let server = server().await;
    let url = server.url_for_exec(exec("exit 0")).expect("an address");
    let spdy = [("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v4.channel.k8s.io")];
    assert_eq!(upgrade(&url, &[]).await.0.status(), 400);
    assert_eq!(upgrade(&url, &spdy).await.0.status(), 404, "used up");
    let url = server.url_for_exec(exec("exit 0")).expect("an address");
    assert_eq!(
        upgrade(&url, &[spdy[0], ("x-stream-protocol-version", "chat")]).await.0.status(),
        403
    );
    let url = server.url_for_exec(exec("exit 0")).expect("an address");
    assert_eq!(
        upgrade(
            &url,
            &[spdy[0], ("x-stream-protocol-version", "v5.channel.k8s.io, v4.channel.k8s.io")]
        )
        .await
        .0
        .status(),
        101
    );
    assert!(server.url_for_exec(ExecRequest { tty: true, stderr: true, ..exec("x") }).is_err());
    assert!(server.url_for_exec(ExecRequest { stdin: false, stdout: false, ..exec("x") }).is_err());
    soon(server.stop()).await;
}

#[tokio::test]
async fn a_namespace_has_so_many_sessions_and_no_more() {
    let server = server().await;
    let of = |namespace: &str| {
        let namespace = namespace.to_owned();
        server.url_for_exec(ExecRequest { namespace, ..exec("exit 0") })
    };
    for _ in 0..256 {
        of("greedy").expect("an address");
    }
    let error = of("greedy").expect_err("enough").to_string();
    assert!(error.contains("has reached its limit of"), "{error}");
    of("modest").expect("others are not held back");
    server.stop().await;
}
