//! One connection, and the task that drives it.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tracing::debug;

use crate::Connection;

pub(crate) type Body = Full<Bytes>;

/// Requests at once on one connection, watches included. Fewer than any server's
/// limit, or a request would wait for a watch to end.
const STREAMS: usize = 64;
/// Streams that nobody reads must not use up the window that all share.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// An HTTP/2 connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2Connection {
    pub(crate) send: http2::SendRequest<Body>,
    /// Every answer that is being read holds one.
    open: Arc<()>,
}

/// A place on a connection.
pub(crate) type StreamPermit = Arc<()>;

impl Http2Connection {
    pub(crate) async fn open(connected: Connection) -> hyper::Result<Self> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if connected.remote {
            builder.keep_alive_interval(PING).keep_alive_timeout(PONG).keep_alive_while_idle(true);
        }
        let (send, connection) = builder.handshake(TokioIo::new(connected.io)).await?;
        drive(connection);
        Ok(Self { send, open: Arc::new(()) })
    }

    /// A place, unless the connection is closed or full.
    pub(crate) fn try_acquire(&self) -> Option<StreamPermit> {
        let taken = Arc::strong_count(&self.open) - 1;
        (!self.is_closed() && taken < STREAMS).then(|| self.open.clone())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.send.is_closed()
    }
}

/// One request on an HTTP/1.1 connection of its own, which may then change into
/// a plain stream.
pub(crate) async fn send_once(
    connected: Connection,
    request: Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    let (mut send, connection) = http1::handshake(TokioIo::new(connected.io)).await?;
    drive(connection.with_upgrades());
    send.send_request(request).await
}

/// Runs a connection until its last user is gone.
#[expect(clippy::disallowed_methods, reason = "the task ends with the connection that it drives")]
fn drive(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "a connection broke");
        }
    });
}

/// What hyper says, with what it hides.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

impl From<io::Error> for crate::Error {
    fn from(error: io::Error) -> Self {
        Self::Unavailable(error_chain(&error))
    }
}

impl From<hyper::Error> for crate::Error {
    fn from(error: hyper::Error) -> Self {
        Self::Unavailable(error_chain(&error))
    }
}
