//! Asynchronous pipes and terminals of processes.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

/// One end of a pipe, or a terminal. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct StdioStream(Arc<AsyncFd<OwnedFd>>);

impl StdioStream {
    /// Registers a descriptor with the Tokio runtime, in non-blocking mode.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        // SAFETY: an owned descriptor stays the same and open for as long as the value lives in there.
        let registered = unsafe { AsyncFd::register(fd)? };
        Ok(Self(Arc::new(registered)))
    }

    pub fn set_window_size(&self, columns: u16, rows: u16) -> io::Result<()> {
        crate::descriptor::set_window_size(self.0.get_ref(), columns, rows)
    }
}

impl AsyncRead for StdioStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let target = buffer.initialize_unfilled();
            match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut *target)?)) {
                Ok(Ok(got)) => {
                    buffer.advance(got);
                    return Poll::Ready(Ok(()));
                }
                // EIO: all programs on the terminal have exited, which counts as the end of file.
                Ok(Err(error)) if error.raw_os_error() == Some(5) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for StdioStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            if let Ok(written) = ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
