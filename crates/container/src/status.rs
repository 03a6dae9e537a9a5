//! Limits the length of gRPC status messages.
//!
//! A status message is sent in a header, and may quote whatever failed: a command of 120 KB, a file name of an image. A
//! header of that length closes the whole connection, and with it the calls of every other pod.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use tonic::{Status, body::Body, server::NamedService};
use tower_service::Service;

/// Maximum length of a message, in bytes.
const LONGEST: usize = 4 << 10;

/// Limits a message so that it fits into a header, an event and a pod's status: cut at a character boundary, without
/// control characters.
pub fn bounded_message(text: &str) -> String {
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let cut = &text[..text.floor_char_boundary(LONGEST)];
    let mut out: String = cut.chars().map(|c| if control(c) { '\u{fffd}' } else { c }).collect();
    if cut.len() < text.len() {
        out += "...";
    }
    out
}

/// The status with a limited message. Its source, if it has one, is kept.
pub fn bounded(mut status: Status) -> Status {
    let message = bounded_message(status.message());
    if message == status.message() {
        return status;
    }
    let cause = std::error::Error::source(&status).map(ToString::to_string);
    status = Status::new(status.code(), message);
    if let Some(cause) = cause {
        status.set_source(std::sync::Arc::new(std::io::Error::other(bounded_message(&cause))));
    }
    status
}

/// A gRPC service that limits the messages of its statuses.
#[derive(Clone, Debug)]
pub(crate) struct BoundedStatus<S>(pub(crate) S);

impl<S: NamedService> NamedService for BoundedStatus<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for BoundedStatus<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            bound(response.headers_mut());
            Ok(response.map(|body| {
                Body::new(body.map_frame(|mut frame| {
                    if let Some(trailers) = frame.trailers_mut() {
                        bound(trailers);
                    }
                    frame
                }))
            }))
        })
    }
}

/// Limits the status message in headers or trailers, if there is one.
fn bound(headers: &mut HeaderMap) {
    if !headers.contains_key(Status::GRPC_MESSAGE) {
        return;
    }
    let Some(status) = Status::from_header_map(headers) else { return };
    if bounded(status.clone()).add_header(headers).is_err() {
        headers.remove(Status::GRPC_MESSAGE); // the status code remains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_a_character_and_made_plain() {
        assert_eq!(bounded_message("a\u{1b}[31m\nb\0"), "a\u{fffd}[31m\nb\u{fffd}");
        let long = format!("a{}", "ü".repeat(LONGEST));
        let cut = bounded_message(&long);
        assert!(cut.len() <= LONGEST + 3 && cut.ends_with("ü..."), "{}", cut.len());
    }

    #[test]
    fn headers_and_trailers_are_bounded() {
        let mut headers = HeaderMap::new();
        Status::not_found("ü".repeat(60_000)).add_header(&mut headers).expect("a header");
        bound(&mut headers);
        let length: usize = headers.values().map(http::HeaderValue::len).sum();
        assert!(length < 16 << 10, "{length}");
        let status = Status::from_header_map(&headers).expect("a status");
        assert_eq!(status.code(), tonic::Code::NotFound);
    }
}
