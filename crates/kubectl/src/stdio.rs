//! The standard streams: output that handles a closed pipe, input that can be stopped, and the terminal in raw mode.

mod input;
mod terminal;

use std::{
    io::{self, Write},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::AsyncWrite;

pub(crate) use self::{
    input::{DetachKeys, Input},
    terminal::{RawTerminal, size},
};

/// Writes all of `bytes` to stdout or stderr. If the pipe is closed, the process exits as if killed by SIGPIPE, like
/// upstream's kubectl.
pub(crate) fn write(to: &mut impl Write, bytes: &[u8]) {
    if let Err(error) = to.write_all(bytes).and_then(|()| to.flush()) {
        failed(&error);
    }
}

fn failed(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        terminal::restore();
        sys::process::die_by_broken_pipe();
    }
}

/// Stdout or stderr as an `AsyncWrite`. Writes block, so that a session reads no more data before its output is
/// written.
#[derive(Debug)]
pub(crate) struct Blocking<W>(pub(crate) W);

impl<W: Write + Unpin> AsyncWrite for Blocking<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(bytes).inspect_err(failed))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush().inspect_err(failed))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
