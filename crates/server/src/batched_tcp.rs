//! A TCP stream that batches writes. Bytes written while the connection's task runs are collected,
//! and sent when the task yields. TLS produces many small records, and each would otherwise be a
//! system call and a packet.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// A batch of this size is sent at once; it is the most that the kernel segments in one go (GSO).
const FULL: usize = 64 << 10;

/// A TCP stream whose writes are collected in a `WriteBatch`.
#[derive(Debug)]
pub(crate) struct BatchedTcpStream {
    read: OwnedReadHalf,
    outgoing: WriteBatch,
}

/// The unsent bytes of a `BatchedTcpStream`, shared with the task that decides when to send them.
#[derive(Clone, Debug)]
pub(crate) struct WriteBatch(Arc<Mutex<Pending>>);

/// The write half of the connection, with the bytes that are not sent yet.
#[derive(Debug)]
struct Pending {
    write: OwnedWriteHalf,
    gathered: Vec<u8>,
    /// How many bytes of `gathered` have been sent.
    sent: usize,
    /// Whether a task is running that will call `release`.
    held: bool,
    /// Whether a write has failed.
    broken: bool,
}

impl BatchedTcpStream {
    pub(crate) fn new(stream: TcpStream) -> (Self, WriteBatch) {
        let (read, write) = stream.into_split();
        let pending = Pending { write, gathered: Vec::new(), sent: 0, held: false, broken: false };
        let outgoing = WriteBatch(Arc::new(Mutex::new(pending)));
        (Self { read, outgoing: outgoing.clone() }, outgoing)
    }
}

impl WriteBatch {
    /// Starts batching: from here on writes are collected.
    pub(crate) fn hold(&self) {
        self.pending().held = true;
    }

    /// Ends batching: sends what was collected; from here on writes are sent at once. If sending
    /// fails, the task is woken so that its next read or write reports the broken connection.
    pub(crate) fn release(&self, cx: &mut Context<'_>) {
        let mut pending = self.pending();
        pending.held = false;
        if let Poll::Ready(Err(_)) = pending.drain(cx) {
            cx.waker().wake_by_ref();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut drained = Ok(());
        while self.sent < self.gathered.len() && drained.is_ok() {
            let rest = self.gathered.get(self.sent..).unwrap_or_default();
            match ready!(Pin::new(&mut self.write).poll_write(cx, rest)) {
                Ok(0) => drained = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) => drained = Err(error),
            }
        }
        // Free the buffer, so that idle connections hold no memory.
        (self.gathered, self.sent) = (Vec::new(), 0);
        self.broken |= drained.is_err();
        Poll::Ready(drained)
    }
}

impl AsyncRead for BatchedTcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BatchedTcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pending = self.outgoing.pending();
        if pending.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !pending.held || pending.gathered.len() >= FULL {
            ready!(pending.drain(cx))?;
        }
        if !pending.held {
            return Pin::new(&mut pending.write).poll_write_vectored(cx, pieces);
        }
        let size = pieces.iter().map(|piece| piece.len()).sum();
        pending.gathered.reserve(size);
        pieces.iter().for_each(|piece| pending.gathered.extend_from_slice(piece));
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pending = self.outgoing.pending();
        if pending.held { Poll::Ready(Ok(())) } else { pending.drain(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pending = self.outgoing.pending();
        ready!(pending.drain(cx))?;
        Pin::new(&mut pending.write).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.expect("connected"), far.expect("accepted").0)
    }

    #[tokio::test]
    async fn what_is_gathered_goes_out_when_it_is_said() {
        let (near, mut far) = pair().await;
        let (mut wire, outgoing) = BatchedTcpStream::new(near);
        outgoing.hold();
        wire.write_all(b"one ").await.expect("taken");
        wire.flush().await.expect("nothing to wait for");
        wire.write_all(b"two ").await.expect("taken");
        let waits = std::future::pending::<()>();
        let mut read = [0; 12];
        tokio::select! {
            biased;
            n = far.read(&mut read) => panic!("{n:?} came too early"),
            () = async { tokio::task::yield_now().await } => {}
            () = waits => {}
        }
        poll_fn(|cx| {
            outgoing.release(cx);
            Poll::Ready(())
        })
        .await;
        wire.write_all(b"end ").await.expect("sent");
        far.read_exact(&mut read).await.expect("everything");
        assert_eq!(&read, b"one two end ");
    }

    #[tokio::test]
    async fn who_writes_more_than_is_read_waits() {
        let (near, mut far) = pair().await;
        let (mut wire, outgoing) = BatchedTcpStream::new(near);
        let sent: Vec<u8> = (0..20u32 << 20).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
        let writing = async {
            for piece in sent.chunks(16 << 10) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let n = poll_fn(|cx| {
                        outgoing.hold();
                        let written = Pin::new(&mut wire).poll_write(cx, rest);
                        outgoing.release(cx);
                        written
                    });
                    rest = &rest[n.await.expect("taken")..];
                }
            }
            wire.shutdown().await.expect("all is sent");
        };
        let mut read = Vec::new();
        let ((), n) = tokio::join!(writing, far.read_to_end(&mut read));
        n.expect("everything");
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
    }
}
