//! Streaming responses over a WebSocket: a message for each watch event, or for each chunk of a
//! log. Clients in browsers need it.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        UPGRADE,
    },
};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use object::Status;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};
use tracing::debug;

use crate::{Body, Reply, Request, Server, respond::raw};

/// Maximum message size from clients, which send nothing but control frames.
const LARGEST: usize = 4 << 10;
/// Subprotocols for chunks of a log, and whether they use base64.
const PROTOCOLS: [(&str, bool); 3] =
    [("", false), ("binary.k8s.io", false), ("base64.binary.k8s.io", true)];

/// A request for a WebSocket.
#[derive(Debug)]
pub struct WebSocketUpgrade {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    protocols: Vec<String>,
}

/// How a body is split into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageFraming {
    Lines,
    /// Length-prefixed frames.
    Frames,
    /// Chunks, as they are received.
    Pieces {
        base64: bool,
    },
}

impl WebSocketUpgrade {
    /// Takes the upgrade headers out of a request, which is handled like a plain one from then on.
    pub fn take(request: &mut Request) -> Result<Option<Self>, Status> {
        let headers = &mut request.head.headers;
        if !(has(headers, CONNECTION, "upgrade") && has(headers, UPGRADE, "websocket")) {
            return Ok(None);
        }
        let Some(key) = headers.remove(SEC_WEBSOCKET_KEY) else {
            return Err(Status::bad_request("the request has no Sec-WebSocket-Key"));
        };
        let accept = derive_accept_key(key.as_bytes());
        let accept = HeaderValue::try_from(accept).map_err(Status::internal)?;
        let protocols = parts(headers, SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
        for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_PROTOCOL] {
            headers.remove(name);
        }
        let mut incoming = hyper::Request::new(());
        *incoming.extensions_mut() = std::mem::take(&mut request.head.extensions);
        let upgrade = hyper::upgrade::on(&mut incoming);
        request.head.extensions = std::mem::take(incoming.extensions_mut());
        Ok(Some(Self { upgrade, accept, protocols }))
    }

    /// Streams a watch, one message per event.
    pub(crate) fn watch(self, server: &Arc<Server>, watch: Reply) -> Reply {
        let binary = watch.headers().get(CONTENT_TYPE).is_some_and(|media| {
            media.as_bytes().starts_with(b"application/vnd.kubernetes.protobuf")
        });
        self.tell(
            server,
            watch,
            "",
            if binary { MessageFraming::Frames } else { MessageFraming::Lines },
        )
    }

    /// Streams a body in chunks, in a subprotocol that the client supports. An error stays a plain
    /// response.
    pub fn stream_chunks(self, server: &Arc<Server>, reply: Reply) -> Result<Reply, Status> {
        if !reply.status().is_success() {
            return Ok(reply);
        }
        let offered =
            if self.protocols.is_empty() { &[String::new()][..] } else { &self.protocols };
        let known = |name: &String| PROTOCOLS.iter().find(|(known, _)| known == name);
        let Some((name, base64)) = offered.iter().find_map(known) else {
            return Err(Status::bad_request(
                "none of the requested WebSocket protocols is supported",
            ));
        };
        Ok(self.tell(server, reply, name, MessageFraming::Pieces { base64: *base64 }))
    }

    fn tell(
        self,
        server: &Arc<Server>,
        told: Reply,
        protocol: &'static str,
        cut: MessageFraming,
    ) -> Reply {
        let mut reply = raw(101, "", Bytes::new());
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = reply.headers_mut();
        headers.clear();
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if !protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        server.spawn(async move {
            if let Err(error) = send(self.upgrade, told.into_body(), cut).await {
                debug!(%error, "WebSocket connection failed");
            }
        });
        reply
    }
}

fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    parts(headers, name).any(|part| part.eq_ignore_ascii_case(wanted))
}

fn parts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|part| !part.is_empty())
}

/// Sends messages until the body ends or the client disconnects.
async fn send(
    upgrade: OnUpgrade,
    mut body: Body,
    cut: MessageFraming,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(LARGEST);
    config.max_frame_size = Some(LARGEST);
    let io = TokioIo::new(upgrade.await?);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let mut read = BytesMut::new();
    loop {
        tokio::select! {
            frame = body.frame() => match frame {
                None => break,
                Some(frame) => read.extend_from_slice(&frame?.into_data().unwrap_or_default()),
            },
            said = socket.next() => match said {
                None | Some(Ok(Message::Close(_))) => break,
                Some(said) => drop(said?),
            },
        }
        while let Some(part) = next(&mut read, cut) {
            let message = match cut {
                MessageFraming::Lines => Message::Text(Utf8Bytes::try_from(part)?),
                MessageFraming::Pieces { base64: true } => {
                    Message::text(BASE64_STANDARD.encode(part))
                }
                MessageFraming::Frames | MessageFraming::Pieces { .. } => Message::Binary(part),
            };
            socket.send(message).await?;
        }
    }
    socket.close(None).await?;
    Ok(())
}

/// The next complete message.
fn next(read: &mut BytesMut, cut: MessageFraming) -> Option<Bytes> {
    match cut {
        MessageFraming::Lines => {
            let end = read.iter().position(|byte| *byte == b'\n')?;
            Some(read.split_to(end + 1).freeze())
        }
        MessageFraming::Frames => {
            let length = usize::try_from(u32::from_be_bytes(*read.first_chunk()?)).ok()?;
            if read.len() < 4 + length {
                return None;
            }
            read.advance(4);
            Some(read.split_to(length).freeze())
        }
        MessageFraming::Pieces { .. } => (!read.is_empty()).then(|| read.split().freeze()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_one_by_one() {
        let mut read = BytesMut::from(&b"{}\n{\"a\":1}\n{"[..]);
        assert_eq!(next(&mut read, MessageFraming::Lines).as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(next(&mut read, MessageFraming::Lines).as_deref(), Some(&b"{\"a\":1}\n"[..]));
        assert_eq!(next(&mut read, MessageFraming::Lines), None);
        let pieces = MessageFraming::Pieces { base64: false };
        assert_eq!(next(&mut read, pieces).as_deref(), Some(&b"{"[..]));
        assert_eq!(next(&mut read, pieces), None);
        let mut read = BytesMut::from(&b"\0\0\0\x02ab\0\0\0\x03a"[..]);
        assert_eq!(next(&mut read, MessageFraming::Frames).as_deref(), Some(&b"ab"[..]));
        assert_eq!(next(&mut read, MessageFraming::Frames), None);
    }
}
