//! The listener of the etcd server: gRPC, JSON, health and metrics on one port, with or without TLS.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};
use tower_service::Service as _;
use tracing::{debug, warn};

use super::{
    gateway,
    http2::{Connection, PREFACE},
    maintenance::VERSION,
    metrics,
    service::Service,
};
use crate::wire::pb::{
    cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer,
    maintenance_server::MaintenanceServer, watch_server::WatchServer,
};

/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A bound port, and its TLS configuration.
#[derive(Debug)]
pub struct BoundListener {
    pub listener: TcpListener,
    pub tls: Option<Arc<ServerConfig>>,
}

/// Serves until `stop` resolves, and then for `patience` longer the requests in flight.
pub(super) async fn listen(
    service: Service,
    ports: Vec<BoundListener>,
    stop: impl Future<Output = ()>,
    patience: Duration,
) {
    let front = ConnectionRouter::new(service);
    let ending = CancellationToken::new();
    let (mut tasks, mut accepting) = (JoinSet::new(), JoinSet::new());
    let (sender, mut accepted) = tokio::sync::mpsc::channel(64);
    for port in ports {
        accepting.spawn(accept(port, sender.clone()));
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = tasks.join_next(), if !tasks.is_empty() => {}
            Some((stream, tls)) = accepted.recv() => {
                let (front, ending) = (front.clone(), ending.clone());
                tasks.spawn(async move {
                    let served = panics::contain("etcd connection", front.connect(stream, tls, ending));
                    if let Ok(Err(error)) = served.await {
                        debug!(error, "a connection has ended");
                    }
                });
            }
        }
    }
    accepting.shutdown().await;
    ending.cancel();
    let all = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(patience, all).await; // watches do not end by themselves
    tasks.shutdown().await;
}

type Accepted = tokio::sync::mpsc::Sender<(TcpStream, Option<TlsAcceptor>)>;

async fn accept(BoundListener { listener, tls }: BoundListener, accepted: Accepted) {
    let tls = tls.map(TlsAcceptor::from);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true); // without it, only slower
                if accepted.send((stream, tls.clone())).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[derive(Clone)]
struct ConnectionRouter {
    service: Service,
    kv: KvServer<Service>,
    watch: WatchServer<Service>,
    lease: LeaseServer<Service>,
    cluster: ClusterServer<Service>,
    maintenance: MaintenanceServer<Service>,
}

impl ConnectionRouter {
    fn new(service: Service) -> Self {
        let limit = service.limits.request_bytes + (512 << 10);
        Self {
            kv: KvServer::new(service.clone()).max_decoding_message_size(limit),
            watch: WatchServer::new(service.clone()),
            lease: LeaseServer::new(service.clone()),
            cluster: ClusterServer::new(service.clone()),
            maintenance: MaintenanceServer::new(service.clone()),
            service,
        }
    }

    async fn connect(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        ending: CancellationToken,
    ) -> Result<(), String> {
        let Some(tls) = tls else { return self.serve(stream, false, ending).await };
        match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.serve(stream, http2, ending).await
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("TLS handshake timed out".to_owned()),
        }
    }

    async fn serve(
        self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        http2_only: bool,
        ending: CancellationToken,
    ) -> Result<(), String> {
        let mut begun = BytesMut::with_capacity(4 << 10);
        let is_http2 = |begun: &[u8]| PREFACE.starts_with(&begun[..begun.len().min(PREFACE.len())]);
        while begun.len() < PREFACE.len() && is_http2(&begun) {
            let read = tokio::time::timeout(HANDSHAKE, stream.read_buf(&mut begun)).await;
            match read.map_err(|_| "the client sent nothing".to_owned())? {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if is_http2(&begun) {
            let input = begun.split_off(PREFACE.len());
            let service = self.service.clone();
            let serve = Arc::new(move |request| {
                let answer = self.clone().answer(request);
                Box::pin(answer) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
            });
            let connection = Connection::new(stream, service, serve, input);
            return connection.run(ending).await.map_err(|error| error.to_string());
        }
        if http2_only {
            return Err("HTTP/2 was agreed on, and not spoken".to_owned());
        }
        let (read, write) = tokio::io::split(stream);
        let whole = tokio::io::join(std::io::Cursor::new(begun).chain(read), write);
        let service = service_fn(move |request| {
            let this = self.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE)
            .serve_connection(TokioIo::new(whole), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.map_err(|error| error.to_string())
    }

    /// Routes a gRPC request to its service by the first part of the path.
    async fn grpc<B>(mut self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let path = request.uri().path().strip_prefix("/etcdserverpb.").unwrap_or_default();
        let answer = match path.split_once('/').map(|(service, _)| service) {
            Some("KV") => self.kv.call(request).await,
            Some("Watch") => self.watch.call(request).await,
            Some("Lease") => self.lease.call(request).await,
            Some("Cluster") => self.cluster.call(request).await,
            Some("Maintenance") => self.maintenance.call(request).await,
            Some("Auth") => Ok(gateway::no_users().into_http()),
            _ => Ok(Status::unimplemented("unknown service").into_http()),
        };
        match answer {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Handles a request. A panic fails this request only.
    async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let failed = "the request caused the server to panic";
        if is_grpc {
            let answer = panics::contain("etcd request", self.grpc(request)).await;
            return answer.unwrap_or_else(|_| Status::internal(failed).into_http());
        }
        let answer = panics::contain("etcd request", self.plain(request)).await;
        answer.unwrap_or_else(|_| {
            text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", failed.into())
        })
    }

    async fn plain<B>(self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        match request.uri().path() {
            path if path.starts_with("/v3/") => gateway::answer(self.service, request).await,
            "/version" => json_text(
                StatusCode::OK,
                &json!({ "etcdserver": VERSION, "etcdcluster": VERSION, "storage": VERSION }),
            ),
            "/health" => self.health(),
            path if path.starts_with("/livez") || path.starts_with("/readyz") => self.ready(),
            "/metrics" => text(
                StatusCode::OK,
                "text/plain; version=0.0.4",
                metrics::text(&self.service.member),
            ),
            _ => text(
                StatusCode::NOT_FOUND,
                "text/plain; charset=utf-8",
                "404 page not found\n".into(),
            ),
        }
    }

    /// Unhealthy while an alarm is raised, like etcd.
    fn health(&self) -> Response<Body> {
        let reason = if !self.service.member.is_healthy() {
            "RAFT NO LEADER"
        } else if self.service.member.read(|state| state.alarm) {
            "ALARM NOSPACE"
        } else {
            ""
        };
        let healthy = reason.is_empty();
        let status = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json_text(status, &json!({ "health": healthy.to_string(), "reason": reason }))
    }

    fn ready(&self) -> Response<Body> {
        let (status, word) = if self.service.member.is_healthy() {
            (StatusCode::OK, "ok\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "the log takes no more writes\n")
        };
        text(status, "text/plain; charset=utf-8", word.into())
    }
}

fn json_text(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    text(status, "application/json", value.to_string())
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Binds a port.
pub async fn bind(address: &str, tls: Option<Arc<ServerConfig>>) -> io::Result<BoundListener> {
    Ok(BoundListener { listener: TcpListener::bind(address).await?, tls })
}
