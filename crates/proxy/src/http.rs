//! HTTP server of the proxy: health, metrics, and health check node ports.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use runtime::ConnectionLimit;
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

/// Maximum number of connections per listener; some are reachable by everyone.
const CONNECTIONS: usize = 64;
const LONGEST: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
/// Interval at which binding to an address is retried.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// Number of local endpoints, for upstream's `X-Load-Balancing-Endpoint-Weight` header.
    pub(crate) weight: Option<usize>,
}

impl Answer {
    pub(crate) fn ok(content_type: &'static str, body: String) -> Self {
        Self { status: StatusCode::OK, content_type, body, weight: None }
    }

    pub(crate) fn not_found() -> Self {
        let body = "404 page not found\n".to_owned();
        Self { status: StatusCode::NOT_FOUND, ..Self::ok(TEXT, body) }
    }
}

/// Binds to an address. If it is in use, binding is retried, or with `or_any_port` a free port of
/// the same address is used instead.
pub(crate) async fn bind(what: &str, at: SocketAddr, or_any_port: bool) -> TcpListener {
    loop {
        match TcpListener::bind(at).await {
            Ok(listener) => return listener,
            Err(error) if or_any_port => {
                let other = TcpListener::bind(SocketAddr::new(at.ip(), 0)).await;
                if let Ok(listener) = other {
                    let port = listener.local_addr().map_or(0, |address| address.port());
                    warn!(%at, %error, port, "kube-proxy's {what} are served on another port");
                    return listener;
                }
            }
            Err(error) => warn!(%at, %error, "kube-proxy's {what} cannot be served; will retry"),
        }
        sleep(RETRY).await;
    }
}

/// Serves until the future is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) {
    let (limit, answer) = (ConnectionLimit::new(CONNECTIONS), Arc::new(answer));
    let mut connections = JoinSet::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Some(admitted) = limit.admit(from.ip()) else { continue };
        let answer = answer.clone();
        connections.spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = respond(answer(request.uri().path()));
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let served = admitted.run(panics::contain("proxy", timeout(LONGEST, connection))).await;
            if let Some(Ok(Ok(Err(error)))) = served {
                debug!(%error, "connection failed");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(weight) = answer.weight {
        let name = HeaderName::from_static("x-load-balancing-endpoint-weight");
        headers.insert(name, weight.into());
    }
    response
}
