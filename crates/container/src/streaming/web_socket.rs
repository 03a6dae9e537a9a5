//! Exec and attach over WebSocket: the first byte of a message is the channel, which identifies the stream.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use httpstream::{
    Outbox,
    channel::{CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    SessionIo, StreamingRuntime, TerminalSize,
    remote_command::{Session, Version},
};

pub(super) const BUFFER: usize = 64 << 10;
const LARGEST_WRITE: usize = 32 << 10;
const LARGEST_MESSAGE: usize = 4 << 20;
const SIZES: usize = 16;
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The negotiated subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subprotocol {
    version: Version,
    base64: bool,
}

/// Chooses the client's first supported subprotocol. A client that offers none uses the oldest one.
pub(super) fn choose(offered: &[String]) -> Option<(&'static str, Subprotocol)> {
    const KNOWN: [(&str, Version, bool); 6] = [
        ("v5.channel.k8s.io", Version::V5, false),
        ("v4.channel.k8s.io", Version::V4, false),
        ("v4.base64.channel.k8s.io", Version::V4, true),
        ("channel.k8s.io", Version::V1, false),
        ("base64.channel.k8s.io", Version::V1, true),
        ("", Version::V1, false),
    ];
    let find = |name: &str| KNOWN.into_iter().find(|(known, ..)| *known == name);
    let (name, version, base64) =
        if offered.is_empty() { find("") } else { offered.iter().find_map(|name| find(name)) }?;
    Some((name, Subprotocol { version, base64 }))
}

/// The server's end of a WebSocket on an upgraded connection.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(io: S) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_MESSAGE))
        .max_frame_size(Some(LARGEST_MESSAGE));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// The normal close frame; clients take any other end for a failure.
pub(super) fn close_frame() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

/// Serves a session over WebSocket.
pub(super) async fn serve(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    dialect: Subprotocol,
    session: Session,
    sessions: Arc<dyn StreamingRuntime>,
) {
    let (sink, messages) = accept(io).await.split();
    let (wants, outbox) = (session.wants(), Outbox::default());
    let output = |channel| Output { channel, base64: dialect.base64, outbox: outbox.clone() };
    let boxed = |wanted: bool, channel| wanted.then(|| Box::new(output(channel)) as _);
    let (stdin, into_stdin) = duplex(BUFFER);
    let (sizes, resize) = mpsc::channel(SIZES);
    let ends = SessionIo {
        stdin: wants.stdin.then(|| Box::new(stdin) as _),
        stdout: boxed(wants.stdout, STDOUT),
        stderr: boxed(wants.stderr, STDERR),
        resize: wants.tty.then_some(resize),
    };
    // An empty message on the first output channel tells the client that the session has begun.
    let first = if wants.stdout {
        STDOUT
    } else if wants.stderr {
        STDERR
    } else {
        ERROR
    };
    let _ = outbox.push(output(first).message(&[])); // cannot fail: the outbox is new

    let work = async {
        let end = session.run(&*sessions, ends, dialect.version).await;
        let _ = outbox.push(output(ERROR).message(&end)); // fails if the client is gone
        let _ = outbox.push(close_frame());
        outbox.finish();
    };
    let reading = read(messages, dialect, wants.stdin.then_some(into_stdin), sizes);
    tokio::pin!(reading);
    tokio::select! {
        _ = async { tokio::join!(work, write(sink, &outbox)) } => {
            let _ = timeout(CLOSE_TIMEOUT, reading).await; // waits for the client to close
        }
        () = &mut reading => {}
    }
}

/// Distributes incoming messages; returns when the client has disconnected.
async fn read(
    mut messages: impl Stream<Item = tungstenite::Result<Message>> + Unpin,
    dialect: Subprotocol,
    mut stdin: Option<DuplexStream>,
    sizes: mpsc::Sender<TerminalSize>,
) {
    while let Some(Ok(message)) = messages.next().await {
        let bytes = match message {
            Message::Binary(_) | Message::Text(_) => message.into_data(),
            Message::Ping(_) | Message::Pong(_) => continue,
            _ => return,
        };
        let bytes = if dialect.base64 { decode(&bytes) } else { Some(bytes) };
        let Some(bytes) = bytes else { return };
        match bytes.split_first() {
            Some((&STDIN, data)) => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(data).await.is_err()
                {
                    stdin = None; // the session no longer reads stdin
                }
            }
            Some((&RESIZE, data)) => {
                if let Ok(size) = serde_json::from_slice(data) {
                    let _ = sizes.try_send(size); // dropped if the queue is full; a later size follows
                }
            }
            Some((&CLOSE, &[STDIN])) if dialect.version >= Version::V5 => stdin = None,
            _ => {}
        }
    }
}

/// Sends the messages of the outbox.
pub(super) async fn write(mut sink: impl Sink<Message> + Unpin, outbox: &Outbox<Message>) {
    while let Some(message) = outbox.pop().await {
        let mut sent = sink.feed(message).await;
        while sent.is_ok()
            && let Some(message) = outbox.try_pop()
        {
            sent = sink.feed(message).await;
        }
        if sent.is_err() || sink.flush().await.is_err() {
            return outbox.fail();
        }
    }
}

/// Decodes a base64 message: `0aGk=` is channel 0 with "hi".
pub(super) fn decode(text: &[u8]) -> Option<Bytes> {
    let (channel, data) = text.split_first()?;
    let mut bytes = vec![channel.checked_sub(b'0')?];
    BASE64_STANDARD.decode_vec(data, &mut bytes).ok()?;
    Some(bytes.into())
}

/// Writes a stream as messages of one channel.
pub(super) struct Output {
    pub(super) channel: u8,
    pub(super) base64: bool,
    pub(super) outbox: Outbox<Message>,
}

impl Output {
    pub(super) fn message(&self, data: &[u8]) -> Message {
        if self.base64 {
            let channel = char::from(b'0' + self.channel);
            Message::text(format!("{channel}{}", BASE64_STANDARD.encode(data)))
        } else {
            Message::binary([&[self.channel], data].concat())
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(LARGEST_WRITE)];
        ready!(self.outbox.poll_push(cx, bytes.len(), || self.message(bytes)))?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
