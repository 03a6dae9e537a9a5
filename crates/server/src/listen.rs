//! Listeners: TLS, unix sockets, and in-process pipes.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering::Relaxed},
    time::Duration,
};

use rustix::{
    net::sockopt,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use rustls::ServerConfig;
use tokio::{
    io::DuplexStream,
    net::{TcpListener, UnixListener},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use crate::{
    Peer, Server, UserInfo,
    batched_tcp::BatchedTcpStream,
    http2_preface::Prefaced,
    turns::{Account, Turn},
};

/// Idle time after which TCP keepalive probes are sent.
const SILENT: Duration = Duration::from_secs(30);
/// TCP_USER_TIMEOUT in milliseconds: how long sent data may stay unacknowledged.
const DEAF: u32 = 300_000;
/// Maximum number of intermediate certificates of a client.
const INTERMEDIATES: usize = 8;
/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A TLS configuration that can be replaced while the server runs.
#[derive(Clone, Debug)]
pub struct ReloadableTls(Arc<RwLock<Arc<ServerConfig>>>);

impl ReloadableTls {
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(config)))
    }

    /// Replaces the configuration for new connections.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

/// A source of connections.
#[derive(Debug)]
pub enum Listener {
    Tls(TcpListener, ReloadableTls),
    /// Every process with this uid that connects is authenticated as this user.
    Unix(UnixListener, Arc<UserInfo>, u32),
    /// Connections from inside this process, authenticated as this user; with `None` their requests
    /// carry credentials.
    Pipe(mpsc::Receiver<DuplexStream>, Option<Arc<UserInfo>>),
}

impl Server {
    /// Accepts connections until the server stops.
    pub fn listen(self: &Arc<Self>, listening: Listener) {
        if matches!(listening, Listener::Tls(..)) {
            raise_limit();
        }
        let (server, stop) = (self.clone(), self.stop.clone());
        self.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = server.accept(listening) => {}
            }
        });
    }

    async fn accept(self: Arc<Self>, listening: Listener) {
        match listening {
            Listener::Tls(listener, tls) => loop {
                let Some((stream, address)) = accepted(listener.accept().await).await else {
                    continue;
                };
                let Some(permit) = self.connection_limits.acquire(address.ip()) else {
                    debug!(%address, "too many connections from one address");
                    continue;
                };
                let turn = self.turns.turn(Account::new(address.ip()));
                let served = self.clone().tls(stream, address, tls.acceptor(), turn.clone());
                let served = async move {
                    served.await;
                    drop(permit);
                };
                self.spawn(turn.run(Box::pin(served)));
            },
            Listener::Unix(listener, user, uid) => loop {
                let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
                if stream.peer_cred().is_ok_and(|peer| peer.uid() == uid) {
                    let peer = Peer { identity: Some(user.clone()), ..Peer::default() };
                    self.serve_local(stream, peer);
                }
            },
            Listener::Pipe(mut pipes, user) => {
                while let Some(stream) = pipes.recv().await {
                    let peer = Peer { identity: user.clone(), ..Peer::default() };
                    self.serve_local(stream, peer);
                }
            }
        }
    }

    async fn tls(
        self: Arc<Self>,
        stream: tokio::net::TcpStream,
        address: SocketAddr,
        acceptor: TlsAcceptor,
        turn: Arc<Turn>,
    ) {
        let _ = stream.set_nodelay(true);
        let _ = keep_alive(&stream);
        let (wire, outgoing) = BatchedTcpStream::new(stream);
        let stream = match timeout(HANDSHAKE, acceptor.accept(wire)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.metrics.handshake_errors.fetch_add(1, Relaxed);
                return debug!(%address, %error, "TLS handshake failed");
            }
            Err(_) => {
                self.metrics.handshake_errors.fetch_add(1, Relaxed);
                return debug!(%address, "TLS handshake timed out");
            }
        };
        let chain = stream.get_ref().1.peer_certificates();
        let certificate =
            chain.and_then(|chain| chain.first()).map(|first| Arc::new(first.to_vec()));
        let others = chain.unwrap_or_default().iter().skip(1).take(INTERMEDIATES);
        let intermediates = Arc::new(others.map(|one| one.to_vec()).collect());
        let peer = Peer { address: Some(address), certificate, intermediates, identity: None };
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return self.connection(stream, Some(outgoing), peer, turn).await;
        }
        if let Ok(Ok(stream)) = timeout(HANDSHAKE, Prefaced::accept(stream)).await {
            self.connection(stream, Some(outgoing), peer, turn).await;
        } else {
            debug!(%address, "HTTP/2 was negotiated, but the client did not send its preface");
        }
    }
}

/// Enables keepalive and the user timeout, so that dead peers and peers that never read are
/// detected.
fn keep_alive(stream: &tokio::net::TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT)?;
    sockopt::set_tcp_keepintvl(stream, SILENT)?;
    sockopt::set_tcp_user_timeout(stream, DEAF)?;
    Ok(())
}

/// Raises the soft limit of open files to the hard limit, because every connection needs a
/// descriptor.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        debug!(%error, "cannot raise the limit of open files");
    }
}

/// Handles the result of an accept. Errors are transient, mostly too many open files: waits a
/// little.
async fn accepted<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(connection) => Some(connection),
        Err(error) => {
            debug!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}
