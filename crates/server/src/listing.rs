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
use schema::protobuf;
use store::Version;

use crate::{
    Body, ServedResource,
    body::spend,
    encodings::{EncodingCache, write_kind},
    negotiate::Encoding,
};

/// Size of a body frame in bytes.
const FRAME: usize = 64 << 10;
/// Cost of a frame in Tokio's cooperative budget of 128: a connection sends eight frames, then
/// yields to other tasks.
const COST: usize = 16;
/// How many objects are encoded at a time: less than a frame for most kinds.
const BATCH: usize = 16;

/// The body of a list.
struct ListBody {
    served: ServedResource,
    format: Encoding,
    encodings: Arc<EncodingCache>,
    /// Bytes that are not sent yet.
    out: Vec<u8>,
    items: Items,
    first: bool,
    /// Whether the end of the list is in `out` or sent.
    over: bool,
}

/// The items that are not written yet.
enum Items {
    Objects(vec::IntoIter<Arc<Version<Value>>>),
    /// Protobuf has the length of the whole list in front, so all items are encoded first.
    Encoded(vec::IntoIter<Bytes>),
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
    let (out, items) = if format == Encoding::Protobuf {
        let mut encoded = Vec::with_capacity(items.len());
        for batch in items.chunks(BATCH) {
            encodings.encode_all(served, format, batch, |bytes| encoded.push(bytes.clone()));
        }
        let sizes = encoded.iter().map(Bytes::len);
        (
            protobuf::encode_list_header((&api_version, &kind), meta, sizes),
            Items::Encoded(encoded.into_iter()),
        )
    } else {
        let begin = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":"#);
        let mut out = begin.into_bytes();
        write_json(meta, &mut out);
        out.extend_from_slice(b",\"items\":[");
        (out, Items::Objects(items.into_iter()))
    };
    let (served, encodings) = (served.clone(), encodings.clone());
    ListBody { served, format, encodings, out, items, first: true, over: false }.boxed_unsync()
}

impl ListBody {
    /// Encodes the next batch of items, or the end.
    fn more(&mut self) {
        match &mut self.items {
            Items::Objects(objects) if objects.len() > 0 => {
                let count = objects.len().min(BATCH);
                let (batch, _) = objects.as_slice().split_at(count);
                let Self { served, out, first, .. } = self;
                self.encodings.encode_all(served, self.format, batch, |bytes| {
                    if !std::mem::take(first) {
                        out.push(b',');
                    }
                    // Items of custom resources have kind and apiVersion; those of built-in kinds
                    // do not.
                    match served.definition.custom_resource {
                        Some(_) => write_kind(served, out),
                        None => out.push(b'{'),
                    }
                    out.extend_from_slice(bytes);
                });
                objects.nth(count - 1);
            }
            Items::Encoded(encoded) if encoded.len() > 0 => {
                for bytes in encoded.take(BATCH) {
                    protobuf::encode_item_header(bytes.len(), &mut self.out);
                    self.out.extend_from_slice(&bytes);
                }
            }
            Items::Objects(_) => {
                self.out.extend_from_slice(b"]}\n");
                self.over = true;
            }
            Items::Encoded(_) => {
                self.out.extend_from_slice(protobuf::ENVELOPE_TAIL);
                self.over = true;
            }
        }
    }
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        ready!(spend(cx, COST));
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
