//! Request bodies, and draining what was not read of them.
//!
//! Closing a connection while body bytes still arrive resets it, and a response in transit is lost.
//! Unread bytes are therefore drained before a response is sent over HTTP/1.1, up to a limit.
//! HTTP/2 can end a single stream.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Version,
    header::{CONNECTION, EXPECT},
    request::Parts,
};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};

use crate::Reply;

/// Maximum number of bytes to drain; with more unread bytes the connection is closed.
const MAX_DRAIN_BYTES: u64 = 256 << 10;
/// How long such a connection stays open, so that the client receives the response.
const LINGER: Duration = Duration::from_millis(500);

/// The body of a request, as it is received.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    left: Option<UnreadBody>,
}

/// Receives a body that was dropped before its end.
#[derive(Clone, Debug)]
pub(crate) struct UnreadBody {
    place: Arc<Mutex<Option<Incoming>>>,
    /// Whether the client sent `Expect: 100-continue` and waits before it sends the body.
    waits: bool,
}

impl RequestBody {
    /// The body, and the handle to what is left unread, if it may need to be drained.
    pub(crate) fn of(head: &Parts, body: Incoming) -> (Self, Option<UnreadBody>) {
        let matters = head.version < Version::HTTP_2 && !body.is_end_stream();
        let waits = head.headers.contains_key(EXPECT);
        let left = matters.then(|| UnreadBody { place: Arc::default(), waits });
        (Self { body: Some(body), left: left.clone() }, left)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(left), Some(body)) = (&self.left, self.body.take())
            && !body.is_end_stream()
        {
            *left.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl UnreadBody {
    /// Drains the unread body within a timeout. If it is too large, the response gets `Connection:
    /// close`, and the returned future keeps reading while the response is sent. A body that the
    /// client has not started to send is not requested.
    pub(crate) async fn drain(
        self,
        reply: &mut Reply,
        within: Duration,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let mut body = self.place.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if !self.waits && skip(&mut body, MAX_DRAIN_BYTES, within).await {
            return None;
        }
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let goes_on = async move {
            skip(&mut body, u64::MAX, LINGER).await;
        };
        (!self.waits).then_some(goes_on)
    }
}

/// Discards up to `most` bytes; returns whether that was all.
async fn skip(body: &mut Incoming, most: u64, within: Duration) -> bool {
    let (mut read, until) = (0, Instant::now() + within);
    while read <= most {
        match timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => read += frame.data_ref().map_or(0, |data| data.len() as u64),
            Ok(Some(Err(_)) | None) => return true,
            Err(_) => return false,
        }
    }
    false
}
