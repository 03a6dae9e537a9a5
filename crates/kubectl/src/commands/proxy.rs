//! `proxy`: serves the API on a local port, with our credentials.

mod files;

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE},
};
use hyper_util::rt::TokioIo;
use regex::Regex;
use tokio::net::{TcpListener, UnixListener};

use super::Command;
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::go_io_error,
    server::Server,
};

pub(crate) const COMMAND: Command = Command::new(
    "proxy",
    &[&[
        Flag::text("www").short('w'),
        Flag::text("www-prefix").short('P').default("/static/"),
        Flag::text("api-prefix").default("/"),
        Flag::text("accept-paths").default("^.*"),
        Flag::text("reject-paths").default("^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach"),
        Flag::text("accept-hosts").default("^localhost$,^127\\.0\\.0\\.1$,^\\[::1\\]$"),
        Flag::text("reject-methods").default("^$"),
        Flag::new("port", FlagType::Int64).short('p').default("8001"),
        Flag::text("address").default("127.0.0.1"),
        Flag::bool("disable-filter"),
        Flag::text("unix-socket").short('u'),
        Flag::new("keepalive", FlagType::Duration),
        Flag::bool("append-server-path"),
    ]],
    run,
);

/// Maximum size in bytes of a request body that is forwarded.
const LARGEST: usize = 16 << 20;
/// Maximum number of concurrent connections.
const MOST: usize = 256;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Which requests are accepted.
struct Filter {
    accept_paths: Vec<Regex>,
    reject_paths: Vec<Regex>,
    accept_hosts: Vec<Regex>,
    reject_methods: Vec<Regex>,
}

/// The proxy: the API server, the request filter, the path prefix of the API, and a directory of static files.
struct Proxy<'a> {
    server: &'a Server,
    filter: Option<Filter>,
    api: String,
    files: Option<(String, PathBuf)>,
}

fn run(call: &Invocation<'_>) -> Result {
    let flags = &call.flags;
    let socket = flags.text("unix-socket");
    if flags.int("port") != 8001 && !socket.is_empty() {
        return Err(CommandError::error("cannot set --unix-socket and --port at the same time"));
    }
    if flags.is_set("keepalive") || flags.is_true("append-server-path") {
        return Err(CommandError::error("--keepalive and --append-server-path are not supported"));
    }
    let filter = if flags.is_true("disable-filter") {
        if socket.is_empty() {
            call.log_warning("Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious");
        }
        None
    } else {
        if flags.text("reject-paths").is_empty() || flags.text("reject-methods").is_empty() {
            call.log_warning("Request filter has been relaxed, your proxy may be vulnerable to attacks, please be cautious");
        }
        Some(Filter::of(call)?)
    };
    let slash = |text: &str| if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
    let www = flags.text("www");
    let files = (!www.is_empty()).then(|| (slash(flags.text("www-prefix")), PathBuf::from(www)));
    let server = call.server()?;
    let proxy = Proxy { server, filter, api: slash(flags.text("api-prefix")), files };
    server.wait(async {
        if socket.is_empty() {
            let port = u16::try_from(flags.int("port")).map_err(|_| {
                CommandError::error(format!(
                    "listen tcp: address {}: invalid port",
                    flags.int("port")
                ))
            })?;
            let listener = TcpListener::bind((flags.text("address"), port)).await;
            let listener = listener.map_err(|error| {
                let place = format!("{}:{port}", flags.text("address"));
                CommandError::error(format!("listen tcp {place}: bind: {}", go_io_error(&error)))
            })?;
            let place =
                listener.local_addr().map_err(|error| CommandError::error(go_io_error(&error)))?;
            call.print(&format!("Starting to serve on {place}\n"));
            proxy.serve(async || listener.accept().await.map(|(stream, _)| stream)).await
        } else {
            let _ = std::fs::remove_file(socket);
            let listener = UnixListener::bind(socket).map_err(|error| {
                CommandError::error(format!("listen unix {socket}: bind: {}", go_io_error(&error)))
            })?;
            call.print(&format!("Starting to serve on {socket}\n"));
            proxy.serve(async || listener.accept().await.map(|(stream, _)| stream)).await
        }
    })
}

impl Filter {
    fn of(call: &Invocation<'_>) -> Result<Self> {
        let patterns = |flag: &str| -> Result<Vec<Regex>> {
            let text = call.flags.text(flag);
            let all = text.split(',').filter(|one| !one.is_empty());
            all.map(|one| {
                Regex::new(one).map_err(|error| {
                    CommandError::error(format!("error parsing --{flag}: {error}"))
                })
            })
            .collect()
        };
        Ok(Self {
            accept_paths: patterns("accept-paths")?,
            reject_paths: patterns("reject-paths")?,
            accept_hosts: patterns("accept-hosts")?,
            reject_methods: patterns("reject-methods")?,
        })
    }

    fn accepts(&self, method: &str, path: &str, host: &str) -> bool {
        let any = |patterns: &[Regex], text: &str| patterns.iter().any(|one| one.is_match(text));
        !any(&self.reject_paths, path)
            && !any(&self.reject_methods, method)
            && any(&self.accept_paths, path)
            && any(&self.accept_hosts, host)
    }
}

impl Proxy<'_> {
    /// Serves connections until the process ends.
    async fn serve<S>(&self, accept: impl AsyncFn() -> std::io::Result<S>) -> Result
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = accept(), if open.len() < MOST => {
                    let stream = accepted.map_err(|error| CommandError::error(go_io_error(&error)))?;
                    let service = hyper::service::service_fn(|request| async {
                        Ok::<_, std::convert::Infallible>(self.answer(request).await)
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    open.push(http.serve_connection(TokioIo::new(stream), service));
                }
                Some(_) = open.next(), if !open.is_empty() => {}
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default();
        let host = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        let method = request.method().as_str();
        if self.filter.as_ref().is_some_and(|filter| !filter.accepts(method, &path, host)) {
            return plain_answer(StatusCode::FORBIDDEN, "Forbidden\n");
        }
        if let Some((prefix, folder)) = &self.files
            && let Some(file) = path.strip_prefix(prefix.as_str())
        {
            return files::answer(folder, file);
        }
        let Some(rest) = path.strip_prefix(&self.api) else {
            return plain_answer(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        if request.headers().contains_key(UPGRADE) {
            return plain_answer(
                StatusCode::NOT_IMPLEMENTED,
                "upgraded connections are not supported by this proxy\n",
            );
        }
        let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
        self.pass(format!("/{rest}{query}"), request).await
    }

    async fn pass(&self, path: String, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LARGEST).collect().await else {
            return plain_answer(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large\n");
        };
        let mut headers = head.headers;
        own_headers(&mut headers);
        headers.remove(HOST);
        headers.remove(hyper::header::CONTENT_LENGTH);
        let sent = self.server.send_raw(head.method, &path, headers, body.to_bytes()).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(fail) => {
                let says = format!("Error while proxying request: {}\n", fail.message());
                return plain_answer(StatusCode::BAD_GATEWAY, &says);
            }
        };
        let (status, mut headers) = (answer.status, answer.headers.clone());
        own_headers(&mut headers);
        let pieces = futures_util::stream::unfold(answer, |mut answer| async {
            match answer.chunk().await {
                Ok(None) => None,
                Ok(Some(bytes)) => Some((Ok(Frame::data(bytes)), answer)),
                Err(error) => Some((Err(std::io::Error::other(error.to_string())), answer)),
            }
        });
        let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Removes hop-by-hop headers.
fn own_headers(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
}

fn plain_answer(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}
