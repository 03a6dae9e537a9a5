//! A session with a process: stdin, stdout, stderr, terminal sizes and the exit status, as channels of one WebSocket.

use std::time::Duration;

use bytes::Bytes;
use client::WebSocket;
use futures_util::{Sink, SinkExt as _, StreamExt as _};
use httpstream::{
    channel::{CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT},
    spdy::Connection,
};
use object::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, interval_at, timeout},
};
use tokio_tungstenite::tungstenite::{
    Error, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::spdy;
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    stdio,
};

const PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// The protocol that can close stdin alone.
const CLOSES_STDIN: &str = "v5.channel.k8s.io";

const CHUNK: usize = 32 << 10;
/// Interval of pings, and how long the server may be silent, as in client-go.
const PING: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(61);
/// How long a server that has sent the exit status may take to close the connection.
const GOODBYE: Duration = Duration::from_secs(2);

/// The transport of a session.
#[derive(Debug)]
pub(crate) enum Socket {
    WebSocket(Box<WebSocket>),
    Spdy(Connection),
}

/// Opens a session at the path of an `exec` or `attach`: over a WebSocket, or over SPDY if the server rejects that or
/// the user has disabled WebSockets.
pub(crate) async fn open(call: &Invocation<'_>, path: &str) -> Result<Socket> {
    let server = call.server()?;
    let refused = if call.environment.websockets {
        match server.websocket(path, PROTOCOLS).await {
            Ok(socket) => return Ok(Socket::WebSocket(Box::new(socket))),
            Err(fail @ CommandError::Raw(_)) => return Err(fail), // no connection
            Err(fail) => Some(fail),
        }
    } else {
        None
    };
    let opened = server.spdy(path, spdy::PROTOCOL).await;
    opened.map(Socket::Spdy).map_err(|fail| match refused.unwrap_or(fail) {
        CommandError::Server { status, .. } => {
            CommandError::error(format!("unable to upgrade connection: {}", status.message()))
        }
        other => other,
    })
}

/// Whether the size of our terminal is sent to the process.
#[derive(Debug)]
pub(crate) enum Sizes {
    /// The process has no terminal.
    None,
    /// Sends the current size, and each change.
    Follow,
    /// Like `Follow`, but first sends another size, so that a process that has run for a while redraws.
    Redraw,
}

/// Forwards our streams to a process and back until it exits; a non-zero exit code is an error.
pub(crate) async fn exchange(
    socket: Socket,
    input: Option<impl AsyncRead + Unpin>,
    out: impl AsyncWrite + Unpin,
    err: impl AsyncWrite + Unpin,
    sizes: Sizes,
) -> Result {
    let socket = match socket {
        Socket::WebSocket(socket) => *socket,
        Socket::Spdy(connection) => {
            return exit_code(&spdy::exchange(connection, input, out, err, sizes).await?);
        }
    };
    let closes_stdin = socket.protocol == CLOSES_STDIN;
    let (to, mut from) = socket.stream.split();
    // Both at once: a process whose output is not read may stop reading its input.
    let result = tokio::select! {
        result = receive(&mut from, out, err) => result?,
        failed = send(to, input, closes_stdin, sizes) => return Err(failed),
    };
    exit_code(&result)
}

/// Sends input, sizes and pings. Returns only if signals cannot be received: when the connection breaks, the
/// receiving side reports the reason.
async fn send(
    mut to: impl Sink<Message, Error = Error> + Unpin,
    mut input: Option<impl AsyncRead + Unpin>,
    closes_stdin: bool,
    sizes: Sizes,
) -> CommandError {
    let mut changed = match watch_size(&sizes) {
        Ok(changed) => changed,
        Err(error) => return CommandError::error(error.to_string()),
    };
    let mut first = first_sizes(&sizes, stdio::size());
    let mut ping = interval_at(Instant::now() + PING, PING);
    let mut buffer = vec![0; CHUNK];
    loop {
        let message = if let Some(size) = first.pop() {
            resize(size)
        } else {
            tokio::select! {
                length = read(&mut input, &mut buffer) => if let Some(length) = length {
                    frame(STDIN, &buffer[..length])
                } else {
                    input = None;
                    if !closes_stdin {
                        continue;
                    }
                    frame(CLOSE, &[STDIN])
                },
                () = next(&mut changed) => match stdio::size() {
                    Some(size) => resize(size),
                    None => continue,
                },
                _ = ping.tick() => Message::Ping(Bytes::new()),
            }
        };
        if to.send(message).await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Subscribes to SIGWINCH, if sizes are sent.
pub(super) fn watch_size(sizes: &Sizes) -> std::io::Result<Option<Signal>> {
    match sizes {
        Sizes::None => Ok(None),
        Sizes::Follow | Sizes::Redraw => signal(SignalKind::window_change()).map(Some),
    }
}

/// The sizes to send at the start, the last one first.
pub(super) fn first_sizes(sizes: &Sizes, size: Option<(u16, u16)>) -> Vec<(u16, u16)> {
    match (sizes, size) {
        (Sizes::None, _) | (_, None) => Vec::new(),
        (Sizes::Follow, Some(size)) => vec![size],
        (Sizes::Redraw, Some(size)) => {
            vec![size, (size.0.saturating_add(1), size.1.saturating_add(1))]
        }
    }
}

/// Waits for the next signal; for ever if there is none.
pub(super) async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Number of bytes read; `None` at the end.
async fn read(input: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> Option<usize> {
    match input {
        Some(input) => input.read(buffer).await.ok().filter(|length| *length > 0),
        None => std::future::pending().await,
    }
}

/// Receives output until the connection ends; returns the exit status of the process, if it was sent.
async fn receive(
    from: &mut (impl futures_util::Stream<Item = std::result::Result<Message, Error>> + Unpin),
    mut out: impl AsyncWrite + Unpin,
    mut err: impl AsyncWrite + Unpin,
) -> Result<Value> {
    let mut result = Value::Null;
    loop {
        let patience = if result.is_null() { SILENCE } else { GOODBYE };
        let message = match timeout(patience, from.next()).await {
            Ok(message) => message,
            Err(_) if !result.is_null() => return Ok(result),
            Err(_) => return Err(lost("i/o timeout")),
        };
        match message {
            Some(Ok(Message::Binary(bytes))) if !bytes.is_empty() => match bytes[0] {
                STDOUT => write(&mut out, &bytes[1..]).await,
                STDERR => write(&mut err, &bytes[1..]).await,
                ERROR => result = object::from_json(&bytes[1..]).unwrap_or_default(),
                _ => {}
            },
            Some(Ok(Message::Close(frame))) => return closed(result, frame.as_ref()),
            Some(Ok(_)) => {}
            None | Some(Err(_)) if !result.is_null() => return Ok(result),
            None | Some(Err(Error::Protocol(_) | Error::ConnectionClosed)) => {
                return Err(lost("websocket: close 1006 (abnormal closure): unexpected EOF"));
            }
            Some(Err(error)) => return Err(lost(&error.to_string())),
        }
    }
}

/// Writes output. Output to a closed pipe is dropped, and the process keeps running.
async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    if to.write_all(bytes).await.is_ok() {
        let _ = to.flush().await;
    }
}

/// The result of a connection that the server closed: the process has exited, or the connection broke.
fn closed(result: Value, frame: Option<&CloseFrame>) -> Result<Value> {
    match frame {
        _ if !result.is_null() => Ok(result),
        Some(CloseFrame { code: CloseCode::Normal, .. }) => Ok(result),
        None => Err(lost("websocket: close 1005 (no status)")),
        Some(CloseFrame { code, reason }) => {
            let name = match code {
                CloseCode::Away => " (going away)",
                CloseCode::Protocol => " (protocol error)",
                CloseCode::Unsupported => " (unsupported data)",
                CloseCode::Policy => " (policy violation)",
                CloseCode::Error => " (internal server error)",
                CloseCode::Restart => " (service restart)",
                CloseCode::Again => " (try again later)",
                _ => "",
            };
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Err(lost(&format!("websocket: close {}{name}{reason}", u16::from(*code))))
        }
    }
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut all = Vec::with_capacity(bytes.len() + 1);
    all.push(channel);
    all.extend_from_slice(bytes);
    Message::Binary(Bytes::from(all))
}

fn resize(size: (u16, u16)) -> Message {
    frame(RESIZE, size_text(size).as_bytes())
}

pub(super) fn size_text((columns, rows): (u16, u16)) -> String {
    format!("{{\"Width\":{columns},\"Height\":{rows}}}\n")
}

pub(super) fn lost(why: &str) -> CommandError {
    CommandError::error(format!("error reading from error stream: next reader: {why}"))
}

fn exit_code(result: &Value) -> Result {
    if result["status"].as_str() != Some("Failure") {
        return Ok(());
    }
    let causes = result["details"]["causes"].items();
    let code = causes.iter().find(|cause| cause["reason"].as_str() == Some("ExitCode"));
    if let Some(code) =
        code.and_then(|cause| cause["message"].as_str()).and_then(|text| text.parse::<i64>().ok())
    {
        return Err(CommandError::Aggregate(vec![
            CommandError::Raw(format!("command terminated with exit code {code}")),
            CommandError::Code(u8::try_from(code & 0xff).unwrap_or(1)),
        ]));
    }
    Err(CommandError::error(result["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(messages: Vec<std::result::Result<Message, Error>>) -> (Result<Value>, Vec<u8>) {
        let mut out = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stream = futures_util::stream::iter(messages);
        let result = runtime.block_on(receive(&mut stream, &mut out, tokio::io::sink()));
        (result, out)
    }

    fn close(code: u16) -> Message {
        Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))
    }

    #[test]
    fn a_result_counts_however_the_connection_ends() {
        let failure =
            br#"{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        for end in [Ok(close(1000)), Ok(close(1006)), Err(Error::ConnectionClosed)] {
            let messages = vec![Ok(frame(STDOUT, b"x")), Ok(frame(ERROR, failure)), end];
            let (result, out) = received(messages);
            let (text, code) = exit_code(&result.unwrap()).unwrap_err().report();
            assert_eq!((&*text, code), ("command terminated with exit code 3\n", 3));
            assert_eq!(out, b"x");
        }
    }

    #[test]
    fn a_broken_connection_is_a_failure() {
        assert!(received(vec![Ok(close(1000))]).0.unwrap().is_null());
        let words = |messages| received(messages).0.unwrap_err().message();
        let broken = "error reading from error stream: next reader: websocket: close 1006 (abnormal closure): unexpected EOF";
        assert_eq!(words(vec![]), broken);
        assert_eq!(words(vec![Err(Error::ConnectionClosed)]), broken);
        assert!(words(vec![Ok(close(1001))]).ends_with("websocket: close 1001 (going away)"));
    }

    #[test]
    fn a_new_session_redraws() {
        let sizes = first_sizes(&Sizes::Redraw, Some((80, u16::MAX)));
        assert_eq!(sizes, [(80, u16::MAX), (81, u16::MAX)]);
        assert_eq!(first_sizes(&Sizes::None, Some((80, 24))), []);
    }
}
