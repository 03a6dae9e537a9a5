//! Exec and attach through the streaming server.

use container::cri::{AttachRequest, ExecRequest};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::support::{Runtime, shell, wait_for};

pub(crate) struct Session(WebSocketStream<TcpStream>);

impl Session {
    pub(crate) async fn open(url: &str) -> Self {
        let url = url.replacen("http://", "ws://", 1);
        let mut request = url.as_str().into_client_request().expect("a request");
        let protocol = "v5.channel.k8s.io".parse().expect("a header");
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        let address =
            url.trim_start_matches("ws://").split('/').next().expect("an address").to_owned();
        let socket = TcpStream::connect(address).await.expect("connect");
        Self(client_async(request, socket).await.expect("upgrade").0)
    }

    pub(crate) async fn send(&mut self, channel: u8, bytes: &[u8]) {
        let message = [&[channel], bytes].concat();
        self.0.send(Message::Binary(message.into())).await.expect("sent");
    }

    /// Everything on `channel` until it contains `text` or the session ends.
    pub(crate) async fn read(&mut self, channel: u8, text: &str) -> String {
        let mut seen = String::new();
        while let Some(Ok(message)) = self.0.next().await {
            let Message::Binary(bytes) = message else { continue };
            if bytes.first() == Some(&channel) {
                seen.push_str(&String::from_utf8_lossy(&bytes[1..]));
            }
            if seen.contains(text) {
                return seen;
            }
        }
        panic!("channel {channel} ended without {text:?}: {seen:?}");
    }
}

#[tokio::test]
async fn exec_with_input_output_and_status() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("a", "sleep 1000")).await;
    let request = ExecRequest {
        container_id: id.clone(),
        cmd: ["sh", "-c", "cat; exit 5"].map(str::to_owned).into(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let url = runtime.cri.runtime.exec(request).await.expect("exec").into_inner().url;
    let mut session = Session::open(&url).await;
    session.send(0, b"to and fro\n").await;
    session.read(1, "to and fro\n").await;
    session.send(255, &[0]).await; // closes stdin
    let status = session.read(3, "}").await;
    assert!(status.contains("NonZeroExitCode") && status.contains("\"5\""), "{status}");

    let request = ExecRequest {
        container_id: id,
        cmd: ["sh", "-c", "tty; read line; stty size; exit 0"].map(str::to_owned).into(),
        stdin: true,
        stdout: true,
        stderr: false,
        tty: true,
    };
    let url = runtime.cri.runtime.exec(request).await.expect("exec").into_inner().url;
    let mut session = Session::open(&url).await;
    session.send(4, br#"{"Width":91,"Height":37}"#).await;
    session.read(1, "/dev/pts/0").await;
    session.send(0, b"go\n").await;
    session.read(1, "37 91").await;
    session.read(3, "Success").await;
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn attach_to_what_runs() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let mut config = shell("a", "echo begun; while read line; do echo got $line; done; echo over");
    (config.stdin, config.stdin_once) = (true, true);
    let id = runtime.container(&sandbox, config).await;
    wait_for(&runtime.logs().join("a.log"), "begun").await;
    let request =
        AttachRequest { container_id: id, stdin: true, stdout: true, stderr: true, tty: false };
    let url = runtime.cri.runtime.attach(request).await.expect("attach").into_inner().url;
    let mut session = Session::open(&url).await;
    session.send(0, b"this\n").await;
    session.read(1, "got this").await;
    session.send(255, &[0]).await;
    session.read(1, "over").await;
    wait_for(&runtime.logs().join("a.log"), "stdout F over").await;
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_client_leaves_with_its_input() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    for tty in [false, true] {
        let name = format!("leave-{tty}");
        let mut config = shell(&name, "while read line; do echo got $line; done; echo over");
        (config.stdin, config.tty) = (true, tty);
        let id = runtime.container(&sandbox, config).await;
        let log = runtime.logs().join(format!("{name}.log"));
        for line in ["one", "two"] {
            let request = AttachRequest {
                container_id: id.clone(),
                stdin: true,
                stdout: true,
                stderr: !tty,
                tty,
            };
            let url = runtime.cri.runtime.attach(request).await.expect("attach").into_inner().url;
            let mut session = Session::open(&url).await;
            session.send(0, format!("{line}\n").as_bytes()).await;
            session.read(1, &format!("got {line}")).await;
            session.send(255, &[0]).await;
            session.read(3, "Success").await;
            wait_for(&log, &format!("got {line}")).await;
        }
        let written = std::fs::read_to_string(&log).expect("a log");
        assert!(!written.contains("over"), "the container's input has ended too: {written}");
    }
    runtime.remove(&sandbox).await;
    runtime.end().await;
}

#[tokio::test]
async fn a_container_without_input_is_followed_to_its_end() {
    let mut runtime = Runtime::start().await;
    let sandbox = runtime.sandbox("pod").await;
    let id = runtime.container(&sandbox, shell("b", "sleep 1; echo over")).await;
    let request =
        AttachRequest { container_id: id, stdin: true, stdout: true, stderr: true, tty: false };
    let url = runtime.cri.runtime.attach(request).await.expect("attach").into_inner().url;
    let mut session = Session::open(&url).await;
    session.send(0, b"for nobody\n").await;
    session.send(255, &[0]).await;
    session.read(1, "over").await;
    session.read(3, "Success").await;
    runtime.remove(&sandbox).await;
    runtime.end().await;
}
