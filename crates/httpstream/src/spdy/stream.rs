//! One stream of a connection. Each direction can be closed on its own; dropping the stream closes the sending
//! direction after everything that was written.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::{
    frame::Frame,
    header::Headers,
    shared::{Shared, WINDOW},
};

const LARGEST_WRITE: usize = 32 << 10;

/// A bidirectional byte stream.
#[derive(Debug)]
pub struct Stream {
    id: u32,
    headers: Headers,
    shared: Arc<Shared>,
    window: Arc<Window>,
    /// Filled by the connection's reader task.
    pipe: DuplexStream,
    /// Bytes read that have not been reported to the peer yet.
    consumed: u32,
    finished: bool,
}

/// The send window. It applies only to peers that use flow control: Go's library, and so every Kubernetes component,
/// never sends window updates.
#[derive(Debug)]
pub(super) struct Window(Mutex<Room>);

#[derive(Debug)]
struct Room {
    left: i64,
    reset: bool,
    waiting: Option<Waker>,
}

impl Stream {
    pub(super) fn new(
        id: u32,
        headers: Headers,
        shared: Arc<Shared>,
        window: Arc<Window>,
        pipe: DuplexStream,
    ) -> Self {
        Self { id, headers, shared, window, pipe, consumed: 0, finished: false }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// The headers with which the stream was opened.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    fn finish(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let sent =
            self.shared.outbox.push(Frame::Data { id: self.id, fin: true, bytes: Bytes::new() });
        self.shared.finished(self.id);
        sent
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.finish(); // fails only if the connection is broken
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(cx, buffer))?;
        if self.shared.flow_controlled() {
            let count = buffer.filled().len() - before;
            self.consumed = self.consumed.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            if self.consumed >= WINDOW / 2 {
                let more = std::mem::take(&mut self.consumed);
                // Fails if the connection is broken; the next write reports that.
                let _ = self.shared.outbox.push(Frame::Window { id: self.id, more });
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = ready!(self.window.poll_room(cx, self.shared.flow_controlled()))?;
        let (bytes, _) = bytes.split_at(bytes.len().min(room).min(LARGEST_WRITE));
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let frame =
            || Frame::Data { id: self.id, fin: false, bytes: Bytes::copy_from_slice(bytes) };
        ready!(self.shared.outbox.poll_push(cx, bytes.len(), frame))?;
        self.window.take(bytes.len());
        Poll::Ready(Ok(bytes.len()))
    }

    /// Nothing to do: the connection flushes whenever its send queue is empty.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish())
    }
}

impl Window {
    pub(super) fn new(left: i64) -> Self {
        Self(Mutex::new(Room { left, reset: false, waiting: None }))
    }

    pub(super) fn add(&self, more: i64) {
        self.change(|room| room.left = room.left.saturating_add(more));
    }

    pub(super) fn reset(&self) {
        self.change(|room| room.reset = true);
    }

    fn take(&self, bytes: usize) {
        let mut room = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        room.left = room.left.saturating_sub_unsigned(bytes as u64);
    }

    fn poll_room(&self, cx: &mut Context<'_>, counts: bool) -> Poll<io::Result<usize>> {
        let mut room = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if room.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        match usize::try_from(room.left) {
            _ if !counts => Poll::Ready(Ok(usize::MAX)),
            Ok(left) if left > 0 => Poll::Ready(Ok(left)),
            _ => {
                room.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Room)) {
        let mut room = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut room);
        if let Some(waiting) = room.waiting.take() {
            waiting.wake();
        }
    }
}
