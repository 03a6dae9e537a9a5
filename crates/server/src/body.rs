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

/// Size of a body frame in bytes.
pub(crate) const FRAME: usize = 64 << 10;
/// Cost of a frame in Tokio's cooperative budget of 128: a connection sends eight frames, then
/// yields to other tasks.
pub(crate) const FRAME_COST: usize = 16;

/// A body of known length. A large one is sent in frames: encrypting, compressing and sending
/// megabytes in one turn would delay every other caller.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    let (bytes, never) = (bytes.into(), |error: Infallible| match error {});
    if bytes.len() > FRAME {
        return InFrames(bytes).boxed_unsync();
    }
    Full::new(bytes).map_err(never).boxed_unsync()
}

/// Bytes that are sent in frames.
struct InFrames(Bytes);

impl HttpBody for InFrames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        ready!(spend(cx, FRAME_COST));
        let size = self.0.len().min(FRAME);
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_bodies_are_sent_in_frames() {
        for size in [0, 1, FRAME, FRAME + 1, 5 * FRAME] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251).to_le_bytes()[0]).collect();
            let mut body = full(bytes.clone());
            assert_eq!(body.size_hint().exact(), Some(size as u64));
            let (mut read, mut frames) = (Vec::new(), 0);
            while let Some(frame) = body.frame().await {
                let data = frame.expect("no error").into_data().expect("no trailers");
                assert!(data.len() <= FRAME);
                read.extend_from_slice(&data);
                frames += 1;
            }
            assert!(body.is_end_stream() && read == bytes);
            assert_eq!(frames, size.div_ceil(FRAME));
        }
    }

    /// Whoever sends a large body lets others go on in between.
    #[tokio::test]
    async fn a_large_body_yields() {
        let mut body = full(vec![0; 64 * FRAME]);
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            while let Some(frame) = ready!(Pin::new(&mut body).poll_frame(cx)) {
                frame.expect("no error");
            }
            Poll::Ready(())
        })
        .await;
        assert!(polls >= 8, "{polls} polls for 64 frames");
    }
}
