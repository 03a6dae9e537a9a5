//! Response bodies, and reading request bodies up to a size limit.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use object::Status;
use tokio::task::coop;

use crate::RequestBody;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
/// A response.
pub type Reply = Response<Body>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    let never = |error: Infallible| match error {};
    Full::new(bytes.into()).map_err(never).boxed_unsync()
}

/// Wraps a body. `tell` is called with the number of bytes sent when the body is dropped.
pub(crate) fn counted(body: Body, tell: impl FnOnce(u64) + Send + 'static) -> Body {
    Counted { body, sent: 0, tell: Some(tell) }.boxed_unsync()
}

/// A body that counts the bytes sent.
struct Counted<T: FnOnce(u64)> {
    body: Body,
    sent: u64,
    tell: Option<T>,
}

impl<T: FnOnce(u64)> Unpin for Counted<T> {}

impl<T: FnOnce(u64)> HttpBody for Counted<T> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(data)) = frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
            self.sent += data.map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<T: FnOnce(u64)> Drop for Counted<T> {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(self.sent);
        }
    }
}

/// Consumes `cost` units of the task's Tokio cooperative budget; pending if it is exhausted.
pub(crate) fn spend(cx: &mut Context<'_>, cost: usize) -> Poll<()> {
    for _ in 0..cost {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    Poll::Ready(())
}

/// Reads the whole body; error 413 if it is larger than `limit`.
pub async fn read(body: RequestBody, limit: usize) -> Result<Bytes, Status> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => {
            let bytes = body.to_bytes();
            Ok(bytes)
        }
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::too_large(format!("Request entity too large: limit is {limit}")))
        }
        Err(error) => Err(Status::bad_request(format!("cannot read the body: {error}"))),
    }
}
