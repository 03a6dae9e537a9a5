//! Exec over WebSocket.

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, frame::coding::CloseCode},
    },
};

use super::*;

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

pub(super) async fn connect(url: &str, protocol: &str) -> (Socket, JoinSet<()>) {
    let headers = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", protocol),
    ];
    let (answer, io, tasks) = upgrade(url, &headers).await;
    assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(answer.headers()["sec-websocket-protocol"], protocol);
    (WebSocketStream::from_raw_socket(io.expect("granted"), Role::Client, None).await, tasks)
}

/// Everything until the server closes, by channel.
async fn collect(
    mut socket: impl futures_util::Stream<Item = tokio_tungstenite::tungstenite::Result<Message>>
    + Unpin,
) -> [Vec<u8>; 5] {
    let mut channels: [Vec<u8>; 5] = Default::default();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) => {
                channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
            }
            Message::Close(frame) => assert_eq!(frame.expect("a reason").code, CloseCode::Normal),
            _ => {}
        }
    }
    channels
}

#[tokio::test]
async fn version_5_closes_stdin_and_loses_nothing() {
    let server = server().await;
    let url = server.url_for_exec(ExecRequest { stderr: true, ..exec("cat") }).expect("an address");
    let (socket, _tasks) = connect(&url, "v5.channel.k8s.io").await;
    let (mut sink, stream) = socket.split();
    let sent = pattern(20 << 20);
    let writing = async {
        for chunk in sent.chunks(32 << 10) {
            sink.send(Message::binary([&[0], chunk].concat())).await.expect("open");
        }
        sink.send(Message::binary(vec![255, 0])).await.expect("open");
    };
    let ((), [_, stdout, stderr, end, _]) =
        soon(async { tokio::join!(writing, collect(stream)) }).await;
    assert!(stdout == sent, "{} of {} bytes", stdout.len(), sent.len());
    assert_eq!(stderr, b"done");
    assert!(String::from_utf8_lossy(&end).contains("Success"));
}

#[tokio::test]
async fn exit_codes_and_sizes() {
    let server = server().await;
    let url = server.url_for_exec(exec("exit 3")).expect("an address");
    let [.., end, _] = soon(collect(connect(&url, "v4.channel.k8s.io").await.0)).await;
    assert!(String::from_utf8_lossy(&end).contains(r#""message":"3","reason":"ExitCode""#));

    let url =
        server.url_for_exec(ExecRequest { tty: true, ..exec("sizes 1") }).expect("an address");
    let (mut socket, _tasks) = connect(&url, "v5.channel.k8s.io").await;
    let first = soon(socket.next()).await.expect("a message").expect("valid");
    assert_eq!(first, Message::binary(vec![1]), "the session stands");
    socket
        .send(Message::binary([&[4][..], br#"{"Width":7,"Height":8}"#].concat()))
        .await
        .expect("open");
    assert_eq!(soon(collect(socket)).await[1], b"7x8;");
}

#[tokio::test]
async fn base64_is_text() {
    let server = server().await;
    let request = ExecRequest { tty: true, ..exec("sizes 1") };
    let url = server.url_for_exec(request).expect("an address");
    let (mut socket, _tasks) = connect(&url, "v4.base64.channel.k8s.io").await;
    socket.send(Message::text("4eyJXaWR0aCI6NywiSGVpZ2h0Ijo4fQ==")).await.expect("open");
    let mut texts = Vec::new();
    while let Some(Ok(Message::Text(text))) = soon(socket.next()).await {
        texts.push(text.to_string());
    }
    assert_eq!(texts[..2], ["1", "1N3g4Ow=="], "{texts:?}");
    assert!(texts[2].starts_with('3'));
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_session() {
    let server = server().await;
    let url = server.url_for_exec(exec("hang")).expect("an address");
    let (mut socket, _tasks) = connect(&url, "v5.channel.k8s.io").await;
    soon(socket.next()).await.expect("a message").expect("valid");
    drop(socket);
    soon(server.stop()).await;
}
