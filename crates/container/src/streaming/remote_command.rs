//! Exec and attach: streams, execution and result of a session. Over SPDY here, over WebSocket in `web_socket.rs`.

use std::{io, sync::Arc, time::Duration};

use httpstream::spdy::{Connection, Stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::timeout,
};

use super::{
    AttachRequest, Error, ExecRequest, ExitStatus, PortForwardRequest, SessionIo, StreamingRuntime,
    TerminalSize, tokens,
};

const STREAM_TIMEOUT: Duration = Duration::from_secs(30);
const SIZES: usize = 16;
const LARGEST_SIZE: usize = 4096;

/// Protocol version. Each one adds to the one before: 3 resizes terminals, 4 sends the result as a Status, 5 closes
/// stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V1,
    V2,
    V3,
    V4,
    V5,
}

/// An exec or attach session.
#[derive(Clone, Debug)]
pub(super) enum Session {
    Exec(ExecRequest),
    Attach(AttachRequest),
}

/// The streams that a session has.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "as in the CRI")]
pub(super) struct RequestedStreams {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// Chooses the client's first supported protocol. A client that offers none uses the oldest one.
pub(super) fn choose_spdy(offered: &[String]) -> Option<(&'static str, Version)> {
    const KNOWN: [(&str, Version); 5] = [
        ("v5.channel.k8s.io", Version::V5),
        ("v4.channel.k8s.io", Version::V4),
        ("v3.channel.k8s.io", Version::V3),
        ("v2.channel.k8s.io", Version::V2),
        ("channel.k8s.io", Version::V1),
    ];
    if offered.is_empty() {
        return Some(("", Version::V1));
    }
    offered.iter().find_map(|name| KNOWN.into_iter().find(|(known, _)| known == name))
}

/// Serves a session over SPDY.
pub(super) async fn serve(
    io: impl AsyncRead + AsyncWrite + Send + 'static,
    version: Version,
    session: Session,
    sessions: Arc<dyn StreamingRuntime>,
) {
    let mut connection = Connection::server(io);
    match timeout(STREAM_TIMEOUT, Streams::collect(&mut connection, session.wants(), version)).await
    {
        Ok(Ok(streams)) => streams.run(&connection, version, session, &*sessions).await,
        Ok(Err(error)) => tracing::debug!(%error, "streaming session refused"),
        Err(_) => tracing::debug!("timed out waiting for client to create streams"),
    }
    connection.close().await;
}

impl Session {
    /// Converts a request; a port-forward is returned as the error.
    pub(super) fn from(request: tokens::SessionRequest) -> Result<Self, PortForwardRequest> {
        match request {
            tokens::SessionRequest::Exec(request) => Ok(Self::Exec(request)),
            tokens::SessionRequest::Attach(request) => Ok(Self::Attach(request)),
            tokens::SessionRequest::PortForward(request) => Err(request),
        }
    }

    pub(super) fn wants(&self) -> RequestedStreams {
        match self {
            Self::Exec(ExecRequest { stdin, stdout, stderr, tty, .. })
            | Self::Attach(AttachRequest { stdin, stdout, stderr, tty, .. }) => {
                RequestedStreams { stdin: *stdin, stdout: *stdout, stderr: *stderr, tty: *tty }
            }
        }
    }

    /// Runs the session; returns its result in the format of `version`, which may be empty.
    pub(super) async fn run(
        self,
        sessions: &dyn StreamingRuntime,
        io: SessionIo,
        version: Version,
    ) -> Vec<u8> {
        let end = match self {
            Self::Exec(request) => sessions.exec(request, io).await,
            Self::Attach(request) => sessions.attach(request, io).await.map(|()| ExitStatus(0)),
        };
        let status = status(end);
        match status["status"].as_str() {
            _ if version >= Version::V4 => status.to_string().into_bytes(),
            Some("Success") => Vec::new(),
            _ => status["message"].as_str().unwrap_or_default().as_bytes().to_vec(),
        }
    }
}

/// The SPDY streams of a session, opened by the client.
#[derive(Default)]
struct Streams {
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
    error: Option<Stream>,
}

impl Streams {
    /// Waits until the client has opened all streams.
    async fn collect(
        connection: &mut Connection,
        wants: RequestedStreams,
        version: Version,
    ) -> io::Result<Self> {
        let mut streams = Self::default();
        let resize = wants.tty && version >= Version::V3;
        let expected = 1 + [wants.stdin, wants.stdout, wants.stderr, resize]
            .into_iter()
            .filter(|want| *want)
            .count();
        for _ in 0..expected {
            let stream = connection.accept().await.ok_or(io::ErrorKind::UnexpectedEof)?;
            let kind = stream.headers().get("streamtype").unwrap_or_default().to_owned();
            let place = match kind.as_str() {
                "stdin" if wants.stdin => &mut streams.stdin,
                "stdout" if wants.stdout => &mut streams.stdout,
                "stderr" if wants.stderr => &mut streams.stderr,
                "resize" if resize => &mut streams.resize,
                "error" => &mut streams.error,
                _ => return Err(io::Error::other(format!("unexpected stream {kind:?}"))),
            };
            if place.replace(stream).is_some() {
                return Err(io::Error::other(format!("two streams {kind:?}")));
            }
        }
        Ok(streams)
    }

    async fn run(
        self,
        connection: &Connection,
        version: Version,
        session: Session,
        sessions: &dyn StreamingRuntime,
    ) {
        let (sizes, resize) = mpsc::channel(SIZES);
        let io = SessionIo {
            stdin: self.stdin.map(|stream| Box::new(stream) as _),
            stdout: self.stdout.map(|stream| Box::new(stream) as _),
            stderr: self.stderr.map(|stream| Box::new(stream) as _),
            resize: self.resize.is_some().then_some(resize),
        };
        let read_sizes = async {
            if let Some(stream) = self.resize {
                read_sizes(stream, sizes).await;
            }
            std::future::pending::<()>().await;
        };
        let gone = connection.gone();
        let end = tokio::select! {
            end = session.run(sessions, io, version) => end,
            () = gone.cancelled() => return,
            () = read_sizes => return,
        };
        if let Some(mut error) = self.error {
            let _ = error.write_all(&end).await; // fails if the client is gone
        }
    }
}

/// Reads terminal sizes, one JSON value after another.
async fn read_sizes(mut from: impl AsyncRead + Unpin, sizes: mpsc::Sender<TerminalSize>) {
    let mut buffer = Vec::new();
    while buffer.len() < LARGEST_SIZE
        && from.read_buf(&mut buffer).await.is_ok_and(|count| count > 0)
    {
        let mut values = serde_json::Deserializer::from_slice(&buffer).into_iter::<TerminalSize>();
        for size in values.by_ref().map_while(Result::ok) {
            let _ = sizes.try_send(size); // dropped if the queue is full; a later size follows
        }
        let read = values.byte_offset();
        buffer.drain(..read);
    }
}

/// The result of a session as a Status object, for the error stream.
fn status(end: Result<ExitStatus, Error>) -> Value {
    match end {
        Ok(ExitStatus(0)) => json!({"metadata": {}, "status": "Success"}),
        Ok(ExitStatus(code)) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => {
            let message = format!("error executing command in container: {error}");
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: {message}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": message}]},
                "code": 500,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sizes_in_pieces() {
        let (mut near, far) = tokio::io::duplex(64);
        let (sender, mut sizes) = mpsc::channel(SIZES);
        let write = async move {
            for piece in [r#"{"Width":80,"#, "\"Height\":24}\n{\"Wid", "th\":1,\"Height\":2}"] {
                near.write_all(piece.as_bytes()).await.expect("open");
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(write, read_sizes(far, sender));
        let got = [sizes.recv().await, sizes.recv().await, sizes.recv().await];
        assert_eq!(
            got,
            [
                Some(TerminalSize { width: 80, height: 24 }),
                Some(TerminalSize { width: 1, height: 2 }),
                None
            ]
        );
    }

    #[test]
    fn the_first_common_protocol() {
        let offer = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            choose_spdy(&names)
        };
        assert_eq!(
            offer(&["v9.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"]),
            Some(("v4.channel.k8s.io", Version::V4))
        );
        assert_eq!(offer(&[]), Some(("", Version::V1)));
        assert_eq!(offer(&["chat"]), None);
    }
}
