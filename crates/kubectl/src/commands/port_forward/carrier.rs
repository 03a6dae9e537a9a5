//! The transport that carries forwarded connections to the pod.

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use httpstream::spdy::{Connection, Headers, Opener};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

use super::tunnel::{self, Tunnel};
use crate::{
    error::{CommandError, Result},
    server::Server,
};

const PROTOCOL: &str = "portforward.k8s.io";
const WEB_SOCKET_PROTOCOLS: &[&str] = &["v4.channel.k8s.io", PROTOCOL];
const CHUNK: usize = 32 << 10;
const LARGEST_ERROR: u64 = 64 << 10;

/// The transport to the pod.
pub(super) enum Carrier<'a> {
    Spdy { connection: Connection, opener: Opener, next: AtomicU32 },
    WebSockets { server: &'a Server, path: &'a str },
}

impl<'a> Carrier<'a> {
    /// Connects to the pod. `port` is one of those that will be forwarded. `tunnels`: whether to try SPDY inside a
    /// WebSocket.
    pub(super) async fn connect(
        server: &'a Server,
        path: &'a str,
        port: u16,
        tunnels: bool,
    ) -> Result<Self> {
        let spdy = |connection: Connection| {
            let opener = connection.opener();
            Self::Spdy { connection, opener, next: AtomicU32::new(0) }
        };
        if tunnels {
            match server.websocket(path, &[tunnel::PROTOCOL]).await {
                Ok(opened) if opened.protocol == tunnel::PROTOCOL => {
                    return Ok(spdy(server.spdy_over(Tunnel::new(opened.stream))));
                }
                Err(fail @ CommandError::Raw(_)) => return Err(fail), // no connection
                _ => {}                                               // not supported by the server
            }
        }
        match server.spdy(path, PROTOCOL).await {
            Ok(connection) => return Ok(spdy(connection)),
            Err(fail @ CommandError::Raw(_)) => return Err(fail), // no connection
            Err(_) => {}
        }
        match open(server, path, port).await {
            Ok(_) => Ok(Self::WebSockets { server, path }),
            Err(CommandError::Server { status, .. }) => Err(CommandError::error(format!(
                "error upgrading connection: unable to upgrade connection: {}",
                status.message()
            ))),
            Err(other) => Err(other),
        }
    }

    /// Completes when the connection is lost.
    pub(super) async fn lost(&self) {
        match self {
            Self::Spdy { connection, .. } => connection.gone().cancelled().await,
            Self::WebSockets { .. } => std::future::pending().await,
        }
    }

    /// Forwards one connection until both sides have closed it.
    pub(super) async fn carry(&self, socket: TcpStream, port: u16) -> Result {
        match self {
            Self::Spdy { opener, next, .. } => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                over_spdy(opener, number, socket, port).await
            }
            Self::WebSockets { server, path } => {
                over_web_socket(open(server, path, port).await?, socket).await
            }
        }
    }
}

async fn over_spdy(opener: &Opener, number: u32, mut socket: TcpStream, port: u16) -> Result {
    let broken =
        |error: std::io::Error| CommandError::error(format!("error creating stream: {error}"));
    let headers = |kind: &str| {
        let (port, number) = (port.to_string(), number.to_string());
        Headers::from_iter([("streamtype", kind), ("port", &port), ("requestid", &number)])
    };
    let mut error = opener.open(headers("error")).await.map_err(broken)?;
    let _ = error.shutdown().await; // nothing is sent on this stream
    let mut data = opener.open(headers("data")).await.map_err(broken)?;
    let forward = async {
        let _ = copy_bidirectional(&mut socket, &mut data).await; // either side may break off
        drop(data);
    };
    let mut text = String::new();
    let mut error = error.take(LARGEST_ERROR);
    let ((), _) = tokio::join!(forward, error.read_to_string(&mut text));
    if text.is_empty() { Ok(()) } else { Err(CommandError::error(text)) }
}

async fn open(server: &Server, path: &str, port: u16) -> Result<client::WebSocket> {
    server.websocket(&format!("{path}?ports={port}"), WEB_SOCKET_PROTOCOLS).await
}

async fn over_web_socket(opened: client::WebSocket, socket: TcpStream) -> Result {
    let (mut to, mut from) = opened.stream.split();
    let (mut read, mut write) = socket.into_split();
    // Both at once: a server whose data is not read may stop reading itself.
    let send = async {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = read.read(&mut buffer).await {
            let mut frame = Vec::with_capacity(length + 1);
            frame.push(0);
            frame.extend_from_slice(&buffer[..length]);
            if to.send(Message::Binary(Bytes::from(frame))).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await; // this protocol has no half-close
    };
    let receive = async {
        let mut begun = [false; 2];
        loop {
            let bytes = match from.next().await {
                Some(Ok(Message::Binary(bytes))) if bytes.len() > 1 => bytes,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                Some(Ok(_)) => continue,
            };
            let channel = usize::from(bytes[0]).min(1);
            let skip =
                if std::mem::replace(&mut begun[channel], true) { 1 } else { 3.min(bytes.len()) };
            if bytes.len() == skip {
                continue;
            }
            if channel == 1 {
                return Err(CommandError::error(
                    String::from_utf8_lossy(&bytes[skip..]).into_owned(),
                ));
            }
            if write.write_all(&bytes[skip..]).await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        result = receive => result,
        () = send => Ok(()),
    }
}
