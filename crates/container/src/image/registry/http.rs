//! HTTP client for registries: one connection per request, TCP or TLS, redirects followed, a timeout on every wait.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header, request::Builder};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    super::{Error, Result},
    resolve,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);
/// Minimum number of bytes of a body per timeout period. Otherwise a registry that sends a byte now and then would
/// block a pull for ever.
const LEAST: u64 = 64 << 10;
const MOST_REDIRECTS: usize = 5;
/// CA bundles of common distributions.
const CA_BUNDLE_PATHS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A TCP or TLS connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Client with the CA bundle of the system and the configuration.
pub(super) struct HttpClient {
    tls: TlsConnector,
    patience: Duration,
}

/// Which addresses a request may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Any address, because the administrator or the image's name chose it.
    Anywhere,
    /// A registry chose the address (redirect, token service): no loopback, link-local or multicast address.
    Public,
}

/// Transfer rate of a body, measured while waiting for it.
#[derive(Debug)]
struct Pace {
    patience: Duration,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// Records received bytes; fails if too few came within the timeout.
    fn note(&mut self, waited: Duration, bytes: usize) -> Result<()> {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.bytes >= LEAST {
            (self.waited, self.bytes) = (Duration::ZERO, 0);
        } else if self.waited > self.patience {
            return Err(Error::Registry("the registry sends too slowly".to_owned()));
        }
        Ok(())
    }
}

/// A response, and the task that drives its connection, which ends when this is dropped.
pub(super) struct HttpResponse {
    response: Response<Incoming>,
    pace: Pace,
    _connection: JoinSet<()>,
}

impl HttpClient {
    pub(super) fn new(extra_roots: &[u8], patience: Option<Duration>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let system =
            CA_BUNDLE_PATHS.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        for pem in [&system, extra_roots] {
            roots.add_parsable_certificates(
                CertificateDer::pem_slice_iter(pem).filter_map(std::result::Result::ok),
            );
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::malformed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(config).into(), patience: patience.unwrap_or(RESPONSE_TIMEOUT) })
    }

    pub(super) async fn send(&self, request: Builder, reach: Reach) -> Result<HttpResponse> {
        self.send_with(request, Bytes::new(), reach).await
    }

    pub(super) async fn send_with(
        &self,
        request: Builder,
        body: Bytes,
        mut reach: Reach,
    ) -> Result<HttpResponse> {
        let request = request
            .body(body)
            .map_err(|error| Error::malformed(format!("invalid request: {error}")))?;
        let (mut head, body) = request.into_parts();
        for _ in 0..=MOST_REDIRECTS {
            let request = Request::from_parts(head.clone(), body.clone());
            let answer = self.send_once(request, reach).await?;
            if !is_redirect(answer.status()) {
                return Ok(answer);
            }
            let next = target(&head.uri, answer.headers())?;
            if next.authority() != head.uri.authority() {
                head.headers.remove(header::AUTHORIZATION); // meant for the first host only
                reach = between(&head.uri, reach);
            }
            head.uri = next;
        }
        Err(Error::malformed(format!("more than {MOST_REDIRECTS} redirects")))
    }

    async fn send_once(&self, mut request: Request<Bytes>, reach: Reach) -> Result<HttpResponse> {
        let uri = request.uri().clone();
        let authority =
            uri.authority().ok_or_else(|| Error::malformed(format!("no host in {uri}")))?;
        let failed = |error: &dyn std::fmt::Display| {
            Error::Registry(format!("failed to do request to {uri}: {error}"))
        };
        let host =
            header::HeaderValue::from_str(authority.as_str()).map_err(|error| failed(&error))?;
        request.headers_mut().insert(header::HOST, host);
        request
            .headers_mut()
            .insert(header::USER_AGENT, header::HeaderValue::from_static("tiphys"));
        *request.uri_mut() = uri
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .parse()
            .map_err(|e| failed(&e))?;

        let stream = timeout(CONNECT_TIMEOUT, self.connect(&uri, reach))
            .await
            .map_err(|_| failed(&"connection timed out"))??;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The reader of the response gets the error, too.
            let _ = connection.await;
        });
        let response = timeout(self.patience, sender.send_request(request.map(Full::new)))
            .await
            .map_err(|_| failed(&"no response in time"))?
            .map_err(|error| failed(&error))?;
        let pace = Pace { patience: self.patience, waited: Duration::ZERO, bytes: 0 };
        Ok(HttpResponse { response, pace, _connection: tasks })
    }

    async fn connect(&self, uri: &Uri, reach: Reach) -> Result<Box<dyn Stream>> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::Registry(format!("failed to connect to {uri}: {error}"))
        };
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(Error::malformed(format!("unsupported address {uri}"))),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let mut last = None;
        for address in resolve::addresses(host).await? {
            if reach == Reach::Public && !is_public(address) {
                return Err(Error::malformed(format!("the registry leads to {address}")));
            }
            match TcpStream::connect((address, port)).await {
                Ok(stream) if !secure => return Ok(Box::new(stream)),
                Ok(stream) => {
                    let name =
                        ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
                    return Ok(Box::new(
                        self.tls.connect(name, stream).await.map_err(|error| failed(&error))?,
                    ));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| failed(&"no such host"), |error| failed(&error)))
    }
}

impl HttpResponse {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next chunk of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        loop {
            let began = Instant::now();
            let frame = timeout(self.pace.patience, self.response.body_mut().frame())
                .await
                .map_err(|_| Error::Registry("the registry stopped sending".to_owned()))?;
            let waited = began.elapsed();
            match frame
                .transpose()
                .map_err(|error| Error::Registry(format!("connection broke: {error}")))?
            {
                None => return Ok(None),
                Some(frame) => {
                    let bytes = frame.into_data().ok();
                    self.pace.note(waited, bytes.as_ref().map_or(0, Bytes::len))?;
                    if bytes.is_some() {
                        return Ok(bytes);
                    }
                }
            }
        }
    }

    /// The whole body; fails if it is larger than `limit`.
    pub(super) async fn bytes(mut self, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Err(Error::malformed(format!("response larger than {limit} bytes")));
            }
        }
        Ok(bytes)
    }
}

/// Where the server at `from` may redirect to: a registry on loopback anywhere, others only to public addresses.
pub(super) fn between(from: &Uri, reach: Reach) -> Reach {
    if from.host().is_some_and(is_loopback) { reach } else { Reach::Public }
}

/// Whether an address is neither loopback nor link-local, where clouds serve instance credentials.
fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let local = match address {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The target of a redirect. A redirect from https to http is an error.
fn target(from: &Uri, headers: &HeaderMap) -> Result<Uri> {
    let invalid = || Error::malformed(format!("invalid redirect from {from}"));
    let location =
        headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).ok_or_else(invalid)?;
    let to: Uri = location.parse().map_err(|_| invalid())?;
    let to = if to.host().is_some() {
        to
    } else {
        let mut parts = from.clone().into_parts();
        parts.path_and_query = to.path_and_query().cloned();
        Uri::from_parts(parts).map_err(|_| invalid())?
    };
    if from.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
        return Err(invalid());
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_leads_to_no_neighbour() {
        for (address, public) in [
            ("192.0.2.7", true),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
        ] {
            assert_eq!(is_public(address.parse().expect("an address")), public, "{address}");
        }
        let reach = |from: &str| between(&from.parse().expect("a URL"), Reach::Anywhere);
        assert_eq!(reach("https://registry.example/v2/"), Reach::Public);
        assert_eq!(reach("http://127.0.0.1:5000/v2/"), Reach::Anywhere);
    }

    #[test]
    fn drops_are_too_slow_and_a_stream_is_not() {
        let new = || Pace { patience: Duration::from_mins(1), waited: Duration::ZERO, bytes: 0 };
        let mut drops = new();
        let notes: Vec<bool> =
            (0..4).map(|_| drops.note(Duration::from_secs(20), 1).is_ok()).collect();
        assert_eq!(notes, [true, true, true, false]);
        let mut stream = new();
        for _ in 0..100 {
            stream.note(Duration::from_secs(20), 40 << 10).expect("two kibibytes a second");
        }
    }
}
