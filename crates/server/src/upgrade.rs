//! Reverse proxy to kubelets, pods and services. Responses are streamed, and upgraded connections
//! are tunnelled.

use std::{io, num::NonZeroU64, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use object::Status;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional, split,
};
use tracing::debug;

use crate::{Peer, Reply, Request, Server, status_reply};

/// Headers that concern a single connection (hop-by-hop), in addition to those that `Connection`
/// lists.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Sends `request` to `uri` over `io` and returns the response. Redirects are not followed. The
/// connection becomes a tunnel only if the client requested an upgrade and the backend agreed
/// (101); otherwise it ends with this response.
pub async fn proxy(
    server: &Arc<Server>,
    request: Request,
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    uri: Uri,
) -> Result<Reply, Status> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(failed)?;
    server.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "proxied connection failed");
        }
    });
    let Request { head, body, peer, .. } = request;
    let upgrades = is_upgrade(&head.headers);
    let mut incoming = hyper::Request::from_parts(head, body);
    let upgrade = upgrades.then(|| hyper::upgrade::on(&mut incoming));
    let (mut head, body) = incoming.into_parts();
    let protocol = head.headers.get(header::UPGRADE).filter(|_| upgrades).cloned();
    remove_hop_by_hop(&mut head.headers);
    if let Some(protocol) = protocol {
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        head.headers.insert(header::UPGRADE, protocol);
    }
    forward(&mut head.headers, &uri, &peer);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|_| Status::bad_request("the path cannot be passed on"))?;
    head.version = http::Version::HTTP_11;
    let mut answer =
        sender.send_request(hyper::Request::from_parts(head, body)).await.map_err(failed)?;
    match (answer.status(), upgrade) {
        (StatusCode::SWITCHING_PROTOCOLS, Some(upgrade)) => {
            let theirs = hyper::upgrade::on(&mut answer);
            let limit = server.config.limits.stream_bytes_per_second;
            server.spawn(async move { tunnel(upgrade, theirs, limit).await });
        }
        (code, Some(_)) if code.is_client_error() || code.is_server_error() => {
            // What the client sends next is meant for the tunnel, not for this server.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        (code, Some(_)) => return Ok(no_tunnel(500, code)),
        (code, None) if code.is_informational() => return Ok(no_tunnel(502, code)),
        (_, None) => remove_hop_by_hop(answer.headers_mut()),
    }
    let (head, body) = answer.into_parts();
    Ok(Reply::from_parts(head, body.map_err(io::Error::other).boxed_unsync()))
}

#[expect(clippy::needless_pass_by_value, reason = "so that `map_err` can call it")]
fn failed(error: hyper::Error) -> Status {
    let why = format!("error trying to reach service: {error}");
    Status::failure(502, "ServiceUnavailable", why)
}

/// The response if the backend did not agree to a requested upgrade, or agreed to one that was not
/// requested. The connection is closed.
fn no_tunnel(code: u16, theirs: StatusCode) -> Reply {
    let why = format!("invalid upgrade response: status code {}", theirs.as_u16());
    let mut reply = status_reply(&Status::failure(code.into(), "InternalError", why));
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Whether a request asks for a protocol upgrade.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
        && connection_options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"))
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(',')).map(str::trim)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = connection_options(headers).map(str::to_owned).collect();
    for name in HOP_BY_HOP.into_iter().chain(named.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

/// Sets Host and X-Forwarded-For.
fn forward(headers: &mut HeaderMap, uri: &Uri, peer: &Peer) {
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    headers.remove(header::HOST);
    if let Ok(host) = HeaderValue::from_str(&host) {
        headers.insert(header::HOST, host);
    }
    let Some(address) = peer.address else { return };
    let before = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> = before.map(str::to_owned).chain([address.ip().to_string()]).collect();
    if let Ok(all) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, all);
    }
}

/// Copies between two upgraded connections until either ends, limited to `limit` bytes per second.
async fn tunnel(
    ours: hyper::upgrade::OnUpgrade,
    theirs: hyper::upgrade::OnUpgrade,
    limit: Option<NonZeroU64>,
) {
    match tokio::try_join!(ours, theirs) {
        Ok((ours, theirs)) => {
            let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            let joined = match limit {
                None => copy_bidirectional(&mut ours, &mut theirs).await.map(drop),
                Some(limit) => {
                    let ((ours, to_us), (theirs, to_them)) = (split(ours), split(theirs));
                    tokio::try_join!(
                        copy_slowly(ours, to_them, limit),
                        copy_slowly(theirs, to_us, limit)
                    )
                    .map(drop)
                }
            };
            if let Err(error) = joined {
                debug!(%error, "tunnel failed");
            }
        }
        Err(error) => debug!(%error, "cannot open a tunnel"),
    }
}

/// Copies until the end, in chunks of at most a tenth of a second.
async fn copy_slowly(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    limit: NonZeroU64,
) -> io::Result<()> {
    let room = (limit.get() / 10).clamp(1, 64 << 10);
    let mut piece = vec![0; usize::try_from(room).unwrap_or(1)];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(piece.get(..read).unwrap_or_default()).await?;
        to.flush().await?;
        let nanos = 1_000_000_000 * u64::try_from(read).unwrap_or(u64::MAX >> 30) / limit;
        tokio::time::sleep(Duration::from_nanos(nanos)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_connection_stay_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "secret"),
            ("accept", "a"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert!(!is_upgrade(&headers), "the connection does not say so");
        headers.append("connection", HeaderValue::from_static("close, upgrade"));
        assert!(is_upgrade(&headers));
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_takes_its_time() {
        let (mut sender, from) = tokio::io::duplex(4096);
        let (to, mut receiver) = tokio::io::duplex(4096);
        let began = tokio::time::Instant::now();
        let copy = copy_slowly(from, to, NonZeroU64::new(100).unwrap());
        let talk = async {
            sender.write_all(&[7; 300]).await.unwrap();
            drop(sender);
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).await.unwrap();
            all
        };
        let (copied, all) = tokio::join!(copy, talk);
        copied.unwrap();
        assert_eq!(all, [7; 300]);
        assert!(began.elapsed() >= Duration::from_millis(2_900), "three seconds' worth");
    }
}
