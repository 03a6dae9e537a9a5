//! An HTTP/2 connection over TLS, with its watches.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::{Bytes, BytesMut};
use client::{ConnectionUse, Connector as _, TcpConnector, TlsOptions};
use http::{Request, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};

/// An HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Http2Connection {
    send: SendRequest<Empty<Bytes>>,
    port: u16,
    token: String,
}

/// The response of a watch.
pub(crate) struct WatchStream {
    body: Incoming,
    read: BytesMut,
}

impl Http2Connection {
    pub(crate) async fn open(port: u16, token: &str) -> Result<Self> {
        let tls = Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() });
        let connected = TcpConnector::new("127.0.0.1", port, Some(tls))
            .connect(ConnectionUse::Requests)
            .await?;
        ensure!(connected.http2, "the server speaks no HTTP/2");
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(connected.io));
        let (send, connection) = handshake.await?;
        #[expect(clippy::disallowed_methods, reason = "it ends with the connection")]
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { send, port, token: token.to_owned() })
    }

    /// Starts a watch; returns its status, and its events line by line.
    pub(crate) async fn watch(&mut self, path: &str) -> Result<(StatusCode, WatchStream)> {
        self.send.ready().await?;
        let uri = format!("https://127.0.0.1:{}{path}", self.port);
        let request = Request::get(uri)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Empty::new())?;
        let answer = self.send.send_request(request).await?;
        let status = answer.status();
        Ok((status, WatchStream { body: answer.into_body(), read: BytesMut::new() }))
    }
}

impl WatchStream {
    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<BytesMut>> {
        loop {
            if let Some(at) = self.read.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.read.split_to(at + 1)));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let data = frame?.into_data().ok().context("trailers")?;
                    self.read.extend_from_slice(&data);
                }
            }
        }
    }
}
