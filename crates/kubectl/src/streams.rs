//! Streams with containers: finding the pod and container that are meant, and the
//! protocol that carries several streams over one WebSocket.

use std::time::{Duration, Instant};

use bytes::Bytes;
use client::WebSocket;
use futures_util::{SinkExt as _, StreamExt as _};
use object::{Value, selector::Selector};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    signal::unix::{SignalKind, signal},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    call::Call,
    fail::{Fail, Result},
    resources::escape,
    select::{How, Info},
};

pub(crate) const PROTOCOLS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The pod that a word means: its own name, or one of those that an object selects.
pub(crate) fn pod_of(call: &Call<'_>, word: &str) -> Result<Value> {
    let words = if word.contains('/') {
        vec![word.to_owned()]
    } else {
        vec!["pods".to_owned(), word.to_owned()]
    };
    let (infos, fails) = call.select(&words, How { fetch: true, ..How::default() })?;
    Fail::collect(fails)?;
    let Some(info) = infos.into_iter().next() else { return Err(Fail::error("no pod is meant")) };
    if info.resource.kind == "Pod" && info.resource.group.is_empty() {
        return Ok(info.object);
    }
    let selector = selector_of(&info)?;
    let path =
        format!("/api/v1/namespaces/{}/pods?labelSelector={}", info.namespace, escape(&selector));
    let until = Instant::now()
        + Duration::from_nanos(call.flags.duration("pod-running-timeout").unsigned_abs());
    loop {
        let list = call.server()?.get(&path)?;
        let mut pods = list["items"].items().to_vec();
        pods.sort_by_key(rank);
        if let Some(pod) = pods.into_iter().next() {
            return Ok(pod);
        }
        if Instant::now() >= until {
            return Err(Fail::error("timed out waiting for the condition"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Every pod that an object selects.
pub(crate) fn pods_of(call: &Call<'_>, word: &str) -> Result<Vec<Value>> {
    let (infos, fails) = call.select(&[word.to_owned()], How { fetch: true, ..How::default() })?;
    Fail::collect(fails)?;
    let Some(info) = infos.into_iter().next() else { return Ok(Vec::new()) };
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}",
        info.namespace,
        escape(&selector_of(&info)?)
    );
    Ok(call.server()?.get(&path)?["items"].items().to_vec())
}

/// Those that run come first, and of them the one that has been ready longest.
fn rank(pod: &Value) -> (bool, bool, bool, String) {
    let ready =
        pod["status"]["conditions"].items().iter().find(|c| c["type"].as_str() == Some("Ready"));
    let is_ready = ready.is_some_and(|c| c["status"].as_str() == Some("True"));
    let since = ready.and_then(|c| c["lastTransitionTime"].as_str()).unwrap_or_default();
    let assigned = pod["spec"]["nodeName"].as_str().is_some();
    (!assigned, pod["status"]["phase"].as_str() != Some("Running"), !is_ready, since.to_owned())
}

fn selector_of(info: &Info) -> Result<String> {
    let spec = &info.object["spec"]["selector"];
    let labels = || {
        Selector::labels(
            spec.entries().map(|(name, value)| (name, value.as_str().unwrap_or_default())),
        )
    };
    match info.resource.kind.as_str() {
        "Service" if spec.is_null() => Err(Fail::error(format!(
            "cannot attach to *v1.Service: invalid service '{}': Service is defined without a selector",
            info.name
        ))),
        "Service" | "ReplicationController" => Ok(labels().to_string()),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => {
            Selector::from_tree(spec)
                .map(|selector| selector.to_string())
                .map_err(|error| Fail::error(error.to_string()))
        }
        kind => Err(Fail::error(format!(
            "cannot attach to *v1.{kind}: selector for *v1.{kind} not implemented"
        ))),
    }
}

/// The container that is meant; the first, or the one an annotation names, if none is given.
pub(crate) fn container_of(
    call: &Call<'_>,
    pod: &Value,
    named: &str,
    quiet: bool,
) -> Result<String> {
    let names = |list: &str, mark: &str| -> Vec<(String, String)> {
        let name = |c: &Value| c["name"].as_str().unwrap_or_default().to_owned();
        pod["spec"][list].items().iter().map(|c| (name(c), format!("{}{mark}", name(c)))).collect()
    };
    let mut all = names("containers", "");
    all.extend(names("initContainers", " (init)"));
    all.extend(names("ephemeralContainers", " (ephem)"));
    let shown: Vec<&str> = all.iter().map(|(_, shown)| shown.as_str()).collect();
    let shown = shown.join(", ");
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if !named.is_empty() {
        return match all.iter().find(|(name, _)| name == named) {
            Some((name, _)) => Ok(name.clone()),
            None => Err(Fail::error(format!(
                "container {named} is not valid for pod {pod_name} out of: {shown}"
            ))),
        };
    }
    let annotated =
        pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    if let Some(name) = annotated.filter(|name| all.iter().any(|(other, _)| other == name)) {
        return Ok(name.to_owned());
    }
    let first = all.first().map(|(name, _)| name.clone()).unwrap_or_default();
    if all.len() > 1 && !quiet {
        call.say(&format!("Defaulted container {} out of: {shown}", object::quote::quote(&first)));
    }
    Ok(first)
}

/// Channels of the protocol.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Carries our streams to a process and back, until it ends; what it ended with.
pub(crate) async fn carry(socket: WebSocket, stdin: bool, tty: bool) -> Result {
    let input = stdin.then(tokio::io::stdin);
    exchange(socket, input, tokio::io::stdout(), tokio::io::stderr(), tty).await
}

/// The same with any streams.
pub(crate) async fn exchange(
    socket: WebSocket,
    input: Option<impl AsyncRead + Unpin>,
    mut out: impl AsyncWrite + Unpin,
    mut err: impl AsyncWrite + Unpin,
    tty: bool,
) -> Result {
    let can_close = socket.protocol == "v5.channel.k8s.io";
    let (mut to, mut from) = socket.stream.split();
    let mut resized =
        signal(SignalKind::window_change()).map_err(|error| Fail::error(error.to_string()))?;
    let mut buffer = vec![0; 32 << 10];
    let (mut input, mut status) = (input, Value::Null);
    if tty && let Some(size) = terminal_size() {
        to.send(frame(RESIZE, size.as_bytes())).await.map_err(lost)?;
    }
    loop {
        tokio::select! {
            read = async { match &mut input {
                Some(input) => input.read(&mut buffer).await,
                None => std::future::pending().await,
            } } => match read {
                Ok(0) | Err(_) => {
                    input = None;
                    if can_close {
                        to.send(frame(CLOSE, &[STDIN])).await.map_err(lost)?;
                    }
                }
                Ok(length) => to.send(frame(STDIN, &buffer[..length])).await.map_err(lost)?,
            },
            _ = resized.recv(), if tty => if let Some(size) = terminal_size() {
                to.send(frame(RESIZE, size.as_bytes())).await.map_err(lost)?;
            },
            message = from.next() => match message {
                Some(Ok(Message::Binary(bytes))) if !bytes.is_empty() => match bytes[0] {
                    STDOUT => { let _ = out.write_all(&bytes[1..]).await; let _ = out.flush().await; }
                    STDERR => { let _ = err.write_all(&bytes[1..]).await; let _ = err.flush().await; }
                    ERROR => status = object::from_json(&bytes[1..]).unwrap_or_default(),
                    _ => {}
                },
                Some(Ok(Message::Close(_))) | None => break,
                Some(Ok(_)) => {}
                Some(Err(_)) if !status.is_null() => break,
                Some(Err(error)) => return Err(lost(error)),
            },
        }
        if !status.is_null() && !can_close {
            break;
        }
    }
    ended(&status)
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut all = Vec::with_capacity(bytes.len() + 1);
    all.push(channel);
    all.extend_from_slice(bytes);
    Message::Binary(Bytes::from(all))
}

fn lost(error: impl std::fmt::Display) -> Fail {
    Fail::error(format!("error reading from error stream: {error}"))
}

fn ended(status: &Value) -> Result {
    if status["status"].as_str() != Some("Failure") {
        return Ok(());
    }
    let causes = status["details"]["causes"].items();
    let code = causes.iter().find(|cause| cause["reason"].as_str() == Some("ExitCode"));
    if let Some(code) =
        code.and_then(|cause| cause["message"].as_str()).and_then(|text| text.parse::<i64>().ok())
    {
        return Err(Fail::Many(vec![
            Fail::Plain(format!("command terminated with exit code {code}")),
            Fail::Code(u8::try_from(code & 0xff).unwrap_or(1)),
        ]));
    }
    Err(Fail::error(status["message"].as_str().unwrap_or_default()))
}

fn terminal_size() -> Option<String> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(format!("{{\"Width\":{},\"Height\":{}}}", size.ws_col, size.ws_row))
}

/// The terminal without echo and line editing, until it is dropped.
pub(crate) struct RawTerminal {
    before: rustix::termios::Termios,
}

impl RawTerminal {
    /// `None` if stdin is no terminal.
    pub(crate) fn new() -> Option<Self> {
        let before = rustix::termios::tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, &raw)
            .ok()?;
        Some(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(
            std::io::stdin(),
            rustix::termios::OptionalActions::Now,
            &self.before,
        );
    }
}
