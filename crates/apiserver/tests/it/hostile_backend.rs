//! A hostile test server: it responds with any bytes that a test wants, or never ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use object::Value;
use pki::{CertificateAuthority, CertificateSpec};
use tokio::{io::AsyncWriteExt, net::TcpListener, task::JoinSet, time::sleep};
use tokio_rustls::TlsAcceptor;

use crate::backend::request;

/// How it responds to a request.
pub(crate) enum Answer {
    /// These bytes, and then the connection is closed.
    Bytes(Vec<u8>),
    /// The first bytes, then the second ones again and again, without an end.
    Endless(Vec<u8>, Vec<u8>),
    /// One byte per second.
    Slowly(Vec<u8>),
    /// Nothing; the connection stays open.
    Nothing,
}

impl Answer {
    /// A complete response with a body.
    pub(crate) fn whole(status: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Self::Bytes(bytes)
    }
}

/// A chunked body without an end.
pub(crate) fn endless_body() -> Answer {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [&b"10000\r\n"[..], &vec![b' '; 0x10000], b"\r\n"].concat();
    Answer::Endless(head.into(), chunk)
}

pub(crate) struct Hostile {
    pub(crate) port: u16,
    /// The CA certificate, in PEM.
    pub(crate) authority: String,
    pub(crate) requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Hostile {
    pub(crate) async fn start(
        name: &str,
        answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let now = 1_700_000_000.max(object::Clock::now(&object::SystemClock));
        let authority = CertificateAuthority::create("hostile", now).unwrap();
        let leaf =
            CertificateSpec::server("hostile", vec![name.to_owned()], vec![[127, 0, 0, 1].into()]);
        let pair = authority.issue(&leaf, now).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(pki::server_config(&pair, None).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, requests) = (Arc::new(answer), Arc::<AtomicUsize>::default());
        let (count, mut tasks) = (requests.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer, count) = (acceptor.clone(), answer.clone(), count.clone());
                open.spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let Some((path, body)) = request(&mut stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let _ = say(&mut stream, answer(&path, &body)).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, authority: authority.certificate_pem(), requests, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn say(stream: &mut (impl AsyncWriteExt + Unpin), answer: Answer) -> std::io::Result<()> {
    match answer {
        Answer::Bytes(bytes) => stream.write_all(&bytes).await,
        Answer::Endless(head, piece) => {
            stream.write_all(&head).await?;
            loop {
                stream.write_all(&piece).await?;
            }
        }
        Answer::Slowly(bytes) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                stream.flush().await?;
                sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Answer::Nothing => {
            sleep(Duration::from_hours(1)).await;
            Ok(())
        }
    }
}
