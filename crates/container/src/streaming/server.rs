//! HTTP server of the sessions: issues single-use URLs, and upgrades a request for one to a session.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use httpstream::spdy;
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::Instant,
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    AttachRequest, Error, ExecRequest, PortForwardRequest, StreamingRuntime, channels,
    port_forward,
    remote_command::{self, Session},
    session_limit::{Seat, Seats},
    tokens::{self, Tokens},
    web_socket,
};

type Answer = Response<Full<Bytes>>;

/// Maximum number of connections that are not sessions yet.
const MOST_WAITING: usize = 1024;

/// A rejected request: status and reason.
struct HttpError(StatusCode, &'static str);

/// The streaming server. It serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    tokens: Arc<Tokens>,
    seats: Seats,
    tasks: TaskTracker,
    stop: DropGuard,
}

impl Server {
    /// Binds the address and serves in the background.
    pub async fn bind(
        address: SocketAddr,
        sessions: Arc<dyn StreamingRuntime>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let (address, tokens, tasks) =
            (listener.local_addr()?, Arc::<Tokens>::default(), TaskTracker::new());
        let stop = CancellationToken::new();
        let server = Arc::new(Shared {
            sessions,
            tokens: tokens.clone(),
            waiting: Arc::new(Semaphore::new(MOST_WAITING)),
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        server.spawn(server.clone().accept(listener));
        Ok(Self { address, tokens, seats: Seats::of_sessions(), tasks, stop: stop.drop_guard() })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Issues a single-use URL for an exec session.
    pub fn url_for_exec(&self, request: ExecRequest) -> Result<String, Error> {
        check(request.tty, request.stderr, request.stdin || request.stdout || request.stderr)?;
        let seat = self.seats.take(&request.namespace)?;
        self.url("exec", (tokens::SessionRequest::Exec(request), seat))
    }

    /// Issues a single-use URL for an attach session.
    pub fn url_for_attach(&self, request: AttachRequest) -> Result<String, Error> {
        check(request.tty, request.stderr, request.stdin || request.stdout || request.stderr)?;
        let seat = self.seats.take(&request.namespace)?;
        self.url("attach", (tokens::SessionRequest::Attach(request), seat))
    }

    /// Issues a single-use URL for a port-forward session.
    pub fn url_for_port_forward(&self, request: PortForwardRequest) -> Result<String, Error> {
        let seat = self.seats.take(&request.namespace)?;
        self.url("portforward", (tokens::SessionRequest::PortForward(request), seat))
    }

    /// Ends all sessions.
    pub async fn stop(self) {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn url(&self, path: &str, granted: (tokens::SessionRequest, Seat)) -> Result<String, Error> {
        Ok(format!("http://{}/{path}/{}", self.address, self.tokens.add(granted, Instant::now())?))
    }
}

fn check(tty: bool, stderr: bool, any: bool) -> Result<(), Error> {
    match (tty && stderr, any) {
        (true, _) => Err(Error("tty and stderr cannot both be true".to_owned())),
        (_, false) => Err(Error("one of stdin, stdout, or stderr must be set".to_owned())),
        _ => Ok(()),
    }
}

/// State that all connections share.
struct Shared {
    sessions: Arc<dyn StreamingRuntime>,
    tokens: Arc<Tokens>,
    /// Limits connections without a request. Every process in the host's network can connect.
    waiting: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Shared {
    /// Spawns a task. All tasks are spawned here, so that they end with the server.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let task = panics::contain("stream", task);
            stop.run_until_cancelled(task).await;
        });
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let Ok(place) = self.waiting.clone().try_acquire_owned() else { continue };
                    let served = self.clone().serve(stream);
                    self.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a streaming connection");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let _ = stream.set_nodelay(true); // only affects latency
        let service = service_fn(|request| {
            let answer = self
                .answer(request)
                .unwrap_or_else(|HttpError(status, reason)| respond(status, reason));
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(std::time::Duration::from_secs(30))
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "streaming connection broke");
        }
    }

    fn answer(&self, request: Request<Incoming>) -> Result<Answer, HttpError> {
        if !matches!(*request.method(), Method::GET | Method::POST) {
            return Err(HttpError(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST"));
        }
        let token = request.uri().path().rsplit('/').next().unwrap_or_default();
        let known = self.tokens.take(token, Instant::now());
        let granted =
            known.ok_or(HttpError(StatusCode::NOT_FOUND, "no such session, or it has expired"))?;
        let upgrade = request
            .headers()
            .get(header::UPGRADE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if upgrade.eq_ignore_ascii_case(spdy::PROTOCOL) {
            self.start_spdy(request, granted)
        } else if upgrade.eq_ignore_ascii_case("websocket") {
            self.start_web_socket(request, granted)
        } else {
            Err(HttpError(
                StatusCode::BAD_REQUEST,
                "unable to upgrade: missing upgrade headers in request",
            ))
        }
    }

    fn start_spdy(
        &self,
        request: Request<Incoming>,
        (session_request, seat): (tokens::SessionRequest, Seat),
    ) -> Result<Answer, HttpError> {
        const HEADER: &str = "x-stream-protocol-version";
        let offered = offered(request.headers(), HEADER);
        let sessions = self.sessions.clone();
        let forbidden =
            || HttpError(StatusCode::FORBIDDEN, "unable to upgrade: unable to negotiate protocol");
        let chosen = match Session::from(session_request) {
            Ok(session) => {
                let (name, version) =
                    remote_command::choose_spdy(&offered).ok_or_else(forbidden)?;
                self.upgrade(request, seat, move |io| {
                    remote_command::serve(io, version, session, sessions)
                });
                name
            }
            Err(forward) => {
                let name = port_forward::choose_spdy(&offered).ok_or_else(forbidden)?;
                let run = |io| {
                    port_forward::serve(spdy::Connection::server(io), forward.sandbox_id, sessions)
                };
                self.upgrade(request, seat, run);
                name
            }
        };
        Ok(switch(spdy::PROTOCOL, &[(HEADER, chosen)]))
    }

    fn start_web_socket(
        &self,
        request: Request<Incoming>,
        (session_request, seat): (tokens::SessionRequest, Seat),
    ) -> Result<Answer, HttpError> {
        let bad = |reason| HttpError(StatusCode::BAD_REQUEST, reason);
        let key = request
            .headers()
            .get(header::SEC_WEBSOCKET_KEY)
            .ok_or_else(|| bad("no Sec-WebSocket-Key"))?;
        let accept = derive_accept_key(key.as_bytes());
        let offered = offered(request.headers(), header::SEC_WEBSOCKET_PROTOCOL.as_str());
        let sessions = self.sessions.clone();
        let chosen = match Session::from(session_request) {
            Ok(session) => {
                let (name, dialect) =
                    web_socket::choose(&offered).ok_or_else(|| bad("no known subprotocol"))?;
                self.upgrade(request, seat, move |io| {
                    web_socket::serve(io, dialect, session, sessions)
                });
                name
            }
            Err(forward) => {
                if let Some(name) = port_forward::choose_tunnel(&offered) {
                    self.upgrade(request, seat, move |io| {
                        port_forward::serve_tunnel(io, forward.sandbox_id, sessions)
                    });
                    name
                } else {
                    let (name, base64) =
                        channels::choose(&offered).ok_or_else(|| bad("no known subprotocol"))?;
                    channels::check(&forward.ports).map_err(bad)?;
                    self.upgrade(request, seat, move |io| {
                        channels::serve(io, base64, forward, sessions)
                    });
                    name
                }
            }
        };
        let headers =
            [("sec-websocket-accept", accept.as_str()), ("sec-websocket-protocol", chosen)];
        Ok(switch("websocket", if chosen.is_empty() { &headers[..1] } else { &headers }))
    }

    /// Runs `session` on the connection once the response is sent. It keeps its seat until it ends.
    fn upgrade<F>(
        &self,
        request: Request<Incoming>,
        seat: Seat,
        session: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        self.spawn(async move {
            match hyper::upgrade::on(request).await {
                Ok(upgraded) => session(TokioIo::new(upgraded)).await,
                Err(error) => tracing::debug!(%error, "cannot upgrade a streaming connection"),
            }
            drop(seat);
        });
    }
}

/// The protocols that a client offers, in its order of preference.
fn offered(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned()).collect()
}

fn switch(upgrade: &'static str, headers: &[(&'static str, &str)]) -> Answer {
    let mut answer = respond(StatusCode::SWITCHING_PROTOCOLS, "");
    answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        answer
            .headers_mut()
            .insert(*name, HeaderValue::from_str(value).expect("our own names and base64"));
    }
    answer
}

fn respond(status: StatusCode, reason: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(reason.as_bytes())));
    *answer.status_mut() = status;
    answer
}
