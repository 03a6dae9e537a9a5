//! Bodies of requests on their way in, and what is done with what nobody wants to read of them.
//!
//! A connection that is closed while bytes of a body still arrive is reset, and an answer that
//! is on its way back is lost with it. So what was not read is read before an answer goes out
//! over HTTP/1.1, as far as that is little. HTTP/2 ends a stream without harm to the others.

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

/// So much is read for nothing; whoever sends more loses the connection.
const MAX_DRAIN_BYTES: u64 = 256 << 10;
/// How long such a connection stays, so that the answer arrives.
const LINGER: Duration = Duration::from_millis(500);

/// The body of a request, as it comes in.
#[derive(Debug)]
pub struct RequestBody {
    body: Option<Incoming>,
    left: Option<UnreadBody>,
}

/// Where a body is found that was not read to its end.
#[derive(Clone, Debug)]
pub(crate) struct UnreadBody {
    place: Arc<Mutex<Option<Incoming>>>,
    /// Whether the other side waits to be asked for the body.
    waits: bool,
}

impl RequestBody {
    /// The body, and where what is left of it will be, if that matters.
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
    /// Reads what was left, within a time. If that is too much, the answer says that it is the
    /// last, and the rest is returned, to be read on while the answer goes out. Whoever waits to
    /// be asked for his body is not asked.
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

/// Reads so much for nothing; whether that was all.
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
