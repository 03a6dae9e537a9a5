//! An HTTP/2 connection, and the task that drives it.

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

/// Maximum number of concurrent streams per connection, watches included. It is below any server's limit; otherwise a
/// request would wait for a watch to end.
const STREAMS: usize = 64;
/// A stream that is not read must not use up the connection's flow-control window.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// An HTTP/2 connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2Connection {
    pub(crate) send: http2::SendRequest<Body>,
    /// Cloned for every response that is being read.
    open: Arc<()>,
}

/// A permit for one stream of a connection.
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

    /// A permit, unless the connection is closed or full.
    pub(crate) fn try_acquire(&self) -> Option<StreamPermit> {
        let taken = Arc::strong_count(&self.open) - 1;
        (!self.is_closed() && taken < STREAMS).then(|| self.open.clone())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.send.is_closed()
    }
}

/// Sends one request on its own HTTP/1.1 connection, which may then be upgraded.
pub(crate) async fn send_once(
    connected: Connection,
    request: Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    let (mut send, connection) = http1::handshake(TokioIo::new(connected.io)).await?;
    drive(connection.with_upgrades());
    send.send_request(request).await
}

/// Drives a connection until its last user is gone.
#[expect(clippy::disallowed_methods, reason = "the task ends with the connection that it drives")]
fn drive(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "connection to the server failed");
        }
    });
}

/// The messages of an error and all its sources.
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
