//! Upgraded requests: exec, attach, port-forward.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::Role,
    },
};

use crate::{Client, Error, Response};

/// A byte stream after an upgrade, and the headers of the response.
#[derive(Debug)]
pub struct Tunnel {
    pub headers: HeaderMap,
    pub io: TokioIo<Upgraded>,
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    /// The subprotocol that the server has chosen; empty if none.
    pub protocol: String,
    pub stream: WebSocketStream<TokioIo<Upgraded>>,
}

impl Client {
    /// Opens a WebSocket with one of the subprotocols `protocols`.
    pub async fn upgrade(
        &self,
        path_and_query: &str,
        protocols: &[&str],
    ) -> Result<WebSocket, Error> {
        let key = generate_key();
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, header(&key)?);
        if !protocols.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, header(&protocols.join(", "))?);
        }
        let tunnel = self.tunnel(Method::GET, path_and_query, "websocket", headers).await?;
        let said = |name| tunnel.headers.get(name).and_then(|value| value.to_str().ok());
        if said(SEC_WEBSOCKET_ACCEPT) != Some(&derive_accept_key(key.as_bytes())) {
            return Err(Error::Decode("the server does not support WebSocket".into()));
        }
        let protocol = said(SEC_WEBSOCKET_PROTOCOL).unwrap_or_default().to_owned();
        let stream = WebSocketStream::from_raw_socket(tunnel.io, Role::Client, None).await;
        Ok(WebSocket { protocol, stream })
    }

    /// Upgrades a request to `protocol`; `headers` are those of the protocol.
    pub async fn tunnel(
        &self,
        method: Method,
        path_and_query: &str,
        protocol: &str,
        mut headers: HeaderMap,
    ) -> Result<Tunnel, Error> {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, header(protocol)?);
        let request = self.prepare(&method, path_and_query, &headers, Bytes::new()).await?;
        let patience = self.config().timeout;
        let late = |_| Error::unavailable("no answer in time");
        let answer = timeout(patience, self.pool.upgrade(request)).await.map_err(late)??;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let answer = timeout(patience, Response::new(answer, None).error_for_status()).await;
            return Err(match answer.map_err(late)? {
                Ok(_) => Error::Decode("the server did not switch protocols".into()),
                Err(error) => error,
            });
        }
        let headers = answer.headers().clone();
        let io = hyper::upgrade::on(answer).await?;
        Ok(Tunnel { headers, io: TokioIo::new(io) })
    }
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(text).map_err(|error| Error::Invalid(error.to_string()))
}
