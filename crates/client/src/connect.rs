//! Ways to a server. Each gives streams of bytes; what is said on them is the
//! same everywhere.

use std::{
    fmt,
    fs::File,
    io::{self, ErrorKind},
    net::SocketAddr,
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

use crate::{Proxy, Tls, proxy::Kind, resolve::resolve, verify::told};

const DIAL: Duration = Duration::from_secs(10);
/// A socket's address has room for no more.
const LONGEST_PATH: usize = 107;
const PIPE_BUFFER: usize = 64 * 1024;

pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Requests,
    /// One request that turns into a stream, which HTTP/2 cannot do.
    Upgrade,
}

pub struct Connected {
    pub io: Box<dyn Io>,
    pub http2: bool,
    /// Whether the peer may vanish without a word, and must be asked.
    pub remote: bool,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connected {{ http2: {} }}", self.http2)
    }
}

pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Connected>> + Send + 'a>>;

pub trait Connect: fmt::Debug + Send + Sync {
    fn connect(&self, purpose: Use) -> Connecting<'_>;

    /// `https` or `http`.
    fn scheme(&self) -> &'static str {
        "http"
    }

    /// What the Host header says.
    #[expect(clippy::unnecessary_literal_bound, reason = "others keep theirs")]
    fn authority(&self) -> &str {
        "localhost"
    }
}

/// TCP, with TLS or (for tests and local proxies) without.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    pub host: String,
    pub port: u16,
    pub tls: Option<Arc<Tls>>,
    /// Who stands between.
    pub proxy: Option<Proxy>,
    authority: String,
}

/// A unix socket: whoever can open it is somebody.
#[derive(Clone, Debug)]
pub struct Unix(pub PathBuf);

/// A way within the process. The server gets the other ends.
#[derive(Clone, Debug)]
pub struct Pipe {
    ends: mpsc::Sender<DuplexStream>,
}

impl Tcp {
    pub fn new(host: &str, port: u16, tls: Option<Arc<Tls>>) -> Self {
        let standard = if tls.is_some() { 443 } else { 80 };
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == standard { name } else { format!("{name}:{port}") };
        Self { host: host.to_owned(), port, tls, proxy: None, authority }
    }

    /// The same, through somebody in between.
    #[must_use]
    pub fn through(self, proxy: Option<Proxy>) -> Self {
        Self { proxy, ..self }
    }

    /// A connection to the server, or to who stands between and has made way.
    async fn dial(&self) -> io::Result<Box<dyn Io>> {
        let Some(proxy) = &self.proxy else {
            return Ok(Box::new(self.reach(&self.host, self.port).await?));
        };
        let mut io: Box<dyn Io> = match &proxy.socket {
            Some(path) => Box::new(UnixStream::connect(path).await?),
            None => Box::new(self.reach(&proxy.host, proxy.port).await?),
        };
        if proxy.kind == Kind::Https {
            let tls = proxy.tls.clone().or_else(|| self.tls.clone()).unwrap_or_default();
            let config = tls.config().await.map_err(io::Error::other)?;
            let own = proxy.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
            io = Box::new(shake(config, own.unwrap_or(&proxy.host), io).await?);
        }
        let asked = timeout(DIAL, proxy.ask(&mut *io, &self.host, self.port)).await;
        asked.map_err(|_| ErrorKind::TimedOut)??;
        Ok(io)
    }

    async fn reach(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in resolve(host).await? {
            match timeout(DIAL, TcpStream::connect((address, port))).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => {
                    last = refused((address, port).into(), error.kind(), &error.to_string());
                }
                Err(_) => last = refused((address, port).into(), ErrorKind::TimedOut, ""),
            }
        }
        Err(last)
    }

    async fn secure(&self, tls: &Tls, purpose: Use) -> io::Result<Connected> {
        let mut config = tls.config().await.map_err(io::Error::other)?;
        config.alpn_protocols = match purpose {
            Use::Requests => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Use::Upgrade => vec![b"http/1.1".to_vec()],
        };
        let name = tls.server_name.as_deref().unwrap_or(&self.host);
        let stream = shake(config, name, self.dial().await?).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connected { io: Box::new(stream), http2, remote: true })
    }
}

/// TLS with whoever proves to be `name`.
async fn shake<S: Io>(config: ClientConfig, name: &str, stream: S) -> io::Result<TlsStream<S>> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let shake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    timeout(DIAL, shake).await.map_err(|_| ErrorKind::TimedOut)?.map_err(told)
}

/// Why nobody was reached, in the words that users of Kubernetes know.
fn refused(target: SocketAddr, kind: ErrorKind, why: &str) -> io::Error {
    let why = why.split(" (os error").next().unwrap_or_default().to_lowercase();
    let why = if why.is_empty() { "i/o timeout".to_owned() } else { format!("connect: {why}") };
    io::Error::new(kind, format!("dial tcp {target}: {why}"))
}

impl Connect for Tcp {
    fn connect(&self, purpose: Use) -> Connecting<'_> {
        Box::pin(async move {
            if let Some(tls) = &self.tls {
                return self.secure(tls, purpose).await;
            }
            let io = self.dial().await?;
            Ok(Connected { io, http2: false, remote: true })
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn authority(&self) -> &str {
        &self.authority
    }
}

impl Connect for Unix {
    fn connect(&self, purpose: Use) -> Connecting<'_> {
        Box::pin(async move {
            let (path, _folder) = short(&self.0)?;
            let stream = timeout(DIAL, UnixStream::connect(&path)).await;
            let io = Box::new(stream.map_err(|_| ErrorKind::TimedOut)??);
            Ok(Connected { io, http2: purpose == Use::Requests, remote: false })
        })
    }
}

/// A path to a socket that fits into an address, and what must live as long.
fn short(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
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

impl Pipe {
    /// A pipe, and where the server finds the far ends.
    pub fn new() -> (Self, mpsc::Receiver<DuplexStream>) {
        let (ends, far) = mpsc::channel(16);
        (Self { ends }, far)
    }
}

impl Connect for Pipe {
    fn connect(&self, purpose: Use) -> Connecting<'_> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE_BUFFER);
            let gone = |_| io::Error::new(ErrorKind::ConnectionRefused, "the server has stopped");
            self.ends.send(far).await.map_err(gone)?;
            Ok(Connected { io: Box::new(near), http2: purpose == Use::Requests, remote: false })
        })
    }
}
