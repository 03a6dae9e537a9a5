//! The kubelet's HTTPS server: logs, exec, attach and port-forward streams, metrics and statistics.

mod auth;
mod certificate;
mod connection;
pub(crate) mod counters;
mod exposition;
mod idle_timeout;
pub(crate) mod logs;
mod node_logs;
mod resource_metrics;
mod stream;
mod summary;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{
    Request, Response, StatusCode,
    header::{self, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use object::{Lens, Value, to_json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use self::connection::{Connection, Connections};
use crate::{Config, Error, KubeletContext};

pub use self::certificate::leaf as serving_leaf;

pub(crate) type Body = BoxBody<Bytes, io::Error>;
pub(crate) type HttpResponse = Response<Body>;

const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Binds the port and serves until the context stops.
pub(crate) async fn start(host: &Arc<KubeletContext>) -> Result<SocketAddr, Error> {
    let wanted = SocketAddr::new(address(&host.config), host.config.port);
    let failed = |error| Error::Io { what: wanted.to_string(), error };
    let listener = bind(wanted, host.config.port_may_differ).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let shown = certificate::Shown::open(host)?;
    let tls = shown.tls.clone();
    host.cx.spawn("kubelet certificate", shown.follow(host.clone()));
    info!(%address, "serving");
    let host = host.clone();
    let cx = host.cx.clone();
    cx.spawn("kubelet server", async move {
        let (connections, tasks) = (Connections::new(), TaskTracker::new());
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    debug!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(connection) = connections.admit(peer.ip()) else { continue };
            let (host, stopping) = (host.clone(), host.cx.clone());
            let acceptor = TlsAcceptor::from(tls.current());
            tasks.spawn(async move {
                let serve = serve(host, acceptor, stream, &connection);
                tokio::select! {
                    () = connection.run(panics::contain("kubelet server", serve)) => {}
                    () = stopping.stopping() => {}
                }
                debug!(%peer, "closed");
            });
        }
    });
    Ok(address)
}

/// The address to listen on; the IPv6 wildcard, which accepts both families, for a node with IPv6 addresses.
fn address(config: &Config) -> IpAddr {
    let any_v4 = config.address == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if any_v4 && config.node_ips.iter().any(IpAddr::is_ipv6) {
        return Ipv6Addr::UNSPECIFIED.into();
    }
    config.address
}

async fn bind(wanted: SocketAddr, may_differ: bool) -> io::Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && may_differ => {
            let listener = TcpListener::bind(SocketAddr::new(wanted.ip(), 0)).await?;
            let port = listener.local_addr()?.port();
            warn!("port {} is taken; the kubelet listens on {port}", wanted.port());
            Ok(listener)
        }
        bound => bound,
    }
}

async fn serve(
    host: Arc<KubeletContext>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    connection: &Connection,
) {
    let Ok(Ok(stream)) = timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let chain = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
    let user = auth::by_certificate(&host, &chain);
    let service = service_fn(move |request| {
        let (host, user) = (host.clone(), user.clone());
        async move {
            let answer = answer(&host, user, request, connection);
            let answer = panics::contain("kubelet request", answer).await;
            let failed = |_| text(StatusCode::INTERNAL_SERVER_ERROR, "the request caused a panic");
            Ok::<_, Infallible>(with_security_headers(answer.unwrap_or_else(failed)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection ended badly");
    }
}

/// Sets the headers `X-Content-Type-Options` and `Strict-Transport-Security`, which security scanners expect.
fn with_security_headers(mut answer: HttpResponse) -> HttpResponse {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::STRICT_TRANSPORT_SECURITY, "max-age=31536000"),
    ] {
        answer.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    answer
}

/// Authenticates, authorizes and answers a request.
async fn answer(
    host: &Arc<KubeletContext>,
    user: Option<auth::User>,
    request: Request<Incoming>,
    connection: &Connection,
) -> HttpResponse {
    let path = request.uri().path().to_owned();
    let user = match user {
        Some(user) => Some(user),
        None => auth::by_token(host, request.headers()).await,
    };
    let Some(user) = user else { return text(StatusCode::UNAUTHORIZED, "Unauthorized") };
    if let Err(why) = auth::authorize(host, &user, request.method(), &path).await {
        return text(StatusCode::FORBIDDEN, &why);
    }
    if !connection.trust() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "too many connections");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["healthz" | "healthz/"] | ["healthz", "ping" | "syncloop" | "log"] => {
            text(StatusCode::OK, "ok")
        }
        ["pods" | "runningpods"] => json(&pods(host)),
        ["configz"] => json(&configz(host)),
        ["containerLogs", namespace, pod, container] => {
            logs::answer(host, namespace, pod, container, request.uri().query()).await
        }
        ["exec" | "attach" | "portForward" | "run", ..] => {
            stream::answer(host, &parts, request).await
        }
        ["logs", ..] => node_logs::answer(&host.config.node_logs, request.method(), &path).await,
        ["metrics"] => resource_metrics::metrics(host).await,
        ["metrics", "resource"] => resource_metrics::resource(host).await,
        ["metrics", "cadvisor"] => resource_metrics::cadvisor(host).await,
        ["metrics", "probes"] => resource_metrics::probes(host),
        ["stats", "summary"] => {
            let short = flag(request.uri().query(), &["only_cpu_and_memory"]);
            summary::answer(host, short).await
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

pub(crate) fn text(status: StatusCode, message: &str) -> HttpResponse {
    let body = Full::new(Bytes::from(message.to_owned())).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

pub(crate) fn json(value: &Value) -> HttpResponse {
    let body = Full::new(Bytes::from(to_json(value))).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}

fn pods(host: &KubeletContext) -> Value {
    let mut list = Value::object();
    (list["kind"], list["apiVersion"]) = ("PodList".into(), "v1".into());
    list["metadata"] = Value::object();
    list["items"] = host
        .pods
        .all()
        .iter()
        .map(|desired| {
            let mut pod = desired.pod.tree().clone();
            if let Some(status) = host.statuses.get(desired.pod.metadata().uid()) {
                pod["status"] = status;
            }
            pod
        })
        .collect();
    list
}

fn configz(host: &KubeletContext) -> Value {
    let config = &host.config;
    let mut out = Value::object();
    let inner = &mut out["kubeletconfig"];
    inner["clusterDomain"] = (&*config.cluster_domain).into();
    inner["clusterDNS"] = config.cluster_dns.iter().map(ToString::to_string).collect();
    inner["maxPods"] = i64::from(config.max_pods).into();
    inner["address"] = config.address.to_string().into();
    inner["port"] = i32::from(host.port.get().copied().unwrap_or(config.port)).into();
    if let Some(path) = &config.static_pod_path {
        inner["staticPodPath"] = path.to_string_lossy().into_owned().into();
    }
    inner["authentication"]["anonymous"]["enabled"] = false.into();
    out
}

/// The decoded values of a query parameter.
pub(crate) fn query_values<'a>(
    query: Option<&'a str>,
    name: &'a str,
) -> impl Iterator<Item = String> + 'a {
    query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('=').or(Some((pair, ""))))
        .filter(move |(key, _)| *key == name)
        .map(|(_, value)| decode(value))
}

pub(crate) fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    query_values(query, name).next()
}

pub(crate) fn flag(query: Option<&str>, names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| matches!(query_value(query, name).as_deref(), Some("1" | "true" | "True")))
}

/// Decodes a query component.
fn decode(text: &str) -> String {
    decode_path(&text.replace('+', " "))
}

/// Percent-decodes a path.
fn decode_path(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape =
            tail.split_at_checked(2).filter(|_| *first == b'%').and_then(|(hex, after)| {
                Some((u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok()?, after))
            });
        let (byte, after) = escape.unwrap_or((*first, tail));
        out.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn queries_are_decoded() {
    let query = Some("command=sh&command=-c&command=echo+a%26b&tty=1");
    assert_eq!(query_values(query, "command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b"]);
    assert!(flag(query, &["tty"]) && !flag(query, &["input"]));
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_unless_another_will_do() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let wanted = taken.local_addr().unwrap();
    assert_eq!(bind(wanted, false).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let other = bind(wanted, true).await.unwrap().local_addr().unwrap();
    assert!(other.port() != wanted.port() && other.ip() == wanted.ip());
    drop(taken);
    assert_eq!(bind(wanted, true).await.unwrap().local_addr().unwrap(), wanted);
}
