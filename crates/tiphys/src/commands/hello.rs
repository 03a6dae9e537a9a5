//! `hello`: a small web application for clusters that cannot download images, and an HTTP client to request it from
//! inside a pod.

use std::{convert::Infallible, ffi::OsString, net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::Parser;
use client::{ConnectionUse, Connector, TcpConnector};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::{Request, Response, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, time::timeout};

use super::{parse, run_async};

const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BODY_BYTES: usize = 1 << 20;

#[derive(Parser)]
pub(super) struct Arguments {
    /// The port to listen on.
    #[arg(long, default_value_t = 80)]
    port: u16,
    /// Do not serve: get this page and print it.
    #[arg(long, value_name = "URL")]
    fetch: Option<String>,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { port, fetch: url } = match parse("hello", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run_async("hello", async move {
        if let Some(url) = url {
            print!("{}", fetch(&url).await?);
        } else {
            tokio::select! {
                served = serve(port) => served?,
                stopped = super::wait_for_shutdown_signal() => stopped?,
            }
        }
        Ok(())
    })
}

/// Serves a page with the pod's name, which is the pod's host name.
async fn serve(port: u16) -> Result<()> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let page = Bytes::from(format!("Hello from {}\n", name.trim()));
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port)))
        .await
        .with_context(|| format!("cannot listen on port {port}"))?;
    let tasks = tokio_util::task::TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let page = page.clone();
        let service = service_fn(move |_| {
            let reply = Response::new(Full::new(page.clone()));
            async move { Ok::<_, Infallible>(reply) }
        });
        tasks.spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Requests a page and returns its body.
pub(crate) async fn fetch(url: &str) -> Result<String> {
    timeout(FETCH_TIMEOUT, get(url)).await.context("no answer within 5 s")?
}

async fn get(url: &str) -> Result<String> {
    let uri: hyper::Uri = url.parse()?;
    let host = uri.host().context("the URL has no host")?;
    if uri.scheme_str() != Some("http") {
        bail!("only http is spoken here");
    }
    let to = TcpConnector::new(host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80), None);
    let connected = to.connect(ConnectionUse::Upgrade).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(connected.io)).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).header("host", to.authority()).body(Empty::<Bytes>::new())?;
    // this future drops the sender when it ends, which closes the connection
    let exchange = async move {
        let answer = sender.send_request(request).await?;
        let body = Limited::new(answer.into_body(), MAX_BODY_BYTES).collect().await;
        anyhow::Ok(body.map_err(anyhow::Error::from_boxed)?.to_bytes())
    };
    // a server may close the connection as soon as it has sent the response
    let (body, _) = tokio::join!(exchange, connection);
    let body = body?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
