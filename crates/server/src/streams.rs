//! Drives the streams of an HTTP/2 connection within the connection's own task, so that an idle
//! watch needs no task. The work of a request runs in a separate task, which ends before the
//! response body starts.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream as _, stream::FuturesUnordered};
use hyper::rt::Executor;
use tokio::{sync::Notify, time::Sleep};

use crate::batched_tcp::WriteBatch;

/// A stream of an HTTP/2 connection.
type Streaming = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Collects new streams for the task of their connection.
#[derive(Clone, Default)]
pub(crate) struct StreamExecutor {
    new: Arc<Mutex<Vec<Streaming>>>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let stream = Box::pin(async move {
            let _ = panics::contain("stream", stream).await; // the client sees the stream end
        });
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
    }
}

impl StreamExecutor {
    /// Combines a connection with its streams, which end with it. Everything they write in one poll
    /// is sent in one batch.
    pub(crate) fn drive<C: Future>(
        self,
        connection: C,
        outgoing: Option<WriteBatch>,
    ) -> ConnectionDriver<C> {
        let running = FuturesUnordered::new();
        ConnectionDriver { connection, outgoing, new: self, running, streamed: false, idle: None }
    }
}

/// A connection and its streams, see `StreamExecutor::drive`.
pub(crate) struct ConnectionDriver<C> {
    pub(crate) connection: C,
    outgoing: Option<WriteBatch>,
    new: StreamExecutor,
    running: FuturesUnordered<Streaming>,
    /// Whether there has been a stream.
    streamed: bool,
    idle: Option<Idle>,
}

/// Detects that a connection had no stream for some time.
struct Idle {
    longest: Duration,
    since: Option<Pin<Box<Sleep>>>,
    /// Notified when the connection is idle.
    ends: Arc<Notify>,
}

impl<C> ConnectionDriver<C> {
    /// Whether the peer may be on another host.
    pub(crate) fn is_remote(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Notifies `ends` when a remote connection has had streams, and then none for `longest`.
    pub(crate) fn end_when_idle(&mut self, longest: Duration, ends: Arc<Notify>) {
        self.idle = self.is_remote().then_some(Idle { longest, since: None, ends });
    }

    fn look_for_idleness(&mut self, cx: &mut Context<'_>) {
        let Some(idle) = &mut self.idle else { return };
        if !self.streamed || !self.running.is_empty() {
            idle.since = None;
            return;
        }
        let since = idle.since.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle.longest)));
        if since.as_mut().poll(cx).is_ready() {
            idle.ends.notify_one();
            self.idle = None;
        }
    }
}

impl<C: Future + Unpin> Future for ConnectionDriver<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        if let Some(outgoing) = &self.outgoing {
            outgoing.hold();
        }
        let ended = self.advance(cx);
        if let Some(outgoing) = &self.outgoing {
            outgoing.release(cx);
        }
        ended
    }
}

impl<C: Future + Unpin> ConnectionDriver<C> {
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<C::Output> {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut self.connection).poll(cx) {
                return Poll::Ready(ended);
            }
            let new = mem::take(&mut *self.new.new.lock().unwrap_or_else(PoisonError::into_inner));
            self.streamed |= !new.is_empty();
            self.running.extend(new);
            while let Poll::Ready(Some(())) = Pin::new(&mut self.running).poll_next(cx) {}
            let none = self.new.new.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if none {
                self.look_for_idleness(cx);
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn streams_run_while_their_connection_does() {
        let streams = StreamExecutor::default();
        let ((first, told), (second, ended)) = (oneshot::channel(), oneshot::channel::<()>());
        let taker = streams.clone();
        let connection = Box::pin(async move {
            taker.execute(async move { first.send(7).expect("somebody waits") });
            taker.execute(async move {
                let _open = second;
                std::future::pending::<()>().await;
            });
            told.await
        });
        assert_eq!(streams.drive(connection, None).await, Ok(7));
        assert!(ended.await.is_err(), "a stream ends with its connection");
    }
}
