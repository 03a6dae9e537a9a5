//! A test backend that the server calls: a small HTTPS server on the loopback.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use object::{Value, from_json, to_json};
use pki::{CertificateAuthority, CertificateSpec, ClientCaVerifier};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Responds to every body by a function of it, until it is dropped.
pub(crate) struct Backend {
    pub(crate) port: u16,
    /// The CA certificate, in PEM.
    pub(crate) authority: String,
    /// Common names of the client certificates, where they are requested.
    pub(crate) clients: Arc<Mutex<Vec<String>>>,
    /// Number of connections that were accepted.
    pub(crate) connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Backend {
    pub(crate) async fn start(
        answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::named("localhost", answer).await
    }

    /// Starts a backend whose certificate has this name.
    pub(crate) async fn named(
        name: &str,
        answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::asking(name, None, answer).await
    }

    /// Starts a backend that also requests client certificates of this CA.
    pub(crate) async fn asking(
        name: &str,
        of: Option<&CertificateAuthority>,
        answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let trust =
            of.map(|of| ClientCaVerifier::new(std::slice::from_ref(of.certificate())).unwrap());
        let now = 1_700_000_000.max(object::Clock::now(&object::SystemClock));
        let authority = CertificateAuthority::create("backend", now).unwrap();
        let leaf =
            CertificateSpec::server("backend", vec![name.to_owned()], vec![[127, 0, 0, 1].into()]);
        let pair = authority.issue(&leaf, now).unwrap();
        let acceptor =
            TlsAcceptor::from(Arc::new(pki::server_config(&pair, trust.as_ref()).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, clients) = (Arc::new(answer), Arc::<Mutex<Vec<String>>>::default());
        let connections = Arc::<AtomicUsize>::default();
        let (seen, count) = (clients.clone(), connections.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let _ = stream.set_nodelay(true);
                count.fetch_add(1, Ordering::Relaxed);
                let (acceptor, answer, seen) = (acceptor.clone(), answer.clone(), seen.clone());
                open.spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    if let Some([first, ..]) = stream.get_ref().1.peer_certificates() {
                        let name = pki::CertificateIdentity::of(first).unwrap().common_name;
                        seen.lock().unwrap().push(name);
                    }
                    while let Some((path, body)) = request(&mut stream).await {
                        let said = answer(&path, body);
                        // A `location` in the response becomes a redirect.
                        let begin = match said.get("location").as_str() {
                            Some(place) => format!("302 Found\r\nlocation: {place}"),
                            None => "200 OK".to_owned(),
                        };
                        let body = to_json(&said);
                        let head = format!(
                            "HTTP/1.1 {begin}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all(head.as_bytes()).await;
                        let _ = stream.write_all(&body).await;
                        if said.get("closes").as_bool() == Some(true) {
                            break; // without a `connection: close` header
                        }
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        let authority = authority.certificate_pem();
        Self { port, authority, clients, connections, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }
}

pub(crate) async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let path = head.split(' ').nth(1)?.to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
    }
    Some((path, from_json(&bytes[end..]).unwrap_or_default()))
}
