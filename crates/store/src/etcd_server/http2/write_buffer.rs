//! The output buffer of a connection: encoded frames, interleaved with large values that are sent without copying
//! (`writev`).

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

/// Shorter values are copied: one long slice is faster to write than many short ones.
const SHORT: usize = 4_096;
/// Maximum number of slices per `writev`; the kernel accepts no more.
const PIECES: usize = 1_024;

#[derive(Debug, Default)]
pub(in crate::etcd_server) struct WriteBuffer {
    pub(in crate::etcd_server) bytes: Vec<u8>,
    /// Values, and the position in `bytes` that each is inserted at.
    values: VecDeque<(usize, Bytes)>,
    /// The number of `bytes` that are written.
    sent: usize,
    /// The number of bytes of values that are not written yet.
    pending_value_bytes: usize,
}

impl WriteBuffer {
    /// The number of bytes to be written.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.pending_value_bytes
    }

    pub(in crate::etcd_server) fn value(&mut self, value: Bytes) {
        if value.len() < SHORT {
            return self.bytes.extend_from_slice(&value);
        }
        self.pending_value_bytes += value.len();
        self.values.push_back((self.bytes.len(), value));
    }

    /// Writes as much as the socket accepts; true if everything was written.
    pub(in crate::etcd_server) fn write(
        &mut self,
        mut io: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        while self.len() > 0 {
            let written = if self.values.is_empty() {
                io.as_mut().poll_write(cx, &self.bytes[self.sent..])?
            } else {
                let mut pieces = [IoSlice::new(&[]); PIECES];
                let count = self.pieces(&mut pieces);
                io.as_mut().poll_write_vectored(cx, &pieces[..count])?
            };
            match written {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => self.written(count),
                Poll::Pending => return Ok(false),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Fills `pieces` with the first slices to write, and returns their number.
    fn pieces<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> usize {
        let (mut at, mut count) = (self.sent, 0);
        for (place, value) in self.values.iter().take(pieces.len() / 2) {
            if at < *place {
                pieces[count] = IoSlice::new(&self.bytes[at..*place]);
                (at, count) = (*place, count + 1);
            }
            pieces[count] = IoSlice::new(value);
            count += 1;
        }
        if count < pieces.len() && self.values.len() <= pieces.len() / 2 {
            pieces[count] = IoSlice::new(&self.bytes[at..]);
            count += 1;
        }
        count
    }

    fn written(&mut self, mut count: usize) {
        while count > 0 {
            let next = self.values.front().map_or(self.bytes.len(), |(place, _)| *place);
            let before = count.min(next - self.sent);
            self.sent += before;
            count -= before;
            let Some((_, value)) = self.values.front_mut().filter(|_| count > 0) else { continue };
            let part = count.min(value.len());
            value.advance(part);
            self.pending_value_bytes -= part;
            count -= part;
            if value.is_empty() {
                self.values.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl AsyncWrite for Slow {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            pieces: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            assert!(pieces.len() <= PIECES);
            let all = pieces.iter().flat_map(|piece| piece.iter().copied());
            let all: Vec<u8> = all.take(self.1).collect();
            self.0.extend_from_slice(&all);
            Poll::Ready(Ok(all.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn all_is_written_in_order_whatever_is_taken_at_once() {
        for at_once in [997, 60_000, 100_000, 10_000_000] {
            let (mut out, mut expected) = (WriteBuffer::default(), Vec::new());
            for nth in 0..3_000_usize {
                let value = vec![u8::try_from(nth % 251).unwrap(); nth % 7_000];
                for part in [&b"head"[..nth % 5], &value] {
                    expected.extend_from_slice(part);
                }
                out.bytes.extend_from_slice(&b"head"[..nth % 5]);
                out.value(value.into());
            }
            let mut io = Slow(Vec::new(), at_once);
            assert_eq!(out.len(), expected.len());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(out.write(Pin::new(&mut io), &mut cx).unwrap());
            assert!(io.0 == expected && out.len() == 0 && out.bytes.is_empty());
        }
    }
}
