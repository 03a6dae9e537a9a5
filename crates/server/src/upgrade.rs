//! Passing a request on to somebody behind the server: kubelets, pods, services.
//! Answers stream, and upgraded connections become a pipe.

use std::{io, sync::Arc};

use http::{HeaderValue, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use object::Status;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
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
        server.spawn(async move { tunnel(upgrade, theirs).await });
    }
    let (head, body) = answer.into_parts();
    Ok(Reply::from_parts(head, body.map_err(io::Error::other).boxed_unsync()))
}

/// Joins two upgraded connections until either ends.
pub async fn tunnel(ours: hyper::upgrade::OnUpgrade, theirs: hyper::upgrade::OnUpgrade) {
    match tokio::try_join!(ours, theirs) {
        Ok((ours, theirs)) => {
            let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            if let Err(error) = copy_bidirectional(&mut ours, &mut theirs).await {
                debug!(%error, "a tunnel broke");
            }
        }
        Err(error) => debug!(%error, "no tunnel"),
    }
}
