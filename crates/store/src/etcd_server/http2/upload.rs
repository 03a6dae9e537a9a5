//! The body of a request, while it is received.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tonic::Status;

/// Maximum number of bytes that wait to be read by the service.
const LARGEST: usize = 4 << 20;

/// A request body that the connection writes to and a service reads from.
#[derive(Clone, Debug, Default)]
pub(in crate::etcd_server) struct RequestBody(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    parts: VecDeque<Bytes>,
    size: usize,
    ended: bool,
    reader: Option<Waker>,
}

impl RequestBody {
    /// Appends a part; false if too many bytes are waiting.
    pub(super) fn push(&self, part: &[u8]) -> bool {
        let mut state = self.state();
        state.size += part.len();
        if !part.is_empty() {
            state.parts.push_back(Bytes::copy_from_slice(part));
        }
        wake(state.size <= LARGEST, state)
    }

    /// Marks the body as complete.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        wake(true, state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(done: bool, mut state: MutexGuard<'_, State>) -> bool {
    let reader = state.reader.take();
    drop(state);
    reader.into_iter().for_each(Waker::wake);
    done
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut state = self.state();
        if let Some(part) = state.parts.pop_front() {
            state.size -= part.len();
            return Poll::Ready(Some(Ok(Frame::data(part))));
        } else if state.ended {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state();
        state.ended && state.parts.is_empty()
    }
}
