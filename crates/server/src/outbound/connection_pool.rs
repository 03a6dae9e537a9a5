//! Pool of HTTP/1.1 connections to webhooks.

use std::{
    fmt::{self, Write as _},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use client::{ConnectionUse, Connector, Io, TcpConnector};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until};

use super::rest_client_metrics::RestClientMetrics;
use crate::MetricsSource;

/// Maximum response size in bytes.
const LARGEST: usize = 10 << 20;
/// Maximum number of idle connections to one target.
const MOST: usize = 25;
/// Idle connections are closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Connections are not reused beyond this age, so that DNS names and certificates are read again.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

/// A request body.
type Whole = Full<Bytes>;
type Connection = http1::Connection<TokioIo<Box<dyn Io>>, Whole>;

/// The idle connections to all targets.
#[derive(Clone, Default)]
pub struct ConnectionPool(Arc<Shared>);

/// The state of the pool.
#[derive(Default)]
struct Shared {
    kept: Mutex<IdleConnections>,
    tally: RestClientMetrics,
}

/// The idle connections of a pool.
#[derive(Default)]
struct IdleConnections {
    /// In the order of their last use.
    idle: Vec<Idle>,
    /// Whether a task runs that closes expired connections.
    swept: bool,
}

/// An idle connection, its target, and when it expires.
struct Idle {
    to: TcpConnector,
    line: PooledConnection,
    until: Instant,
}

/// A connection. No task drives it while it is idle.
struct PooledConnection {
    sender: http1::SendRequest<Whole>,
    /// `None` once the connection has ended.
    connection: Option<Pin<Box<Connection>>>,
    opened: Instant,
}

/// Why a request has no response.
struct ExchangeError {
    why: String,
    /// The request, if nothing of it was sent.
    unsent: Option<Request<Whole>>,
    /// Whether the server sent anything.
    answered: bool,
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.kept().idle.len())
    }
}

impl MetricsSource for ConnectionPool {
    fn report(&self, out: &mut String) {
        const NAME: &str = "rest_client_transport_cache_entries";
        self.tally().write(out);
        let idle = self.kept().idle.len();
        let _ = write!(
            out,
            "# HELP {NAME} Connections that wait.\n# TYPE {NAME} gauge\n{NAME} {idle}\n"
        );
    }
}

impl ConnectionPool {
    /// Sends a request and returns the response. If a pooled connection turns out to be closed, a
    /// new one is opened. A request that the server may have received is not sent again unless it
    /// is a GET, because webhooks may have side effects.
    pub(super) async fn ask(
        &self,
        to: &TcpConnector,
        mut request: Request<Whole>,
    ) -> Result<Response<Bytes>, String> {
        if let Some(line) = self.take(to) {
            self.tally().connections.count(&["hit"]);
            let again = (request.method() == Method::GET).then(|| request.clone());
            request = match self.ask_over(line, to, request).await {
                Err(ExchangeError { unsent: Some(request), .. }) => request,
                Err(ExchangeError { answered: false, why, .. }) => again.ok_or(why)?,
                done => return done.map_err(|broken| broken.why),
            };
        }
        self.tally().connections.count(&["miss"]);
        let line = PooledConnection::open(to).await?;
        self.ask_over(line, to, request).await.map_err(|broken| broken.why)
    }

    async fn ask_over(
        &self,
        mut line: PooledConnection,
        to: &TcpConnector,
        request: Request<Whole>,
    ) -> Result<Response<Bytes>, ExchangeError> {
        let answer = line.ask(request).await?;
        if line.is_free() && line.opened.elapsed() < MAX_CONNECTION_AGE {
            self.keep(to.clone(), line);
        }
        Ok(answer)
    }

    /// The most recently used idle connection to a target.
    fn take(&self, to: &TcpConnector) -> Option<PooledConnection> {
        loop {
            let mut kept = self.kept();
            let at = kept.idle.iter().rposition(|idle| idle.to == *to)?;
            let mut idle = kept.idle.remove(at);
            drop(kept);
            if idle.until > Instant::now() && idle.line.is_free() {
                return Some(idle.line);
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the task ends with the last that is kept")]
    fn keep(&self, to: TcpConnector, line: PooledConnection) {
        let mut kept = self.kept();
        let mut same = kept.idle.iter().enumerate().filter(|(_, idle)| idle.to == to);
        if let Some((oldest, _)) = same.next().filter(|_| same.count() + 1 == MOST) {
            kept.idle.remove(oldest);
        }
        kept.idle.push(Idle { to, line, until: Instant::now() + IDLE_TIMEOUT });
        if !std::mem::replace(&mut kept.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    pub(super) fn tally(&self) -> &RestClientMetrics {
        &self.0.tally
    }

    fn kept(&self) -> MutexGuard<'_, IdleConnections> {
        lock(&self.0.kept)
    }
}

/// Closes expired connections, until none is idle.
async fn sweep(lines: Weak<Shared>) {
    while let Some(shared) = lines.upgrade() {
        let next = {
            let mut kept = lock(&shared.kept);
            let now = Instant::now();
            kept.idle.retain(|idle| idle.until > now);
            let Some(first) = kept.idle.first() else {
                kept.swept = false;
                return;
            };
            first.until
        };
        drop(shared);
        sleep_until(next).await;
    }
}

fn lock(kept: &Mutex<IdleConnections>) -> MutexGuard<'_, IdleConnections> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PooledConnection {
    async fn open(to: &TcpConnector) -> Result<Self, String> {
        let connected =
            to.connect(ConnectionUse::Upgrade).await.map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(connected.io))
            .await
            .map_err(|error| error.to_string())?;
        let connection = Some(Box::pin(connection));
        Ok(Self { sender, connection, opened: Instant::now() })
    }

    async fn ask(&mut self, request: Request<Whole>) -> Result<Response<Bytes>, ExchangeError> {
        let unanswered = |mut failed: TrySendError<Request<Whole>>| {
            let unsent = failed.take_message();
            let error = failed.into_error();
            let ended = error.is_incomplete_message();
            let why = if ended { "EOF".to_owned() } else { error.to_string() };
            ExchangeError { answered: error.is_parse(), why, unsent }
        };
        let sent = self.sender.try_send_request(request);
        let reply = drive(&mut self.connection, sent).await.map_err(unanswered)?;
        let (head, body) = reply.into_parts();
        let body = Limited::new(body, LARGEST).collect();
        let body = drive(&mut self.connection, body).await;
        let body = body.map_err(|error| ExchangeError {
            why: error.to_string(),
            unsent: None,
            answered: true,
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Whether the connection accepts another request, as far as is known.
    fn is_free(&mut self) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let looked = connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        looked.is_pending() && self.sender.is_ready()
    }
}

/// Runs `work` while driving the connection.
async fn drive<T, E>(
    connection: &mut Option<Pin<Box<Connection>>>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        if let Some(open) = connection
            && open.as_mut().poll(context).is_ready()
        {
            *connection = None; // the sender then fails with the reason
        }
        work.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests;
