//! The streamed body of a list in a form that is not cached: a table, YAML, indented JSON, or
//! metadata alone. Like [`listing`](crate::listing), it encodes objects while the body is sent.

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
use object::{Value, to_json_pretty, write_json, yaml::to_yaml};
use store::Version;

use crate::{
    Body, ListResult, Reply, ServedResource,
    answer_budget::{AnswerWeight, STREAMED},
    body::{FRAME, FRAME_COST, spend},
    encodings::EncodingCache,
    listing::{BATCH, listing},
    negotiate::{Encoding, MediaTypeOptions, Representation},
    respond::{bare, named_list, partial, streaming, with_resource_version},
    table,
};

/// Lists whose objects take less memory than this are encoded as a whole.
const LARGE: usize = 256 << 10;

/// How the items of a list are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Compact,
    Pretty,
    Yaml,
}

/// Replies with a list that is encoded while it is sent; gives it back if it is small or has a form
/// that cannot be streamed.
pub(crate) fn streamed_list(
    encodings: &Arc<EncodingCache>,
    served: &ServedResource,
    mut list: ListResult,
    (head, form): (&Value, MediaTypeOptions),
    now: i64,
) -> Result<Reply, ListResult> {
    // Objects that only this list refers to are freed when it is sent.
    let unshared = list.items.iter().filter(|version| Arc::strong_count(version) == 1);
    let weight = unshared.fold(STREAMED, |sum, version| sum + version.object.footprint());
    let own = served.clone();
    let body = match form.representation {
        Representation::Object if form.is_cacheable() => {
            Some(listing(encodings, served, form.format, head, std::mem::take(&mut list.items)))
        }
        _ if !is_large(&list.items)
            || matches!(form.format, Encoding::Cbor | Encoding::Protobuf) =>
        {
            return Err(list);
        }
        Representation::Table => {
            let kind = served.presentation();
            list.items.sort_by_cached_key(|version| kind.strategy.table_sort_key(&version.object));
            let table = table::empty_table(served, head.clone(), form);
            let row = move |version: &Version<Value>| {
                table::list_row(&own, (version.revision, &version.object), form, now)
            };
            document_list(&table, "rows", form, std::mem::take(&mut list.items), row)
        }
        Representation::Metadata if !form.list => return Err(list),
        Representation::Metadata => {
            let mut document = Value::object();
            document["kind"] = "PartialObjectMetadataList".into();
            document["apiVersion"] = form.version.into();
            document["metadata"] = head.clone();
            document["items"] = std::iter::empty::<Value>().collect();
            let item = move |version: &Version<Value>| {
                partial(&with_resource_version(version.revision, version.object.clone()), form)
            };
            document_list(&document, "items", form, std::mem::take(&mut list.items), item)
        }
        Representation::Object => {
            let mut document = named_list(served);
            document["metadata"] = head.clone();
            document["items"] = std::iter::empty::<Value>().collect();
            let item = move |version: &Version<Value>| bare(&own, version);
            document_list(&document, "items", form, std::mem::take(&mut list.items), item)
        }
    };
    let Some(body) = body else { return Err(list) };
    let mut reply = streaming(form.media_type(), body);
    reply.extensions_mut().insert(AnswerWeight(weight));
    Ok(reply)
}

/// Whether the list is so large that it is streamed.
fn is_large(items: &[Arc<Version<Value>>]) -> bool {
    let mut size = 0_usize;
    items.iter().any(|version| {
        size = size.saturating_add(version.object.footprint());
        size > LARGE
    })
}

/// Builds the body of a document that has an empty list as `field`. The items of that list are made
/// and encoded while the body is sent. `None` if the form cannot be streamed.
fn document_list(
    document: &Value,
    field: &'static str,
    form: MediaTypeOptions,
    items: Vec<Arc<Version<Value>>>,
    make: impl FnMut(&Version<Value>) -> Value + Send + Unpin + 'static,
) -> Option<Body> {
    let layout = match form.format {
        Encoding::Yaml => Layout::Yaml,
        Encoding::Cbor | Encoding::Protobuf => return None,
        Encoding::Json if form.pretty => Layout::Pretty,
        Encoding::Json => Layout::Compact,
    };
    let (out, tail) = layout.split(document, field)?;
    let items = items.into_iter();
    Some(
        DocumentBody { layout, field, out, items, make, tail, first: true, over: false }
            .boxed_unsync(),
    )
}

impl Layout {
    /// Encodes the document; returns what comes before and after the items.
    fn split(self, document: &Value, field: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let (text, hole, begin, end) = match self {
            Self::Compact => {
                let mut text = Vec::new();
                write_json(document, &mut text);
                text.push(b'\n');
                (text, format!("\"{field}\":[]"), format!("\"{field}\":["), "]")
            }
            Self::Pretty => {
                let text = to_json_pretty(document);
                (text, format!("\"{field}\": []"), format!("\"{field}\": [\n"), "\n  ]")
            }
            Self::Yaml => {
                let text = to_yaml(document).into_bytes();
                (text, format!("{field}: []\n"), format!("{field}:\n"), "")
            }
        };
        let text = String::from_utf8(text).ok()?;
        // Inside of a string the quotes would be escaped; in YAML it would be indented.
        let at = match self {
            Self::Yaml if !text.starts_with(&hole) => text.find(&format!("\n{hole}"))? + 1,
            _ => text.find(&hole)?,
        };
        let (before, rest) = text.split_at_checked(at)?;
        let after = rest.strip_prefix(&hole)?;
        Some((format!("{before}{begin}").into_bytes(), format!("{end}{after}").into_bytes()))
    }

    fn separator(self) -> &'static [u8] {
        match self {
            Self::Compact => b",",
            Self::Pretty => b",\n",
            Self::Yaml => b"",
        }
    }

    /// Encodes items as they stand in the list, without the brackets around them.
    fn encode(self, field: &str, items: Vec<Value>, out: &mut Vec<u8>) {
        let listed = |items: Vec<Value>| {
            let mut object = Value::object();
            object[field] = items.into_iter().collect();
            object
        };
        match self {
            Self::Compact => {
                for (nth, item) in items.iter().enumerate() {
                    if nth > 0 {
                        out.push(b',');
                    }
                    write_json(item, out);
                }
            }
            Self::Pretty => {
                let text = String::from_utf8(to_json_pretty(&listed(items))).unwrap_or_default();
                let inner = text.split_once("[\n").map_or("", |(_, inner)| inner);
                let inner = inner.rsplit_once("\n  ]").map_or("", |(inner, _)| inner);
                out.extend_from_slice(inner.as_bytes());
            }
            Self::Yaml => {
                let text = to_yaml(&listed(items));
                out.extend_from_slice(
                    text.split_once('\n').map_or("", |(_, inner)| inner).as_bytes(),
                );
            }
        }
    }
}

/// The body of a document with a list.
struct DocumentBody<F> {
    layout: Layout,
    field: &'static str,
    /// Bytes that are not sent yet.
    out: Vec<u8>,
    items: vec::IntoIter<Arc<Version<Value>>>,
    make: F,
    /// What comes after the items.
    tail: Vec<u8>,
    first: bool,
    /// Whether the end of the document is in `out` or sent.
    over: bool,
}

impl<F: FnMut(&Version<Value>) -> Value> DocumentBody<F> {
    /// Encodes the next batch of items, or the end.
    fn more(&mut self) {
        let made: Vec<Value> =
            self.items.by_ref().take(BATCH).map(|version| (self.make)(&version)).collect();
        if made.is_empty() {
            self.out.append(&mut self.tail);
            self.over = true;
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.extend_from_slice(self.layout.separator());
        }
        self.layout.encode(self.field, made, &mut self.out);
    }
}

impl<F: FnMut(&Version<Value>) -> Value + Unpin> HttpBody for DocumentBody<F> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        ready!(spend(cx, FRAME_COST));
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

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;
    use crate::table::IncludeObjectPolicy;

    /// Items are written one by one as they are written together.
    #[tokio::test]
    async fn what_is_streamed_reads_as_the_whole() {
        let object = |n: u64| {
            let text = format!(
                r#"{{"metadata":{{"name":"n{n}","annotations":{{"a":"\"rows\":[]\nrows: []\n"}}}},
                "data":{{"k":"x: [\n  ]\n- y","e":""}},"l":[1,{{"rows":[]}},[]],"n":null}}"#
            );
            from_json(text.as_bytes()).expect("well formed")
        };
        let mut document = from_json(
            br#"{"kind":"Table","apiVersion":"v1","columnDefinitions":[{"description":"\"rows\": []\nrows: []\n"}],
            "rows":[],"metadata":{"resourceVersion":"7"}}"#,
        )
        .expect("well formed");
        for count in [1, 2, 16, 17, 40] {
            let items: Vec<_> = (0..count)
                .map(|revision| Arc::new(Version { revision, object: object(revision) }))
                .collect();
            for layout in [Layout::Compact, Layout::Pretty, Layout::Yaml] {
                let form = MediaTypeOptions {
                    format: if layout == Layout::Yaml { Encoding::Yaml } else { Encoding::Json },
                    representation: Representation::Table,
                    list: false,
                    version: "v1",
                    include: IncludeObjectPolicy::Object,
                    pretty: layout == Layout::Pretty,
                };
                document["rows"] = std::iter::empty::<Value>().collect();
                let make = |version: &Version<Value>| version.object.clone();
                let body = document_list(&document, "rows", form, items.clone(), make);
                let body = body.expect("it can be streamed").collect().await.expect("no error");
                document["rows"] = items.iter().map(|item| item.object.clone()).collect();
                let whole = match layout {
                    Layout::Compact => {
                        let mut out = object::to_json(&document);
                        out.push(b'\n');
                        out
                    }
                    Layout::Pretty => to_json_pretty(&document),
                    Layout::Yaml => to_yaml(&document).into_bytes(),
                };
                let streamed = body.to_bytes();
                assert_eq!(
                    String::from_utf8_lossy(&streamed),
                    String::from_utf8_lossy(&whole),
                    "{layout:?}, {count} items"
                );
            }
        }
    }
}
