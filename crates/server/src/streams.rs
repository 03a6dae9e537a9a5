//! The streams of an HTTP/2 connection, driven by the connection's own task: a watch
//! that waits takes its place in memory and nothing else. What has to be worked out
//! for a request runs in a task of its own, which ends before the answer begins.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::{Stream as _, stream::FuturesUnordered};
use hyper::rt::Executor;

use crate::wire::Outgoing;

type Streaming = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes new streams for the connection that they came by.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    new: Arc<Mutex<Vec<Streaming>>>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(stream));
    }
}

impl Streams {
    /// A connection together with the streams that it gives to these. When it ends, so do they.
    /// What they all have to say goes out at once.
    pub(crate) fn drive<C: Future>(self, connection: C, outgoing: Option<Outgoing>) -> Driving<C> {
        Driving { connection, outgoing, new: self, running: FuturesUnordered::new() }
    }
}

/// See `Streams::drive`.
pub(crate) struct Driving<C> {
    pub(crate) connection: C,
    outgoing: Option<Outgoing>,
    new: Streams,
    running: FuturesUnordered<Streaming>,
}

impl<C: Future + Unpin> Future for Driving<C> {
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

impl<C: Future + Unpin> Driving<C> {
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<C::Output> {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut self.connection).poll(cx) {
                return Poll::Ready(ended);
            }
            let new = mem::take(&mut *self.new.new.lock().unwrap_or_else(PoisonError::into_inner));
            self.running.extend(new);
            while let Poll::Ready(Some(())) = Pin::new(&mut self.running).poll_next(cx) {}
            let none = self.new.new.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if none {
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
        let streams = Streams::default();
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
