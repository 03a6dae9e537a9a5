//! Idle timeout of streams: `--streaming-connection-idle-timeout`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional},
    time::{Instant, sleep_until},
};

/// Copies in both directions until both ends are closed, or nothing has been read from either for `idle`; zero means no
/// timeout.
pub(super) async fn copy_until_idle<A, B>(
    near: &mut A,
    far: &mut B,
    idle: Duration,
) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (last, changes) = tokio::sync::watch::channel(Instant::now());
    let (mut near, mut far) =
        (Watched { inner: near, last: &last }, Watched { inner: far, last: &last });
    let copying = copy_bidirectional(&mut near, &mut far);
    let silence = async move {
        if idle.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let end = *changes.borrow() + idle;
            sleep_until(end).await;
            if *changes.borrow() + idle <= Instant::now() {
                return;
            }
        }
    };
    tokio::select! {
        copied = copying => copied.map(drop),
        () = silence => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was sent for too long")),
    }
}

/// One end of a stream; records when something was last read from either end.
struct Watched<'a, T> {
    inner: &'a mut T,
    last: &'a tokio::sync::watch::Sender<Instant>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<'_, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut *self.inner).poll_read(cx, buffer);
        if read.is_ready() {
            self.last.send_replace(Instant::now());
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<'_, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_stream_and_traffic_keeps_it() {
        let ((mut client, mut near), (mut far, mut server)) = (duplex(64), duplex(64));
        let began = Instant::now();
        let copying = copy_until_idle(&mut near, &mut far, Duration::from_mins(5));
        let talking = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_mins(4)).await;
                client.write_all(b"x").await.unwrap();
                assert_eq!(server.read_u8().await.unwrap(), b'x');
            }
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = copying => ended,
            () = talking => unreachable!("it never ends"),
        };
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 17 * 60);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_silence_lasts() {
        let ((_client, mut near), (mut far, _server)) = (duplex(64), duplex(64));
        let copying = copy_until_idle(&mut near, &mut far, Duration::ZERO);
        let day = tokio::time::timeout(Duration::from_hours(24), copying).await;
        assert!(day.is_err());
    }
}
