//! Gzip compression of large responses, for clients that accept it.

use std::{
    io::{self, Write},
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_ENCODING, VARY},
};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};

use crate::{Body, Reply};

/// Minimum size to compress; smaller responses are sent faster uncompressed.
const SMALLEST: usize = 128 << 10;

/// Compresses a response if it is large. A body of unknown size is only compressed if it is a list;
/// others, such as watches, have no end, and buffering would delay them.
pub(crate) async fn compressed(reply: Reply, lists: bool, accepted: Option<&HeaderValue>) -> Reply {
    let size = reply.body().size_hint().exact();
    let small = size.map_or(!lists, |size| size < SMALLEST as u64);
    if small || !accepts(accepted) || reply.headers().contains_key(CONTENT_ENCODING) {
        return reply;
    }
    let (mut head, mut body) = reply.into_parts();
    let (mut begun, mut size) = (Vec::new(), 0);
    while size < SMALLEST {
        match body.frame().await {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                size += data.len();
                begun.push(data);
            }
            Some(Err(error)) => {
                let failed = Begun { begun: begun.into_iter(), rest: Rest::Broken(Some(error)) };
                return Reply::from_parts(head, failed.boxed_unsync());
            }
            None => {
                let whole = crate::body::full(begun.concat());
                return Reply::from_parts(head, whole);
            }
        }
    }
    mark(&mut head.headers);
    let plain = Begun { begun: begun.into_iter(), rest: Rest::More(body) };
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    Reply::from_parts(head, Compressed { plain, encoder }.boxed_unsync())
}

/// Replies with a document that many clients read: it is compressed once, and `kept` is sent to
/// everyone who accepts it. `whole` builds the response with the given bytes.
pub(crate) fn compressed_once(
    kept: &OnceLock<Bytes>,
    plain: &Bytes,
    accepted: Option<&HeaderValue>,
    whole: impl FnOnce(&Bytes) -> Reply,
) -> Reply {
    if plain.len() < SMALLEST || !accepts(accepted) {
        return whole(plain);
    }
    let packed = match kept.get() {
        Some(packed) => packed,
        None => match gzip(plain) {
            Ok(packed) => kept.get_or_init(|| packed),
            Err(_) => return whole(plain),
        },
    };
    let mut reply = whole(packed);
    if reply.status() == StatusCode::OK {
        mark(reply.headers_mut());
    }
    reply
}

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}

fn mark(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// A body whose first frames have been read already.
struct Begun {
    begun: std::vec::IntoIter<Bytes>,
    rest: Rest,
}

/// What follows the frames that were read: the rest of the body, or the error that ended it.
enum Rest {
    More(Body),
    Broken(Option<io::Error>),
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(data) = self.begun.next() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match &mut self.rest {
            Rest::More(body) => Pin::new(body).poll_frame(cx),
            Rest::Broken(error) => Poll::Ready(error.take().map(Err)),
        }
    }
}

/// A body that is compressed while it is sent.
struct Compressed {
    plain: Begun,
    /// `None` once everything has been sent.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            let made = match ready!(Pin::new(&mut this.plain).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    encoder.write_all(&data).map(|()| std::mem::take(encoder.get_mut()))
                }
                Some(Err(error)) => Err(error),
                None => this.encoder.take().map_or(Ok(Vec::new()), GzEncoder::finish),
            };
            match made {
                Ok(bytes) if bytes.is_empty() => {}
                made => return Poll::Ready(Some(made.map(|bytes| Frame::data(bytes.into())))),
            }
        }
    }
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
    use flate2::read::GzDecoder;

    use super::*;
    use crate::{body::full, respond::raw};

    #[test]
    fn only_who_asks_for_it_gets_it() {
        for (header, expected) in
            [("gzip", true), ("deflate, gzip;q=1.0", true), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(accepts(Some(&HeaderValue::from_static(header))), expected, "{header}");
        }
        assert!(!accepts(None));
    }

    #[tokio::test]
    async fn a_document_is_compressed_once() {
        let (gzip, kept) = (HeaderValue::from_static("gzip"), OnceLock::new());
        let plain = Bytes::from(vec![b'x'; SMALLEST]);
        let whole = |bytes: &Bytes| raw(200, "text/plain", bytes.clone());
        let reply = compressed_once(&kept, &plain, None, whole);
        assert!(!reply.headers().contains_key(CONTENT_ENCODING) && kept.get().is_none());
        let reply = compressed_once(&kept, &plain, Some(&gzip), whole);
        assert_eq!(reply.headers()[CONTENT_ENCODING], "gzip");
        let first = kept.get().expect("it is kept").as_ptr();
        let sent = reply.into_body().collect().await.expect("readable").to_bytes();
        let mut read = Vec::new();
        io::Read::read_to_end(&mut GzDecoder::new(&*sent), &mut read).expect("gzip");
        assert_eq!(read, plain);
        let again =
            compressed(compressed_once(&kept, &plain, Some(&gzip), whole), false, Some(&gzip));
        let again = again.await.into_body().collect().await.expect("readable").to_bytes();
        assert_eq!(
            (again.as_ptr(), again.len()),
            (first, sent.len()),
            "neither copied nor repeated"
        );
        let known = |_: &Bytes| raw(304, "", Bytes::new());
        let reply = compressed_once(&kept, &plain, Some(&gzip), known);
        assert!(!reply.headers().contains_key(CONTENT_ENCODING), "it has no body");
    }

    #[tokio::test]
    async fn large_answers_read_as_they_were() {
        let gzip = HeaderValue::from_static("gzip");
        for size in [10, SMALLEST - 1, SMALLEST, 5 * SMALLEST] {
            let text: Vec<u8> = (0..size).map(|n| (n % 251).to_le_bytes()[0]).collect();
            let chunks: Vec<_> = text
                .chunks(1000)
                .map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk))))
                .collect();
            let streamed = http_body_util::StreamBody::new(futures_util::stream::iter(chunks));
            for body in [full(text.clone()), streamed.boxed_unsync()] {
                let mut reply = raw(200, "text/plain", Bytes::new());
                *reply.body_mut() = body;
                let reply = compressed(reply, true, Some(&gzip)).await;
                let packed = reply.headers().contains_key(CONTENT_ENCODING);
                assert_eq!(packed, size >= SMALLEST);
                let bytes = reply.into_body().collect().await.expect("readable").to_bytes();
                let mut read = Vec::new();
                if packed {
                    io::Read::read_to_end(&mut GzDecoder::new(&*bytes), &mut read).expect("gzip");
                } else {
                    read = bytes.to_vec();
                }
                assert_eq!(read, text);
            }
        }
    }
}
