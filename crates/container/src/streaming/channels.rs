//! Port-forward over WebSocket in the old protocol: the ports are named in the request, and each has a data channel, an
//! error channel and one connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::join_all};
use httpstream::Outbox;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, join},
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{
    PortForwardRequest, StreamingRuntime, port_forward,
    web_socket::{self, BUFFER, CLOSE_TIMEOUT, Output},
};

/// Maximum number of ports. The first byte of a message is the channel, two per port, as one digit or letter in base64
/// mode.
const MOST_PORTS: usize = 32;

/// How long the client may still send after the port has closed, because the protocol has no message for the end of a
/// channel.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Chooses the client's first supported subprotocol; the flag says whether it uses base64.
pub(super) fn choose(offered: &[String]) -> Option<(&'static str, bool)> {
    const KNOWN: [(&str, bool); 3] =
        [("v4.channel.k8s.io", false), ("v4.base64.channel.k8s.io", true), ("", false)];
    let find = |name: &str| KNOWN.into_iter().find(|(known, _)| *known == name);
    if offered.is_empty() { find("") } else { offered.iter().find_map(|name| find(name)) }
}

pub(super) fn check(ports: &[u16]) -> Result<(), &'static str> {
    match ports.len() {
        0 => Err("query parameter \"port\" is required"),
        1..=MOST_PORTS => Ok(()),
        _ => Err("too many ports"),
    }
}

/// Serves until all connections have ended, or the client disconnects.
pub(super) async fn serve(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    base64: bool,
    forward: PortForwardRequest,
    sessions: Arc<dyn StreamingRuntime>,
) {
    let (sink, messages) = web_socket::accept(io).await.split();
    let outbox = Outbox::default();
    let (mut pipes, mut forwards) = (Vec::new(), Vec::new());
    for (channel, port) in (0_u8..).step_by(2).zip(forward.ports) {
        let output = |channel| Output { channel, base64, outbox: outbox.clone() };
        let (data, error) = (output(channel), output(channel + 1));
        for end in [&data, &error] {
            let _ = outbox.push(end.message(&port.to_le_bytes())); // cannot fail: the outbox is new
        }
        let (near, far) = duplex(BUFFER);
        pipes.push(Some(far));
        let ended = Arc::new(Notify::new());
        let data = Box::new(join(near, Data { output: data, ended: ended.clone() }));
        let id = forward.sandbox_id.clone();
        let connection = port_forward::connect(&*sessions, id, port, data, error);
        forwards.push(async move {
            tokio::select! {
                () = connection => {}
                () = async { ended.notified().await; sleep(LINGER_TIMEOUT).await } => {}
            }
        });
    }
    let work = async {
        join_all(forwards).await;
        let _ = outbox.push(web_socket::close_frame()); // the client may be gone
        outbox.finish();
    };
    let reading = read(messages, base64, pipes);
    tokio::pin!(reading);
    tokio::select! {
        _ = async { tokio::join!(work, web_socket::write(sink, &outbox)) } => {
            let _ = timeout(CLOSE_TIMEOUT, reading).await; // waits for the client to close
        }
        () = &mut reading => {}
    }
}

/// Sends a port's data, and notes when it has sent everything.
struct Data {
    output: Output,
    ended: Arc<Notify>,
}

impl AsyncWrite for Data {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.output).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended.notify_one();
        Poll::Ready(Ok(()))
    }
}

/// Distributes incoming messages to the ports; returns when the client has disconnected.
async fn read(
    mut messages: impl Stream<Item = tungstenite::Result<Message>> + Unpin,
    base64: bool,
    mut pipes: Vec<Option<DuplexStream>>,
) {
    while let Some(Ok(message)) = messages.next().await {
        let bytes = match message {
            Message::Binary(_) | Message::Text(_) => message.into_data(),
            Message::Ping(_) | Message::Pong(_) => continue,
            _ => return,
        };
        let Some(bytes) = (if base64 { web_socket::decode(&bytes) } else { Some(bytes) }) else {
            return;
        };
        let Some((&channel, data)) = bytes.split_first() else { continue };
        let pipe = pipes.get_mut(usize::from(channel / 2)).filter(|_| channel.is_multiple_of(2));
        if let Some(pipe) = pipe
            && let Some(end) = pipe
            && end.write_all(data).await.is_err()
        {
            *pipe = None; // the connection has ended
        }
    }
}
