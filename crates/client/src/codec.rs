//! Encoding and decoding of objects. Only this module knows the media type.

use bytes::Bytes;
use object::{Status, Value, from_json, to_json};

use crate::Error;

pub(crate) const MEDIA_TYPE: &str = "application/json";
/// Some documents have their own media types.
pub(crate) const ACCEPTED: &str = "application/json, */*";

pub(crate) fn encode(object: &Value) -> Bytes {
    to_json(object).into()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Value, Error> {
    from_json(bytes).map_err(|error| Error::Decode(error.to_string()))
}

/// The error for a response with a failure status: the Status in the body, or a synthesized one.
pub(crate) fn failure(code: u16, body: &[u8]) -> Error {
    let code = i32::from(code);
    match from_json(body) {
        Ok(tree) if tree["kind"].as_str() == Some("Status") => {
            let mut status = Status::from(tree);
            if status.code() == 0 {
                status.set_code(code);
            }
            Error::Status(status)
        }
        _ => {
            let text = String::from_utf8_lossy(body.get(..1024).unwrap_or(body));
            Error::Status(Status::failure(code, reason(code), text.trim()))
        }
    }
}

/// The value as a Status, if it is one.
pub(crate) fn as_status(tree: &Value) -> Option<&Status> {
    (tree["kind"].as_str() == Some("Status") && tree["apiVersion"].as_str() == Some("v1"))
        .then(|| <Status as object::View>::view(tree))
}

fn reason(code: i32) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}
