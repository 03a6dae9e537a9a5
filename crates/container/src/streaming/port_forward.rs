//! Port-forward: a pair of streams, data and error, for every connection that the client opens. Over SPDY, or over SPDY
//! inside WebSocket messages, which newer clients use to pass proxies.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{Sink, SinkExt, Stream as Messages, StreamExt};
use httpstream::spdy::{Connection, Stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, duplex},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{
    Duplex, StreamingRuntime,
    web_socket::{self, BUFFER, CLOSE_TIMEOUT},
};

const PROTOCOL: &str = "portforward.k8s.io";
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const MAX_UNPAIRED: usize = 256;
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn choose_spdy(offered: &[String]) -> Option<&'static str> {
    if offered.is_empty() {
        Some("")
    } else {
        offered.iter().any(|name| name == PROTOCOL).then_some(PROTOCOL)
    }
}

pub(super) fn choose_tunnel(offered: &[String]) -> Option<&'static str> {
    offered.iter().any(|name| name == TUNNEL).then_some(TUNNEL)
}

/// Serves until the client disconnects.
pub(super) async fn serve(
    mut connection: Connection,
    sandbox_id: String,
    sessions: Arc<dyn StreamingRuntime>,
) {
    let mut halves: HashMap<String, PortStream> = HashMap::new();
    let mut pairs = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = connection.accept() => stream,
            Some(_) = pairs.join_next() => continue,
        };
        let Some(stream) = stream else { break };
        halves.retain(|_, half| half.since.elapsed() < PAIR_TIMEOUT);
        let Some(half) = PortStream::of(stream) else { continue }; // dropping it closes the stream
        match halves.remove(&half.request) {
            Some(other) if other.is_error != half.is_error && other.port == half.port => {
                let (data, error) = if half.is_error { (other, half) } else { (half, other) };
                pairs.spawn(forward(sandbox_id.clone(), data, error.stream, sessions.clone()));
            }
            _ if halves.len() < MAX_UNPAIRED => drop(halves.insert(half.request.clone(), half)),
            _ => tracing::debug!("too many half-open port-forwards"),
        }
    }
    pairs.abort_all();
    connection.close().await;
}

/// Serves SPDY inside WebSocket messages.
pub(super) async fn serve_tunnel(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    sandbox_id: String,
    sessions: Arc<dyn StreamingRuntime>,
) {
    let (sink, messages) = web_socket::accept(io).await.split();
    let (near, far) = duplex(BUFFER);
    let (from, to) = tokio::io::split(far);
    let reading = unwrap(messages, to);
    tokio::pin!(reading);
    tokio::select! {
        _ = async { tokio::join!(serve(Connection::server(near), sandbox_id, sessions), wrap(from, sink)) } => {
            let _ = timeout(CLOSE_TIMEOUT, reading).await; // waits for the client to close
        }
        () = &mut reading => {}
    }
}

/// One of the two streams of a forwarded connection.
struct PortStream {
    stream: Stream,
    request: String,
    port: u16,
    is_error: bool,
    since: Instant,
}

impl PortStream {
    fn of(stream: Stream) -> Option<Self> {
        let header = |name| stream.headers().get(name);
        let port = header("port")?.parse().ok().filter(|port| *port > 0)?;
        let is_error = match header("streamtype")? {
            "error" => true,
            "data" => false,
            _ => return None,
        };
        // The oldest clients send no request id; they open the error stream first, then the data stream with the next
        // id.
        let first = if is_error { stream.id() } else { stream.id().saturating_sub(2) };
        let request =
            header("requestid").map_or_else(|| format!("stream {first}"), ToOwned::to_owned);
        Some(Self { request, port, is_error, stream, since: Instant::now() })
    }
}

async fn forward(
    sandbox_id: String,
    data: PortStream,
    error: Stream,
    sessions: Arc<dyn StreamingRuntime>,
) {
    connect(&*sessions, sandbox_id, data.port, Box::new(data.stream), error).await;
}

/// Connects `data` with the port; errors are written to `error`.
pub(super) async fn connect(
    sessions: &dyn StreamingRuntime,
    sandbox_id: String,
    port: u16,
    data: Box<dyn Duplex>,
    mut error: impl AsyncWrite + Unpin,
) {
    if let Err(reason) = sessions.port_forward(sandbox_id.clone(), port, data).await {
        let text = format!("error forwarding port {port} to pod {sandbox_id}: {reason}");
        let _ = error.write_all(text.as_bytes()).await; // fails if the client is gone
    }
}

/// Extracts the bytes of WebSocket messages.
async fn unwrap(
    mut messages: impl Messages<Item = tungstenite::Result<Message>> + Unpin,
    mut to: WriteHalf<impl AsyncWrite>,
) {
    while let Some(Ok(message)) = messages.next().await {
        match message {
            Message::Binary(bytes) if to.write_all(&bytes).await.is_ok() => {}
            Message::Ping(_) | Message::Pong(_) => {}
            _ => return,
        }
    }
}

/// Sends bytes as WebSocket messages.
async fn wrap(mut from: ReadHalf<impl AsyncRead>, mut sink: impl Sink<Message> + Unpin) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if sink.send(Message::binary(buffer[..count].to_vec())).await.is_err() {
            return;
        }
    }
    let _ = sink.send(web_socket::close_frame()).await; // the client may have closed first
}
