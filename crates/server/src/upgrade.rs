//! Passing a request on to somebody behind the server: kubelets, pods, services.
//! Answers stream, and upgraded connections become a pipe.

use std::{io, num::NonZeroU64, sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use object::Status;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional, split,
};
use tracing::debug;

use crate::{Reply, Request, Server};

/// What is said to us alone.
const OURS: [header::HeaderName; 2] = [header::AUTHORIZATION, header::HOST];

/// Sends `request` to `uri` over `io` and answers with what comes back. Redirects
/// are answers like any other: nobody follows them.
pub async fn proxy(
    server: &Arc<Server>,
    request: Request,
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    uri: Uri,
) -> Result<Reply, Status> {
    let failed = |error: hyper::Error| {
        Status::failure(
            502,
            "ServiceUnavailable",
            format!("error trying to reach service: {error}"),
        )
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(failed)?;
    server.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "a proxied connection broke");
        }
    });
    let Request { head, body, .. } = request;
    let mut incoming = hyper::Request::from_parts(head, body);
    let upgrade =
        incoming.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut incoming));
    let (mut head, body) = incoming.into_parts();
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    let ours = |name: &&header::HeaderName| {
        OURS.contains(name) || name.as_str().starts_with("impersonate-")
    };
    for name in head.headers.keys().filter(ours).cloned().collect::<Vec<_>>() {
        head.headers.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(&host) {
        head.headers.insert(header::HOST, host);
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().map_err(|_| Status::bad_request("the path cannot be passed on"))?;
    head.version = http::Version::HTTP_11;
    let mut answer =
        sender.send_request(hyper::Request::from_parts(head, body)).await.map_err(failed)?;
    if let (StatusCode::SWITCHING_PROTOCOLS, Some(upgrade)) = (answer.status(), upgrade) {
        let theirs = hyper::upgrade::on(&mut answer);
        let limit = server.config.limits.stream;
        server.spawn(async move { tunnel(upgrade, theirs, limit).await });
    }
    let (head, body) = answer.into_parts();
    Ok(Reply::from_parts(head, body.map_err(io::Error::other).boxed_unsync()))
}

/// Joins two upgraded connections until either ends, at so many bytes a second.
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
                debug!(%error, "a tunnel broke");
            }
        }
        Err(error) => debug!(%error, "no tunnel"),
    }
}

/// Copies until the end, in pieces of at most a tenth of a second.
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
        to.write_all(&piece[..read]).await?;
        to.flush().await?;
        let nanos = 1_000_000_000 * u64::try_from(read).unwrap_or(u64::MAX >> 30) / limit;
        tokio::time::sleep(Duration::from_nanos(nanos)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
