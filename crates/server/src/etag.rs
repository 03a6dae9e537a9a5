//! Responses with an ETag, for documents that clients cache: a client that has the current one gets
//! 304.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY},
};

use crate::{Reply, codec::hex, respond::raw};

/// The ETag of a document: the SHA-512 of its content.
pub(crate) fn tag(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA512, bytes).as_ref()).to_uppercase()
}

/// Replies with the document, or with 304 if the client has it.
pub(crate) fn etag_response(
    headers: &HeaderMap,
    media_type: &'static str,
    tag: &str,
    bytes: &Bytes,
) -> Reply {
    let quoted = format!("\"{tag}\"");
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let known = known.is_some_and(|known| {
        known.split(',').any(|one| matches!(one.trim(), "*") || one.trim() == quoted)
    });
    let mut reply = raw(200, media_type, if known { Bytes::new() } else { bytes.clone() });
    if known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        reply.headers_mut().remove(CONTENT_TYPE);
    }
    if let Ok(tag) = HeaderValue::from_str(&quoted) {
        reply.headers_mut().insert(ETAG, tag);
    }
    reply.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    reply
}

/// The 406 response of a document that has none of the accepted media types.
pub(crate) fn not_acceptable_response() -> Reply {
    let mut reply = raw(406, "", Bytes::new());
    reply.headers_mut().remove(CONTENT_TYPE);
    reply.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_it_is_told_so() {
        let bytes = Bytes::from_static(b"{}");
        let tag = tag(&bytes);
        assert_eq!(tag.len(), 128);
        let mut headers = HeaderMap::new();
        assert_eq!(etag_response(&headers, "application/json", &tag, &bytes).status(), 200);
        headers.insert(IF_NONE_MATCH, "\"other\"".parse().expect("a value"));
        assert_eq!(etag_response(&headers, "application/json", &tag, &bytes).status(), 200);
        headers.insert(IF_NONE_MATCH, format!("\"{tag}\"").parse().expect("a value"));
        assert_eq!(etag_response(&headers, "application/json", &tag, &bytes).status(), 304);
    }
}
