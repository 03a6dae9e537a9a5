//! Large answers are compressed for those who can read that, as upstream does.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderValue,
    header::{CONTENT_ENCODING, VARY},
};
use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::{Reply, body::full};

/// Smaller answers are sent sooner than they are compressed.
const SMALLEST: u64 = 128 << 10;

pub(crate) async fn compressed(reply: Reply, accepted: Option<&HeaderValue>) -> Reply {
    let large = reply.body().size_hint().exact().is_some_and(|size| size >= SMALLEST);
    if !large || !accepts(accepted) || reply.headers().contains_key(CONTENT_ENCODING) {
        return reply;
    }
    let (mut head, body) = reply.into_parts();
    let Ok(whole) = body.collect().await else {
        return Reply::from_parts(head, full(Vec::new())); // cannot be: it is in memory
    };
    let plain = whole.to_bytes();
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 6), Compression::fast());
    let written = encoder.write_all(&plain).and_then(|()| encoder.finish());
    let Ok(bytes) = written else { return Reply::from_parts(head, full(plain)) };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    Reply::from_parts(head, full(bytes))
}

fn accepts(header: Option<&HeaderValue>) -> bool {
    let text = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part == "q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_it_gets_it() {
        for (header, expected) in
            [("gzip", true), ("deflate, gzip;q=1.0", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(accepts(Some(&HeaderValue::from_static(header))), expected, "{header}");
        }
        assert!(!accepts(None));
    }
}
