//! The streamed body of a list. Objects are encoded while the body is sent, so that a large list
//! needs little memory.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use object::{Value, write_json};
use schema::{Origin, protobuf};
use store::Version;

use crate::{
    Body, ServedResource,
    body::{FRAME, FRAME_COST, spend},
    encodings::{EncodingCache, write_kind},
    negotiate::Encoding,
};

/// How many objects are encoded at a time: less than a frame for most kinds.
pub(crate) const BATCH: usize = 16;

/// The body of a list.
struct ListBody {
    served: ServedResource,
    format: Encoding,
    encodings: Arc<EncodingCache>,
    /// Bytes that are not sent yet.
    out: Vec<u8>,
    items: vec::IntoIter<Arc<Version<Value>>>,
    first: bool,
    /// Whether the end of the list is in `out` or sent.
    over: bool,
}

/// Builds the body of a list in JSON or protobuf.
pub(crate) fn listing(
    encodings: &Arc<EncodingCache>,
    served: &ServedResource,
    format: Encoding,
    meta: &Value,
    items: Vec<Arc<Version<Value>>>,
) -> Body {
    let kind = served.definition.list_kind();
    let api_version = served.definition.names.api_version();
    let out = if format == Encoding::Protobuf {
        // The length of the whole list comes first. Only the sizes are kept: what is not cached is
        // encoded twice, so that a list whose client reads slowly holds little memory.
        let mut sizes = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            encodings.encode_all(served, format, batch, |bytes| sizes.push(bytes.len()));
        }
        protobuf::encode_list_header((&api_version, &kind), meta, sizes.into_iter())
    } else {
        let begin = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#);
        let mut out = begin.into_bytes();
        write_json(meta, &mut out);
        out.extend_from_slice(b",\"items\":[");
        out
    };
    let (served, encodings, items) = (served.clone(), encodings.clone(), items.into_iter());
    ListBody { served, format, encodings, out, items, first: true, over: false }.boxed_unsync()
}

impl ListBody {
    /// Encodes the next batch of items, or the end.
    fn more(&mut self) {
        let count = self.items.len().min(BATCH);
        let Self { served, format, out, first, .. } = self;
        if count == 0 {
            let end = if *format == Encoding::Protobuf { protobuf::ENVELOPE_TAIL } else { b"]}\n" };
            out.extend_from_slice(end);
            self.over = true;
            return;
        }
        let (batch, _) = self.items.as_slice().split_at(count);
        self.encodings.encode_all(served, *format, batch, |bytes| {
            if *format == Encoding::Protobuf {
                protobuf::encode_item_header(bytes.len(), out);
                return out.extend_from_slice(bytes);
            }
            if !std::mem::take(first) {
                out.push(b',');
            }
            // Items of custom resources have kind and apiVersion; those of built-in kinds do not.
            match served.definition.origin {
                Origin::Custom(_) => write_kind(served, out),
                Origin::BuiltIn => out.push(b'{'),
            }
            out.extend_from_slice(bytes);
        });
        self.items.nth(count - 1);
    }
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        ready!(spend(cx, FRAME_COST));
        self.out.reserve(FRAME);
        while !self.over && self.out.len() < FRAME {
            self.more();
        }
        if self.out.is_empty() {
            return Poll::Ready(None);
        }
        let out = std::mem::take(&mut self.out);
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.over && self.out.is_empty()
    }
}
