//! SPDY tunnelled through the messages of a WebSocket, which passes proxies and load balancers that do not support
//! SPDY.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// The WebSocket subprotocol of such a tunnel.
pub(super) const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
const LARGEST_MESSAGE: usize = 32 << 10;

/// The payload of a WebSocket's messages, as one byte stream in each direction.
pub(super) struct Tunnel<S> {
    socket: WebSocketStream<S>,
    /// The unread rest of the last message.
    received: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Tunnel<S> {
    pub(super) fn new(socket: WebSocketStream<S>) -> Self {
        Self { socket, received: Bytes::new() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.received.is_empty() {
            match ready!(Pin::new(&mut this.socket).poll_next(cx)) {
                Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                    this.received = message.into_data();
                }
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Ok(_)) => {} // control messages, which the socket handles itself
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let length = this.received.len().min(buffer.remaining());
        buffer.put_slice(&this.received[..length]);
        this.received.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.get_mut().socket);
        ready!(socket.as_mut().poll_ready(cx)).map_err(io::Error::other)?;
        let sent = &bytes[..bytes.len().min(LARGEST_MESSAGE)];
        let message = Message::Binary(Bytes::copy_from_slice(sent));
        socket.start_send(message).map_err(io::Error::other)?;
        Poll::Ready(Ok(sent.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx).map_err(io::Error::other)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_close(cx).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use httpstream::spdy::{Connection, Headers};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    async fn ends() -> (Connection, Connection) {
        let (client, server) = duplex(10_000);
        let socket = |io, role| WebSocketStream::from_raw_socket(io, role, None);
        (
            Connection::client(Tunnel::new(socket(client, Role::Client).await)),
            Connection::server(Tunnel::new(socket(server, Role::Server).await)),
        )
    }

    #[tokio::test]
    async fn streams_pass_whole_in_both_directions() {
        let (client, mut server) = ends().await;
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let ask = async {
            let opened = client.opener().open(Headers::from_iter([("port", "80")])).await;
            let (mut from, mut to) = tokio::io::split(opened.expect("a stream"));
            let mut answer = Vec::new();
            let send = async {
                to.write_all(&sent).await.expect("open");
                to.shutdown().await.expect("open");
            };
            tokio::join!(send, async { from.read_to_end(&mut answer).await.expect("open") });
            answer
        };
        let serve = async {
            let stream = server.accept().await.expect("a stream");
            assert_eq!(stream.headers().get("port"), Some("80"));
            let (mut from, mut to) = tokio::io::split(stream);
            tokio::io::copy(&mut from, &mut to).await.expect("open");
            to.shutdown().await.expect("open");
        };
        let (answer, ()) = tokio::join!(ask, serve);
        assert!(answer == sent, "{} bytes came back", answer.len());
    }

    #[tokio::test]
    async fn an_end_of_the_other_side_is_an_end() {
        let (client, server) = ends().await;
        server.close().await;
        client.gone().cancelled().await;
    }
}
