//! The body of a watch response. It has no task and no buffer: it is polled when the connection can
//! send.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use object::{Clock, Object, Status, Value, bounded_wait};
use ref_cast::RefCast;
use schema::protobuf::{encode_envelope, encode_event};
use store::Version;
use tokio::time::Instant;

use crate::{
    Body, Reply, ServedResource, Watch, WatchEvent,
    body::{full, spend},
    cbor,
    encodings::{EncodingCache, write_kind},
    metrics::WatchMetrics,
    negotiate::{Encoding, MediaTypeOptions, Representation},
    respond::{
        encode_protobuf, partial, sealed_partial, sealed_status, shape_of, streaming,
        to_response_object, with_resource_version,
    },
    table,
    timer_queue::{Timer, TimerQueue},
};

/// Interval of bookmarks.
const BOOKMARK: Duration = Duration::from_mins(1);
/// Delay of the first bookmark after the initial events.
const FIRST: Duration = Duration::from_millis(900);
/// How long before the timeout the last bookmark is sent.
const LAST: Duration = Duration::from_secs(2);
/// Maximum size of a frame; available events are combined up to it.
const FRAME: usize = 64 << 10;

/// The body of a watch response.
pub(crate) struct WatchBody {
    watch: Watch,
    form: MediaTypeOptions,
    bookmarks: bool,
    ends: Instant,
    alarm: Timer,
    columns_sent: bool,
    over: bool,
    clock: Arc<dyn Clock>,
    encodings: Arc<EncodingCache>,
    watched: Arc<WatchMetrics>,
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.watched.open.fetch_sub(1, Relaxed);
    }
}

impl std::fmt::Debug for WatchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.watch.fmt(f)
    }
}

/// Options and dependencies of a watch response.
pub(crate) struct WatchParams {
    pub(crate) form: MediaTypeOptions,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) bell: Arc<TimerQueue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) encodings: Arc<EncodingCache>,
    pub(crate) watched: Arc<WatchMetrics>,
}

/// Builds the response of a watch.
pub(crate) fn reply(watch: Watch, terms: WatchParams) -> Reply {
    let WatchParams { form, bookmarks, timeout, bell, clock, encodings, watched } = terms;
    watched.open.fetch_add(1, Relaxed);
    let ends = Instant::now() + bounded_wait(timeout);
    let mut watching = WatchBody {
        watch,
        form,
        bookmarks,
        ends,
        alarm: bell.timer(ends),
        columns_sent: false,
        over: false,
        clock,
        encodings,
        watched,
    };
    watching.rearm(if watching.watch.sends_initial_events() { FIRST } else { BOOKMARK });
    let body: Body = watching.boxed_unsync();
    streaming(media_type(form), body)
}

/// A watch that only has an ERROR event, as upstream's watch cache responds.
pub(crate) fn error_watch(served: &ServedResource, form: MediaTypeOptions, why: Status) -> Reply {
    let mut out = Vec::new();
    put(served, form, ("ERROR", &named(why)), &mut out);
    streaming(media_type(form), full(out))
}

fn media_type(form: MediaTypeOptions) -> &'static str {
    match form.format {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Encoding::Cbor => "application/cbor-seq",
        _ => "application/json",
    }
}

impl WatchBody {
    /// Sets the timer to the next bookmark, or to the end of the watch.
    fn rearm(&mut self, wait: Duration) {
        let now = Instant::now();
        let next = (now + wait).min(self.ends.checked_sub(LAST).unwrap_or(now));
        let next = if wait == FIRST { now + wait } else { next };
        let due = self.bookmarks && next > now;
        self.alarm.reset(if due { next.min(self.ends) } else { self.ends });
    }

    fn write(&mut self, notice: &WatchEvent, out: &mut Vec<u8>) {
        let before = out.len();
        match notice {
            WatchEvent::Added(revision, version) => self.event("ADDED", *revision, version, out),
            WatchEvent::Modified(revision, version) => {
                self.event("MODIFIED", *revision, version, out);
            }
            WatchEvent::Deleted(revision, version) => {
                self.event("DELETED", *revision, version, out);
            }
            WatchEvent::InitialEventsEnd(revision) => self.bookmark(*revision, true, out),
        }
        let size = u32::try_from(out.len() - before).unwrap_or(u32::MAX);
        self.watched.events.observe(size.into());
    }

    fn event(
        &mut self,
        event: &'static str,
        revision: u64,
        version: &Arc<Version<Value>>,
        out: &mut Vec<u8>,
    ) {
        let served = self.watch.served();
        if self.form.representation == Representation::Metadata && self.form.list {
            self.over = true; // an event cannot be a list
            return;
        }
        let object = match self.form.representation {
            Representation::Object => return self.whole(event, revision, version, out),
            Representation::Metadata => {
                partial(&with_resource_version(revision, version.object.clone()), self.form)
            }
            Representation::Table => {
                let now = self.clock.now();
                let rows = [(revision, &version.object)];
                let mut table = table::table(served, &rows, self.form, now);
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null; // only the first event has them
                }
                table
            }
        };
        self.put(event, &object, out);
    }

    /// Writes an event with the whole object. Many watches use this form, so its encoding is
    /// cached.
    fn whole(
        &self,
        event: &'static str,
        revision: u64,
        version: &Arc<Version<Value>>,
        out: &mut Vec<u8>,
    ) {
        let served = self.watch.served();
        if matches!(self.form.format, Encoding::Yaml | Encoding::Cbor) {
            return self.put(event, &to_response_object(served, revision, &version.object), out);
        }
        let bytes = self.encodings.encode(served, self.form.format, revision, version);
        if self.form.format == Encoding::Protobuf {
            let names = &served.definition.names;
            return frame(event, &encode_envelope(&names.api_version(), names.kind, &bytes), out);
        }
        out.reserve(bytes.len() + 128);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(event.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        write_kind(served, out);
        out.extend_from_slice(&bytes);
        out.extend_from_slice(b"}\n");
    }

    fn bookmark(&mut self, revision: u64, initial: bool, out: &mut Vec<u8>) {
        let names = &self.watch.served().internal.names;
        let mut object = Value::object();
        object["apiVersion"] = names.api_version().into();
        object["kind"] = names.kind.into();
        let meta = Object::ref_cast_mut(&mut object).metadata_mut();
        meta.set_resource_version(revision.to_string());
        if initial {
            meta.annotations_mut().insert("k8s.io/initial-events-end", "true");
        }
        self.watch.served().internal.normalize(&mut object);
        object.retain(|name, value| {
            if !matches!(name, "apiVersion" | "kind" | "metadata") {
                undefault(value);
            }
            true
        });
        match self.form.representation {
            Representation::Object => {
                let object = to_response_object(self.watch.served(), revision, &object);
                self.put("BOOKMARK", &object, out);
            }
            _ => self.event("BOOKMARK", revision, &Arc::new(Version { revision, object }), out),
        }
    }

    fn put(&self, event: &str, object: &Value, out: &mut Vec<u8>) {
        put(self.watch.served(), self.form, (event, object), out);
    }

    /// Ends the watch with an ERROR event.
    fn error(&mut self, status: Status, out: &mut Vec<u8>) {
        self.put("ERROR", &named(status), out);
        self.over = true;
    }
}

/// Removes defaults: the object of a bookmark has none.
fn undefault(value: &mut Value) {
    value.retain(|_, inner| {
        undefault(inner);
        !matches!(inner, Value::Bool(true))
            && inner.as_str().is_none_or(str::is_empty)
            && inner.as_i64().is_none_or(|number| number == 0)
    });
}

fn named(status: Status) -> Value {
    let mut object: Value = status.into();
    object["kind"] = "Status".into();
    object["apiVersion"] = "v1".into();
    object["metadata"] = Value::object();
    object
}

fn put(
    served: &ServedResource,
    form: MediaTypeOptions,
    (event, object): (&str, &Value),
    out: &mut Vec<u8>,
) {
    if form.format == Encoding::Protobuf {
        let sealed = match (event, form.representation) {
            ("ERROR", _) => sealed_status(object),
            (_, Representation::Object) => encode_protobuf(&served.definition, object),
            _ => sealed_partial(object, form),
        };
        return frame(event, &sealed, out);
    }
    if form.format == Encoding::Cbor {
        let shape = match (event, form.representation) {
            (event, Representation::Object) if event != "ERROR" => shape_of(&served.definition),
            _ => None,
        };
        return cbor::event(event, &cbor::encode_document(shape, object), out);
    }
    let mut line = Value::object();
    line["type"] = event.into();
    line["object"] = object.clone();
    object::write_json(&line, out);
    out.push(b'\n');
}

/// Writes a length-prefixed protobuf event.
fn frame(event: &str, sealed: &[u8], out: &mut Vec<u8>) {
    let frame = encode_event(event, sealed);
    out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&frame);
}

impl HttpBody for WatchBody {
    type Data = Bytes;
    type Error = io::Error;

    /// A panic ends only this watch; its client starts a new one.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        ready!(spend(cx, 1));
        match panics::catch("watch", || self.poll_events(cx)) {
            Ok(polled) => polled.map(|frame| frame.map(Ok)),
            Err(panicked) => {
                self.over = true;
                Poll::Ready(Some(Err(io::Error::other(panicked))))
            }
        }
    }
}

impl WatchBody {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let this = self;
        let mut out = Vec::new();
        while !this.over && out.len() < FRAME {
            match this.watch.poll_next(cx) {
                Poll::Ready(Some(Ok(notice))) => this.write(&notice, &mut out),
                Poll::Ready(Some(Err(status))) => this.error(status, &mut out),
                Poll::Ready(None) => this.over = true,
                Poll::Pending if out.is_empty() => {
                    if this.alarm.is_shut_down() || Instant::now() >= this.ends {
                        return Poll::Ready(None);
                    }
                    if !this.alarm.is_due() {
                        this.alarm.set(cx.waker());
                        return Poll::Pending;
                    }
                    let revision = this.watch.complete_through();
                    this.bookmark(revision, false, &mut out);
                    this.rearm(BOOKMARK);
                }
                Poll::Pending => break,
            }
        }
        if out.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Frame::data(out.into())))
    }
}
