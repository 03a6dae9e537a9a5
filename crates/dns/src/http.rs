//! HTTP endpoints for probes and metrics: /health, /ready, /metrics.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
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

use crate::resolver::Resolver;

/// Maximum number of connections. Any pod may connect, and the probes use the same port.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

pub(crate) async fn serve(listener: TcpListener, resolver: Arc<Resolver>) {
    let limit = ConnectionLimit::new(MAX_CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let Some(admitted) = limit.admit(from.ip()) else { continue };
        let resolver = resolver.clone();
        connections.spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &resolver);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let served =
                admitted.run(panics::contain("dns", timeout(CONNECTION_TIMEOUT, connection))).await;
            if let Some(Ok(Ok(Err(error)))) = served {
                debug!(%error, "connection failed");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

fn answer(request: &Request<Incoming>, resolver: &Resolver) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/health" => (StatusCode::OK, "OK".to_owned()),
        "/ready" if resolver.is_ready() => (StatusCode::OK, "OK".to_owned()),
        "/ready" => (StatusCode::SERVICE_UNAVAILABLE, "kubernetes".to_owned()),
        "/metrics" => (StatusCode::OK, resolver.metrics_text()),
        _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
