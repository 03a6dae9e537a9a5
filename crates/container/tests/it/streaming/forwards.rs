//! Port-forward, over SPDY, over SPDY inside WebSocket, and over WebSocket alone.

use container::streaming::PortForwardRequest;
use futures_util::{SinkExt, StreamExt};
use httpstream::spdy::{Connection, Headers, Opener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use super::*;

async fn open(opener: &Opener, kind: &str, port: &str, request: &str) -> Stream {
    let headers: Headers =
        [("streamType", kind), ("port", port), ("requestID", request)].into_iter().collect();
    opener.open(headers).await.expect("agreed")
}

/// Forwards two connections at a time, and one to a port that refuses.
async fn forward(io: impl AsyncRead + AsyncWrite + Send + 'static) {
    let connection = Connection::client(io);
    let opener = connection.opener();
    let sent = pattern(5 << 20);
    let echo = async |request: &str| {
        let error = open(&opener, "error", "80", request).await;
        let data = open(&opener, "data", "80", request).await;
        let (read, mut write) = tokio::io::split(data);
        let writing = async {
            write.write_all(&sent).await.expect("open");
            write.shutdown().await.expect("open");
        };
        let ((), received, errors) = tokio::join!(writing, read_all(read), read_all(error));
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        assert_eq!(errors, b"");
    };
    tokio::join!(echo("0"), echo("1"));
    let data = open(&opener, "data", "1", "2").await; // in the other order
    let error = open(&opener, "error", "1", "2").await;
    assert_eq!(read_all(error).await, b"error forwarding port 1 to pod s: connection refused");
    assert_eq!(read_all(data).await, b"");
    connection.close().await;
}

fn request() -> PortForwardRequest {
    PortForwardRequest { namespace: "n".to_owned(), sandbox_id: "s".to_owned(), ports: vec![80, 1] }
}

#[tokio::test]
async fn over_spdy() {
    let server = server().await;
    let url = server.url_for_port_forward(request()).expect("an address");
    let headers = [("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "portforward.k8s.io")];
    let (_, io, _tasks) = upgrade(&url, &headers).await;
    soon(forward(io.expect("granted"))).await;
    soon(server.stop()).await;
}

#[tokio::test]
async fn over_a_tunnel() {
    let server = server().await;
    let url = server.url_for_port_forward(request()).expect("an address");
    let (socket, _tasks) = web_sockets::connect(&url, "SPDY/3.1+portforward.k8s.io").await;
    let (mut sink, mut stream) = socket.split();
    let (near, far) = tokio::io::duplex(64 << 10);
    let (mut from, mut to) = tokio::io::split(far);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut buffer = vec![0; 10_000];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            sink.send(Message::binary(buffer[..count].to_vec())).await.expect("open");
        }
        sink.close().await.expect("open");
    });
    tasks.spawn(async move {
        while let Some(Ok(Message::Binary(bytes))) = stream.next().await {
            to.write_all(&bytes).await.expect("open");
        }
        to.shutdown().await.expect("open");
    });
    soon(forward(near)).await;
}

/// Each port has a data and an error channel, both of which begin with the port number.
#[tokio::test]
async fn over_channels() {
    let server = server().await;
    let url = server.url_for_port_forward(request()).expect("an address");
    let (mut socket, _tasks) = web_sockets::connect(&url, "v4.channel.k8s.io").await;
    socket.send(Message::binary(b"\0hello".to_vec())).await.expect("open");
    let mut channels: [Vec<u8>; 4] = Default::default();
    let refused = b"\x01\0error forwarding port 1 to pod s: connection refused";
    while channels[0] != b"\x50\0hello" || channels[3] != refused {
        let message = soon(socket.next()).await.expect("open").expect("a message");
        let bytes = message.into_data();
        channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
    }
    assert_eq!((&channels[1][..], &channels[2][..]), (&b"\x50\0"[..], &b"\x01\0"[..]));
    socket.close(None).await.expect("open");
    soon(server.stop()).await;

    let server = super::server().await;
    let none = PortForwardRequest { ports: Vec::new(), ..request() };
    let url = server.url_for_port_forward(none).expect("an address");
    let headers = [("upgrade", "websocket"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];
    let (answer, ..) = upgrade(&url, &headers).await;
    assert_eq!(answer.status(), 400, "without a port");
}
