//! Checks the HTTP/2 connection preface where ALPN negotiated HTTP/2: a connection that does not
//! start with it is closed. On other connections the first bytes decide, and whatever is not HTTP/2
//! is served as HTTP/1.1.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose preface was checked, and is returned again by the first reads.
#[derive(Debug)]
pub(crate) struct Prefaced<S> {
    inner: S,
    /// The rest of the preface that is still to be returned.
    left: &'static [u8],
}

impl<S: AsyncRead + Unpin> Prefaced<S> {
    /// Reads the preface; fails at the first byte that differs.
    pub(crate) async fn accept(mut inner: S) -> io::Result<Self> {
        let (mut buffer, mut expected) = ([0; PREFACE.len()], &PREFACE[..]);
        while !expected.is_empty() {
            let (room, _) = buffer.split_at_mut(expected.len());
            let count = inner.read(room).await?;
            let read = room.get(..count).filter(|read| !read.is_empty());
            let rest = read.and_then(|read| expected.strip_prefix(read));
            expected = rest.ok_or(io::ErrorKind::InvalidData)?;
        }
        Ok(Self { inner, left: PREFACE })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let (now, later) = self.left.split_at(self.left.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.left = later;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn the_preface_is_read_again_and_anything_else_refused() {
        let (mut client, server) = duplex(64);
        client.write_all(&PREFACE[..7]).await.unwrap();
        let accepting = Prefaced::accept(server);
        let sending = async {
            client.write_all(&PREFACE[7..]).await.unwrap();
            client.write_all(b"more").await.unwrap();
        };
        let (accepted, ()) = tokio::join!(accepting, sending);
        let mut read = [0; PREFACE.len() + 4];
        accepted.unwrap().read_exact(&mut read).await.unwrap();
        assert_eq!(read, *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore");

        for wrong in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
            let (mut client, server) = duplex(64);
            client.write_all(wrong).await.unwrap();
            assert!(Prefaced::accept(server).await.is_err());
        }
    }
}
