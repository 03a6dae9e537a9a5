//! A watch over a WebSocket, for clients in browsers: a message for every event.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
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

use crate::{Body, Reply, Server, respond::raw};

/// Clients have nothing to say here.
const LARGEST: usize = 4 << 10;

/// Whether the request wants to change into a WebSocket.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let has = |name: header::HeaderName, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(wanted)))
    };
    has(header::CONNECTION, "upgrade") && has(header::UPGRADE, "websocket")
}

/// Turns the answer of a watch into a WebSocket.
pub(crate) fn socket(
    server: &Arc<Server>,
    headers: &HeaderMap,
    upgrade: OnUpgrade,
    watch: Reply,
) -> Result<Reply, Status> {
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return Err(Status::bad_request("the request has no Sec-WebSocket-Key"));
    };
    let framed = watch
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"application/vnd.kubernetes.protobuf"));
    let mut reply = raw(101, "", Bytes::new());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept =
        HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(Status::internal)?;
    let answer = reply.headers_mut();
    answer.clear();
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let body = watch.into_body();
    server.spawn(async move {
        if let Err(error) = tell(upgrade, body, framed).await {
            debug!(%error, "a watch over a WebSocket broke");
        }
    });
    Ok(reply)
}

/// Sends events until the watch ends or the client leaves.
async fn tell(
    upgrade: OnUpgrade,
    mut body: Body,
    framed: bool,
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
        while let Some(event) = next(&mut read, framed) {
            let message = if framed {
                Message::Binary(event)
            } else {
                Message::Text(Utf8Bytes::try_from(event)?)
            };
            socket.send(message).await?;
        }
    }
    socket.close(None).await?;
    Ok(())
}

/// One event, if all of it is there: a line, or what stands behind its length.
fn next(read: &mut BytesMut, framed: bool) -> Option<Bytes> {
    if framed {
        let length = usize::try_from(u32::from_be_bytes(*read.first_chunk()?)).ok()?;
        if read.len() < 4 + length {
            return None;
        }
        read.advance(4);
        return Some(read.split_to(length).freeze());
    }
    let end = read.iter().position(|byte| *byte == b'\n')?;
    Some(read.split_to(end + 1).freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_one_by_one() {
        let mut read = BytesMut::from(&b"{}\n{\"a\":1}\n{"[..]);
        assert_eq!(next(&mut read, false).as_deref(), Some(&b"{}\n"[..]));
        assert_eq!(next(&mut read, false).as_deref(), Some(&b"{\"a\":1}\n"[..]));
        assert_eq!(next(&mut read, false), None);
        let mut read = BytesMut::from(&b"\0\0\0\x02ab\0\0\0\x03a"[..]);
        assert_eq!(next(&mut read, true).as_deref(), Some(&b"ab"[..]));
        assert_eq!(next(&mut read, true), None);
    }
}
