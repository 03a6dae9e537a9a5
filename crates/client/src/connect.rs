//! Connectors: TCP, TLS, unix socket and in-process pipe. Each provides byte streams for the same HTTP protocol.

use std::{
    fmt,
    fs::File,
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::{TcpStream, UnixStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Proxy, TlsOptions, proxy::ProxyKind, resolve::resolve, verify::go_tls_error};

const DIAL: Duration = Duration::from_secs(10);
/// Maximum length of a unix socket path.
const LONGEST_PATH: usize = 107;
const PIPE_BUFFER: usize = 64 * 1024;

/// A byte stream to a server.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    Requests,
    /// A request that is upgraded to a stream, which HTTP/2 cannot do.
    Upgrade,
}

/// An open connection.
pub struct Connection {
    pub io: Box<dyn Io>,
    pub http2: bool,
    /// Whether the peer may disappear silently, so that pings are needed.
    pub remote: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connected {{ http2: {} }}", self.http2)
    }
}

pub type ConnectFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send + 'a>>;

/// Opens connections to a server.
pub trait Connector: fmt::Debug + Send + Sync {
    fn connect(&self, purpose: ConnectionUse) -> ConnectFuture<'_>;

    /// `https` or `http`.
    fn scheme(&self) -> &'static str {
        "http"
    }

    /// The value of the Host header.
    #[expect(clippy::unnecessary_literal_bound, reason = "others keep theirs")]
    fn authority(&self) -> &str {
        "localhost"
    }
}

/// TCP, with TLS or (for tests and local proxies) without.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConnector {
    pub host: String,
    pub port: u16,
    pub tls: Option<Arc<TlsOptions>>,
    /// The proxy to connect through.
    pub proxy: Option<Proxy>,
    /// The IP addresses that may be dialled.
    pub allowed: Addresses,
    authority: String,
}

/// The IP addresses that may be dialled on behalf of a user. They are checked after name resolution, and the checked
/// addresses are the ones that are dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    #[default]
    All,
    /// Global unicast addresses as Go defines them: no loopback, link-local, multicast or unspecified address.
    GlobalUnicast,
}

/// The error message for an address that may not be dialled.
pub const ADDRESS_NOT_ALLOWED: &str = "address not allowed";

impl Addresses {
    pub fn allow(self, address: IpAddr) -> bool {
        self == Self::All
            || match address.to_canonical() {
                IpAddr::V4(v4) => {
                    !(v4.is_loopback()
                        || v4.is_link_local()
                        || v4.is_multicast()
                        || v4.is_unspecified()
                        || v4.is_broadcast())
                }
                IpAddr::V6(v6) => {
                    !(v6.is_loopback()
                        || v6.is_unicast_link_local()
                        || v6.is_multicast()
                        || v6.is_unspecified())
                }
            }
    }
}

/// A unix socket. The server authenticates clients by their access to it.
#[derive(Clone, Debug)]
pub struct UnixConnector(pub PathBuf);

/// An in-process connection. The server gets the other ends of the pipes.
#[derive(Clone, Debug)]
pub struct PipeConnector {
    ends: mpsc::Sender<DuplexStream>,
}

impl TcpConnector {
    pub fn new(host: &str, port: u16, tls: Option<Arc<TlsOptions>>) -> Self {
        let standard = if tls.is_some() { 443 } else { 80 };
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == standard { name } else { format!("{name}:{port}") };
        let (host, allowed) = (host.to_owned(), Addresses::All);
        Self { host, port, tls, proxy: None, allowed, authority }
    }

    /// The same connector, restricted to some addresses.
    #[must_use]
    pub fn only(self, allowed: Addresses) -> Self {
        Self { allowed, ..self }
    }

    /// The same connector, through a proxy.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<Proxy>) -> Self {
        Self { proxy, ..self }
    }

    /// Connects to the server, directly or through the proxy.
    async fn dial(&self) -> io::Result<Box<dyn Io>> {
        let Some(proxy) = &self.proxy else {
            let addresses = self.addresses().await?;
            return Ok(Box::new(reach(addresses, self.port).await?));
        };
        // The proxy resolves names itself, so it gets an address where addresses are restricted.
        let target = match self.allowed {
            Addresses::All => self.host.clone(),
            Addresses::GlobalUnicast => {
                let found = self.addresses().await?.first().map(IpAddr::to_string);
                found.ok_or_else(no_address)?
            }
        };
        let mut io: Box<dyn Io> = match &proxy.socket {
            Some(path) => Box::new(UnixStream::connect(path).await?),
            None => Box::new(reach(resolve(&proxy.host).await?, proxy.port).await?),
        };
        if proxy.kind == ProxyKind::Https {
            let tls = proxy.tls.clone().or_else(|| self.tls.clone()).unwrap_or_default();
            let config = tls.config().await.map_err(io::Error::other)?;
            let own = proxy.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
            io = Box::new(tls_handshake(config, own.unwrap_or(&proxy.host), io).await?);
        }
        let asked = timeout(DIAL, proxy.open_tunnel(&mut *io, &target, self.port)).await;
        asked.map_err(|_| ErrorKind::TimedOut)??;
        Ok(io)
    }

    /// The addresses of the host; an error if one of them may not be dialled.
    async fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let addresses = resolve(&self.host).await?;
        match addresses.iter().all(|address| self.allowed.allow(*address)) {
            true => Ok(addresses),
            false => Err(io::Error::new(ErrorKind::PermissionDenied, ADDRESS_NOT_ALLOWED)),
        }
    }

    async fn secure(&self, tls: &TlsOptions, purpose: ConnectionUse) -> io::Result<Connection> {
        let mut config = tls.config().await.map_err(io::Error::other)?;
        config.alpn_protocols = match purpose {
            ConnectionUse::Requests => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            ConnectionUse::Upgrade => vec![b"http/1.1".to_vec()],
        };
        let name = tls.server_name.as_deref().unwrap_or(&self.host);
        let stream = tls_handshake(config, name, self.dial().await?).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connection { io: Box::new(stream), http2, remote: true })
    }
}

/// Connects to the first address that accepts.
async fn reach(addresses: Vec<IpAddr>, port: u16) -> io::Result<TcpStream> {
    let mut last = no_address();
    for address in addresses {
        match timeout(DIAL, TcpStream::connect((address, port))).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => {
                last = dial_error((address, port).into(), error.kind(), &error.to_string());
            }
            Err(_) => last = dial_error((address, port).into(), ErrorKind::TimedOut, ""),
        }
    }
    Err(last)
}

fn no_address() -> io::Error {
    io::Error::new(ErrorKind::NotFound, "the name has no address")
}

/// Performs the TLS handshake with the server `name`.
async fn tls_handshake<S: Io>(
    config: ClientConfig,
    name: &str,
    stream: S,
) -> io::Result<TlsStream<S>> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let shake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    timeout(DIAL, shake).await.map_err(|_| ErrorKind::TimedOut)?.map_err(go_tls_error)
}

/// The error of a failed connection, in Go's words.
fn dial_error(target: SocketAddr, kind: ErrorKind, why: &str) -> io::Error {
    let why = why.split(" (os error").next().unwrap_or_default().to_lowercase();
    let why = if why.is_empty() { "i/o timeout".to_owned() } else { format!("connect: {why}") };
    io::Error::new(kind, format!("dial tcp {target}: {why}"))
}

impl Connector for TcpConnector {
    fn connect(&self, purpose: ConnectionUse) -> ConnectFuture<'_> {
        Box::pin(async move {
            if let Some(tls) = &self.tls {
                return self.secure(tls, purpose).await;
            }
            let io = self.dial().await?;
            Ok(Connection { io, http2: false, remote: true })
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn authority(&self) -> &str {
        &self.authority
    }
}

impl Connector for UnixConnector {
    fn connect(&self, purpose: ConnectionUse) -> ConnectFuture<'_> {
        Box::pin(async move {
            let (path, _folder) = shorten_socket_path(&self.0)?;
            let stream = timeout(DIAL, UnixStream::connect(&path)).await;
            let io = Box::new(stream.map_err(|_| ErrorKind::TimedOut)??);
            Ok(Connection { io, http2: purpose == ConnectionUse::Requests, remote: false })
        })
    }
}

/// A path to a socket that is short enough, and a descriptor that must be kept open for it.
fn shorten_socket_path(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok((path.to_owned(), None));
    };
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((path.to_owned(), None));
    }
    let folder = File::open(folder)?;
    let through = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok((Path::new(&through).join(name), Some(folder)))
}

impl PipeConnector {
    /// Creates a pipe connector, and the receiver on which the server gets the other ends.
    pub fn new() -> (Self, mpsc::Receiver<DuplexStream>) {
        let (ends, far) = mpsc::channel(16);
        (Self { ends }, far)
    }
}

impl Connector for PipeConnector {
    fn connect(&self, purpose: ConnectionUse) -> ConnectFuture<'_> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE_BUFFER);
            let gone = |_| io::Error::new(ErrorKind::ConnectionRefused, "the server has stopped");
            self.ends.send(far).await.map_err(gone)?;
            Ok(Connection {
                io: Box::new(near),
                http2: purpose == ConnectionUse::Requests,
                remote: false,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_machines_are_global() {
        let global = |text: &str| Addresses::GlobalUnicast.allow(text.parse().unwrap());
        for good in
            ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1", "::ffff:10.0.0.1"]
        {
            assert!(global(good), "{good}");
        }
        for bad in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
        ] {
            assert!(!global(bad), "{bad}");
            assert!(Addresses::All.allow(bad.parse().unwrap()));
        }
    }

    #[tokio::test]
    async fn what_was_resolved_is_looked_at_before_it_is_dialled() {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let to = TcpConnector::new(host, 1, None).only(Addresses::GlobalUnicast);
            let refused = to.connect(ConnectionUse::Upgrade).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{host}");
            assert_eq!(refused.to_string(), ADDRESS_NOT_ALLOWED);
        }
    }
}
