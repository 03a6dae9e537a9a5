//! HTTP (CONNECT) and SOCKS5 proxies.

use std::{
    fmt,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Error, Io, TlsOptions};

/// Maximum size of a response to CONNECT in bytes.
const LONGEST_ANSWER: usize = 16 << 10;

/// A proxy server.
#[derive(Clone, PartialEq)]
pub struct Proxy {
    pub(crate) kind: ProxyKind,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The unix socket of the proxy, if it does not listen on a port.
    pub(crate) socket: Option<PathBuf>,
    /// TLS options for an HTTPS proxy; `None` for those of the server behind it.
    pub(crate) tls: Option<Arc<TlsOptions>>,
    /// User and password.
    user: Option<(String, String)>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    /// CONNECT over TLS.
    Https,
    Socks5,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({:?} {}:{})", self.kind, self.host, self.port)
    }
}

impl Proxy {
    /// Parses a proxy URL: `http`, `https`, `socks5` or `socks5h`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let wrong =
            || Error::Invalid(format!("{:?} is not the address of a proxy", redact_url(url)));
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let (kind, standard) = match uri.scheme_str() {
            Some("http") => (ProxyKind::Http, 80),
            Some("https") => (ProxyKind::Https, 443),
            Some("socks5" | "socks5h") => (ProxyKind::Socks5, 1080),
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let said = uri.authority().and_then(|whole| whole.as_str().rsplit_once('@'));
        let user = said.map(|(user, _)| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (unescaped(name), unescaped(password))
        });
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(standard);
        Ok(Self { kind, host, port, socket: None, tls: None, user })
    }

    /// An HTTP proxy on a unix socket.
    pub fn at_socket(path: &Path) -> Self {
        Self {
            kind: ProxyKind::Http,
            host: "localhost".to_owned(),
            port: 80,
            socket: Some(path.to_owned()),
            tls: None,
            user: None,
        }
    }

    /// The same proxy with these TLS options.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<TlsOptions>>) -> Self {
        Self { tls, ..self }
    }

    /// Opens a tunnel to `host` over a connection to the proxy.
    pub(crate) async fn open_tunnel(
        &self,
        io: &mut dyn Io,
        host: &str,
        port: u16,
    ) -> io::Result<()> {
        match self.kind {
            ProxyKind::Http | ProxyKind::Https => self.connect(io, host, port).await,
            ProxyKind::Socks5 => self.socks(io, host, port).await,
        }
    }

    async fn connect(&self, io: &mut dyn Io, host: &str, port: u16) -> io::Result<()> {
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut ask = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n");
        if let Some((user, password)) = &self.user {
            let both = BASE64_STANDARD.encode(format!("{user}:{password}"));
            ask += &format!("Proxy-Authorization: Basic {both}\r\n");
        }
        io.write_all((ask + "\r\n").as_bytes()).await?;
        io.flush().await?;
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\n") {
            if said.len() > LONGEST_ANSWER {
                return Err(refused("its answer is too long"));
            }
            said.push(io.read_u8().await?); // must not read beyond the response
        }
        let line = String::from_utf8_lossy(said.split(|b| *b == b'\r').next().unwrap_or_default())
            .into_owned();
        match line.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(()),
            _ => Err(refused(&line)),
        }
    }

    async fn socks(&self, io: &mut dyn Io, host: &str, port: u16) -> io::Result<()> {
        let way = if self.user.is_some() { 2 } else { 0 };
        io.write_all(&[5, 1, way]).await?;
        io.flush().await?;
        let mut chosen = [0; 2];
        io.read_exact(&mut chosen).await?;
        if chosen != [5, way] {
            return Err(refused("it wants another proof of who we are"));
        }
        if let Some((user, password)) = &self.user {
            let mut say = vec![1];
            for text in [user, password] {
                say.push(length(text)?);
                say.extend_from_slice(text.as_bytes());
            }
            io.write_all(&say).await?;
            io.flush().await?;
            io.read_exact(&mut chosen).await?;
            if chosen[1] != 0 {
                return Err(refused("it does not know us"));
            }
        }
        let mut say = vec![5, 1, 0, 3, length(host)?];
        say.extend_from_slice(host.as_bytes());
        say.extend_from_slice(&port.to_be_bytes());
        io.write_all(&say).await?;
        io.flush().await?;
        let mut said = [0; 4];
        io.read_exact(&mut said).await?;
        if said[1] != 0 {
            return Err(refused(&format!("no way to {host}: reason {}", said[1])));
        }
        let rest = match said[3] {
            1 => 4,
            4 => 16,
            _ => usize::from(io.read_u8().await?),
        };
        io.read_exact(&mut vec![0; rest + 2]).await?;
        Ok(())
    }
}

fn length(text: &str) -> io::Result<u8> {
    text.len().try_into().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "a name too long"))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, format!("the proxy refuses: {why}"))
}

/// Decodes `%XX` escapes.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escape =
            more.split_at_checked(2).filter(|_| *first == b'%').and_then(|(hex, after)| {
                let hex = std::str::from_utf8(hex).ok()?;
                Some((u8::from_str_radix(hex, 16).ok()?, after))
            });
        let (byte, after) = escape.unwrap_or((*first, more));
        out.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The URL without credentials.
fn redact_url(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_proxies() {
        let proxy = Proxy::parse("http://me:p%40ss@[::1]:3128").unwrap();
        assert_eq!((proxy.kind, &*proxy.host, proxy.port), (ProxyKind::Http, "::1", 3128));
        assert_eq!(proxy.user, Some(("me".into(), "p@ss".into())));
        assert_eq!(Proxy::parse("socks5://a").unwrap().port, 1080);
        assert!(Proxy::parse("ftp://a").is_err());
        let error = Proxy::parse("x://me:secret@a").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn both_kinds_are_asked_in_their_own_words() {
        let (mut near, mut far) = tokio::io::duplex(4096);
        let proxy = Proxy::parse("http://me:secret@proxy").unwrap();
        let asked = proxy.open_tunnel(&mut near, "api", 6443);
        let answer = async {
            let mut said = vec![0; 256];
            let n = far.read(&mut said).await.unwrap();
            far.write_all(b"HTTP/1.1 200 OK\r\n\r\nnext").await.unwrap();
            String::from_utf8_lossy(&said[..n]).into_owned()
        };
        let (done, said) = tokio::join!(asked, answer);
        done.unwrap();
        assert!(said.starts_with("CONNECT api:6443 HTTP/1.1\r\n"), "{said}");
        assert!(said.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{said}");
        let mut rest = [0; 4];
        near.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"next");

        let (mut near, mut far) = tokio::io::duplex(4096);
        let proxy = Proxy::parse("socks5://proxy").unwrap();
        let asked = proxy.open_tunnel(&mut near, "api", 6443);
        let answer = async {
            let mut hello = [0; 3];
            far.read_exact(&mut hello).await.unwrap();
            far.write_all(&[5, 0]).await.unwrap();
            let mut wanted = [0; 10];
            far.read_exact(&mut wanted).await.unwrap();
            far.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            wanted
        };
        let (done, wanted) = tokio::join!(asked, answer);
        done.unwrap();
        assert_eq!(wanted, [5, 1, 0, 3, 3, b'a', b'p', b'i', 0x19, 0x2b]);
    }

    #[tokio::test]
    async fn a_refusal_is_told() {
        let (mut near, mut far) = tokio::io::duplex(4096);
        far.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
        let proxy = Proxy::parse("http://proxy").unwrap();
        let error = proxy.open_tunnel(&mut near, "api", 1).await.unwrap_err();
        assert!(error.to_string().contains("403"), "{error}");
    }
}
