//! The members of the etcd cluster. One of them is used until it fails.

use std::{
    error::Error as _,
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::TlsConnector;
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};

use super::{EtcdConfig, REQUEST_TIMEOUT, store_error};
use crate::{
    Error,
    wire::pb::{kv_client::KvClient, lease_client::LeaseClient, watch_client::WatchClient},
};

/// Timeout of a connection attempt.
const CONNECT: Duration = Duration::from_secs(3);

/// The members, and which one is in use.
pub(crate) struct Endpoints {
    members: Vec<(String, Channel)>,
    current: AtomicUsize,
}

/// The connection failed before anything was sent, so the request can be retried.
#[derive(Debug)]
struct NotConnected(io::Error);

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect: {}", self.0)
    }
}

impl std::error::Error for NotConnected {}

impl Endpoints {
    pub(super) fn new(remote: &EtcdConfig) -> Result<Self, Error> {
        let EtcdConfig { endpoints, tls, dial, .. } = remote;
        let open = |url: &String| Ok((url.clone(), channel(url, tls.clone(), dial.clone())?));
        let members: Result<Vec<_>, Error> = endpoints.iter().map(open).collect();
        let members = members?;
        if members.is_empty() {
            return Err(Error::Unavailable("no endpoint is given".to_owned()));
        }
        Ok(Self { members, current: AtomicUsize::new(0) })
    }

    /// The member in use, and its number.
    pub(super) fn current(&self) -> (usize, Channel) {
        let nth = self.current.load(Ordering::Acquire) % self.members.len();
        (nth, self.members[nth].1.clone())
    }

    /// Switches from a failed member to the next, unless that was done already.
    pub(super) fn mark_failed(&self, nth: usize) {
        let next = (nth + 1) % self.members.len();
        let _ = self.current.compare_exchange(nth, next, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn watch(&self) -> (usize, WatchClient<Channel>) {
        let (nth, channel) = self.current();
        (nth, WatchClient::new(channel).max_decoding_message_size(usize::MAX))
    }

    pub(super) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.current().1)
    }

    /// Sends a read request to one member after the other until one answers.
    pub(super) async fn read<T, F>(
        &self,
        call: impl FnMut(KvClient<Channel>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_with_retry(Instant::now() + REQUEST_TIMEOUT * 3, call, |status| {
            matches!(
                status.code(),
                Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
            )
        })
        .await
    }

    /// Like `read`, but a request that may have been executed is not sent again, and all attempts together end at
    /// `until`.
    pub(super) async fn write<T, F>(
        &self,
        until: Instant,
        call: impl FnMut(KvClient<Channel>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_with_retry(until, call, not_sent).await
    }

    async fn call_with_retry<T, F>(
        &self,
        until: Instant,
        mut call: impl FnMut(KvClient<Channel>) -> F,
        again: impl Fn(&Status) -> bool,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut left = self.members.len() * 2;
        loop {
            let (nth, channel) = self.current();
            let client = KvClient::new(channel).max_decoding_message_size(usize::MAX);
            let attempt = until.min(Instant::now() + REQUEST_TIMEOUT);
            let answer = timeout_at(attempt, call(client)).await;
            let status = match answer {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("etcd did not answer in time"),
            };
            if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Unknown) {
                self.mark_failed(nth);
            }
            left -= 1;
            if left == 0 || Instant::now() >= until || !again(&status) {
                return Err(store_error(&status));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.iter().map(|(url, _)| url)).finish()
    }
}

fn not_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<NotConnected>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn channel(
    url: &str,
    tls: Option<Arc<ClientConfig>>,
    dial: Option<Dialer>,
) -> Result<Channel, Error> {
    let wrong = |what: String| Error::Unavailable(format!("{url}: {what}"));
    let uri: Uri = url.parse().map_err(|_| wrong("is no URL".to_owned()))?;
    let host = uri.host().ok_or_else(|| wrong("has no host".to_owned()))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(2379);
    let tls = match uri.scheme_str() {
        Some("https") => {
            let tls = tls.ok_or_else(|| wrong("https needs --etcd-cafile".to_owned()))?;
            let name =
                ServerName::try_from(host.clone()).map_err(|error| wrong(error.to_string()))?;
            let mut config = (*tls).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            Some((TlsConnector::from(Arc::new(config)), name))
        }
        Some("http") => None,
        _ => return Err(wrong("is no URL of http or https".to_owned())),
    };
    let endpoint = Endpoint::from_shared(format!(
        "http://{host}:{port}",
        host = uri.host().unwrap_or("localhost")
    ))
    .map_err(|error| wrong(error.to_string()))?
    .http2_keep_alive_interval(Duration::from_secs(10))
    .keep_alive_timeout(Duration::from_secs(5))
    .keep_alive_while_idle(true)
    .initial_stream_window_size(4 << 20)
    .initial_connection_window_size(16 << 20);
    let connect = move |_: Uri| {
        let (host, tls, dial) = (host.clone(), tls.clone(), dial.clone());
        async move {
            let connected = timeout(CONNECT, open(&host, port, tls, dial)).await;
            let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            connected.map_err(NotConnected)
        }
    };
    Ok(endpoint.connect_with_connector_lazy(Connector(connect)))
}

/// A function that opens connections to a host and port, such as through an egress proxy.
#[derive(Clone)]
pub struct Dialer(pub Arc<dyn Fn(String, u16) -> DialFuture + Send + Sync>);

pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

/// A plain connection or a TLS one.
pub trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for T {}

type Opened = TokioIo<Box<dyn Stream>>;

async fn open(
    host: &str,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    dial: Option<Dialer>,
) -> io::Result<Opened> {
    let stream: Box<dyn Stream> = if let Some(Dialer(dial)) = dial {
        dial(host.to_owned(), port).await?
    } else {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Box::new(stream)
    };
    let stream: Box<dyn Stream> = match tls {
        None => stream,
        Some((connector, name)) => Box::new(connector.connect(name, stream).await?),
    };
    Ok(TokioIo::new(stream))
}

/// A function as the `Service` that tonic expects for connecting.
#[derive(Clone)]
struct Connector<F>(F);

impl<F, T> tower_service::Service<Uri> for Connector<F>
where
    F: FnMut(Uri) -> T,
    T: Future<Output = Result<Opened, NotConnected>>,
{
    type Response = Opened;
    type Error = NotConnected;
    type Future = T;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), NotConnected>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> T {
        (self.0)(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_of_all_attempts_together() {
        let urls = ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"];
        let endpoints = Endpoints::new(&EtcdConfig {
            endpoints: urls.map(str::to_owned).to_vec(),
            ..EtcdConfig::default()
        })
        .unwrap();
        let (begun, mut attempts) = (Instant::now(), 0);
        let done = endpoints.write(begun + REQUEST_TIMEOUT, |_| {
            attempts += 1;
            async {
                tokio::time::sleep(REQUEST_TIMEOUT * 2 / 5).await; // as long as a member that is cut off
                let error = NotConnected(io::ErrorKind::TimedOut.into());
                Err::<Response<()>, _>(Status::from_error(Box::new(error)))
            }
        });
        assert!(matches!(done.await, Err(Error::Unavailable(_))));
        let over = begun.elapsed().checked_sub(REQUEST_TIMEOUT).expect("not before");
        assert!(over < Duration::from_millis(10), "{over:?}"); // of a clock that the test owns
        assert_eq!(attempts, 3);
    }
}
