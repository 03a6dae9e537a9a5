//! An HTTP response whose body is read as it arrives.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::{Error, codec, http2_connection::StreamPermit};

/// Maximum size of a buffered body in bytes.
const LARGEST: usize = 256 << 20;

/// A response whose body is not read yet.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    _place: Option<StreamPermit>,
}

impl Response {
    pub(crate) fn new(answer: http::Response<Incoming>, place: Option<StreamPermit>) -> Self {
        let (head, body) = answer.into_parts();
        Self { status: head.status, headers: head.headers, body, _place: place }
    }

    /// The response if it is successful; otherwise the error in its body.
    pub async fn error_for_status(self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        let code = self.status.as_u16();
        Err(codec::failure(code, &self.bytes().await?))
    }

    /// The next chunk of the body; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut all = BytesMut::from(&first[..]);
        let mut next = Some(second);
        while let Some(chunk) = next {
            if all.len() + chunk.len() > LARGEST {
                return Err(Error::Decode("the response is larger than 256 MiB".into()));
            }
            all.extend_from_slice(&chunk);
            next = self.chunk().await?;
        }
        Ok(all.freeze())
    }
}
