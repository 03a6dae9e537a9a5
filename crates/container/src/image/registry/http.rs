//! One request, one connection: TCP or TLS, redirects followed, every wait bounded.

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
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    super::{Error, Result},
    resolve,
};

const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_mins(1);
const MOST_REDIRECTS: usize = 5;
/// Where distributions keep the certificates they trust.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) struct Http {
    tls: TlsConnector,
}

/// A response, and the task that reads it off its connection: it ends with this.
pub(super) struct Answer {
    response: Response<Incoming>,
    _connection: JoinSet<()>,
}

impl Http {
    pub(super) fn new(extra_roots: &[u8]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let system = BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
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
        Ok(Self { tls: Arc::new(config).into() })
    }

    pub(super) async fn send(&self, request: Builder) -> Result<Answer> {
        self.send_with(request, Bytes::new()).await
    }

    pub(super) async fn send_with(&self, request: Builder, body: Bytes) -> Result<Answer> {
        let request = request
            .body(body)
            .map_err(|error| Error::malformed(format!("invalid request: {error}")))?;
        let (mut head, body) = request.into_parts();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.once(Request::from_parts(head.clone(), body.clone())).await?;
            if !is_redirect(answer.status()) {
                return Ok(answer);
            }
            let next = target(&head.uri, answer.headers())?;
            if next.authority() != head.uri.authority() {
                head.headers.remove(header::AUTHORIZATION); // meant for the first host only
            }
            head.uri = next;
        }
        Err(Error::malformed(format!("more than {MOST_REDIRECTS} redirects")))
    }

    async fn once(&self, mut request: Request<Bytes>) -> Result<Answer> {
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

        let stream = timeout(CONNECT, self.connect(&uri))
            .await
            .map_err(|_| failed(&"connection timed out"))??;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Its error reaches the reader of the response, too.
            let _ = connection.await;
        });
        let response = timeout(ANSWER, sender.send_request(request.map(Full::new)))
            .await
            .map_err(|_| failed(&"no answer in time"))?
            .map_err(|error| failed(&error))?;
        Ok(Answer { response, _connection: tasks })
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<dyn Stream>> {
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

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next part of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        loop {
            let frame = timeout(ANSWER, self.response.body_mut().frame())
                .await
                .map_err(|_| Error::Registry("the registry stopped sending".to_owned()))?;
            match frame
                .transpose()
                .map_err(|error| Error::Registry(format!("connection broke: {error}")))?
            {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole body, which must not be larger than `limit`.
    pub(super) async fn bytes(mut self, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > limit {
                return Err(Error::malformed(format!("answer larger than {limit} bytes")));
            }
        }
        Ok(bytes)
    }
}

pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// A registry with TLS does not get us to leave it.
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
