//! Bodies of answers, and the reading of requests' bodies within a limit.

use std::{convert::Infallible, io};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use object::Status;

use crate::audit;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;
pub type Reply = Response<Body>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    let never = |error: Infallible| match error {};
    Full::new(bytes.into()).map_err(never).boxed_unsync()
}

/// The whole body, unless it is larger than `limit`.
pub async fn read(body: Incoming, limit: usize) -> Result<Bytes, Status> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => {
            let bytes = body.to_bytes();
            audit::note_body(&bytes);
            Ok(bytes)
        }
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::too_large(format!("limit is {limit}")))
        }
        Err(error) => Err(Status::bad_request(format!("cannot read the body: {error}"))),
    }
}
