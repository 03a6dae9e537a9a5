//! A watch as the body of an answer. It has no task and no buffer: it is polled
//! when the connection can take more.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use object::{Clock, Object, Status, Value};
use ref_cast::RefCast;
use schema::protobuf::encode_event;
use store::Version;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    Body, Notice, Reply, Watch,
    encodings::{self, Encodings},
    negotiate::{As, Form, Format},
    respond::{partial, sealed, sealed_partial, sealed_status, shown, streaming, write_item},
    table,
};

/// How often a client that wants bookmarks gets one.
const BOOKMARK: Duration = Duration::from_mins(1);
/// As much is put into one frame, if it is there already.
const FRAME: usize = 64 << 10;

pub(crate) struct Watching {
    watch: Watch,
    form: Form,
    bookmarks: bool,
    ends: Instant,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    told: bool,
    over: bool,
    clock: Arc<dyn Clock>,
    encodings: Arc<Encodings>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.watch.fmt(f)
    }
}

pub(crate) struct Terms {
    pub(crate) form: Form,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) stop: WaitForCancellationFutureOwned,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) encodings: Arc<Encodings>,
}

pub(crate) fn reply(watch: Watch, terms: Terms) -> Reply {
    let Terms { form, bookmarks, timeout, stop, clock, encodings } = terms;
    let ends = Instant::now() + timeout;
    let media_type = match form.format {
        Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let mut watching = Watching {
        watch,
        form,
        bookmarks,
        ends,
        timer: Box::pin(sleep_until(ends)),
        stop: Box::pin(stop),
        told: false,
        over: false,
        clock,
        encodings,
    };
    watching.rearm();
    let body: Body = watching.boxed_unsync();
    streaming(media_type, body)
}

impl Watching {
    fn rearm(&mut self) {
        let next = if self.bookmarks { Instant::now() + BOOKMARK } else { self.ends };
        self.timer.as_mut().reset(next.min(self.ends));
    }

    fn write(&mut self, notice: &Notice, out: &mut Vec<u8>) {
        match notice {
            Notice::Added(revision, version) => self.event("ADDED", *revision, version, out),
            Notice::Modified(revision, version) => self.event("MODIFIED", *revision, version, out),
            Notice::Deleted(revision, version) => self.event("DELETED", *revision, version, out),
            Notice::Initial(revision) => self.bookmark(*revision, true, out),
        }
    }

    fn event(
        &mut self,
        event: &'static str,
        revision: u64,
        version: &Arc<Version<Value>>,
        out: &mut Vec<u8>,
    ) {
        let served = self.watch.served();
        let object = match self.form.into {
            As::Object => return self.whole(event, revision, version, out),
            As::Metadata => partial(&shown(served, revision, &version.object), self.form),
            As::Table => {
                let now = self.clock.now();
                let rows = [(revision, &version.object)];
                let mut table = table::table(served, &rows, self.form, now);
                if std::mem::replace(&mut self.told, true) {
                    table["columnDefinitions"] = Value::Null; // only the first event names them
                }
                table
            }
        };
        self.put(event, &object, out);
    }

    /// The object itself: many watch in this form, so its bytes are shared.
    fn whole(
        &self,
        event: &'static str,
        revision: u64,
        version: &Arc<Version<Value>>,
        out: &mut Vec<u8>,
    ) {
        let served = self.watch.served();
        let form = encodings::Form {
            event,
            revision,
            version: version.clone(),
            definition: served.definition.clone(),
            format: self.form.format,
        };
        let bytes = self.encodings.get(form, || {
            let mut bytes = Vec::new();
            if self.form.format == Format::Json && served.is_same() {
                bytes.extend_from_slice(b"{\"type\":\"");
                bytes.extend_from_slice(event.as_bytes());
                bytes.extend_from_slice(b"\",\"object\":");
                write_item(revision, &version.object, true, &mut bytes);
                bytes.extend_from_slice(b"}\n");
            } else {
                self.put(event, &shown(served, revision, &version.object), &mut bytes);
            }
            bytes
        });
        out.extend_from_slice(&bytes);
    }

    fn bookmark(&mut self, revision: u64, initial: bool, out: &mut Vec<u8>) {
        let names = &self.watch.served().definition.names;
        let mut object = Value::object();
        object["apiVersion"] = names.api_version().into();
        object["kind"] = names.kind.into();
        let meta = Object::ref_cast_mut(&mut object).metadata_mut();
        meta.set_resource_version(revision.to_string());
        if initial {
            meta.annotations_mut().insert("k8s.io/initial-events-end", "true");
        }
        let object =
            if self.form.into == As::Metadata { partial(&object, self.form) } else { object };
        self.put("BOOKMARK", &object, out);
    }

    fn put(&self, event: &str, object: &Value, out: &mut Vec<u8>) {
        if self.form.format == Format::Protobuf {
            let sealed = match (event, self.form.into) {
                ("ERROR", _) => sealed_status(object),
                (_, As::Object) => sealed(&self.watch.served().definition, object),
                _ => sealed_partial(object, self.form),
            };
            let frame = encode_event(event, &sealed);
            out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(&frame);
            return;
        }
        let mut line = Value::object();
        line["type"] = event.into();
        line["object"] = object.clone();
        object::write_json(&line, out);
        out.push(b'\n');
    }

    /// Tells why the watch ends.
    fn error(&mut self, status: Status, out: &mut Vec<u8>) {
        let mut object: Value = status.into();
        object["kind"] = "Status".into();
        object["apiVersion"] = "v1".into();
        self.put("ERROR", &object, out);
        self.over = true;
    }
}

impl HttpBody for Watching {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let mut out = Vec::new();
        while !this.over && out.len() < FRAME {
            match this.watch.poll_next(cx) {
                Poll::Ready(Some(Ok(notice))) => this.write(&notice, &mut out),
                Poll::Ready(Some(Err(status))) => this.error(status, &mut out),
                Poll::Ready(None) => this.over = true,
                Poll::Pending if out.is_empty() => {
                    if this.stop.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(None);
                    }
                    if this.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if Instant::now() >= this.ends {
                        return Poll::Ready(None);
                    }
                    let revision = this.watch.complete_through();
                    this.bookmark(revision, false, &mut out);
                    this.rearm();
                }
                Poll::Pending => break,
            }
        }
        if out.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}
