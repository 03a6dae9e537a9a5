//! Tracing: OpenTelemetry spans of requests. Without a tracer, and without a `traceparent` header
//! in the request, it does nothing.
//!
//! ```text
//!  GET /api/v1/…/{:name}      the server span, a child of the caller's span if that is trusted
//!    Get                      …
//!    Call mutating webhook    …
//!      HTTP POST              propagated to the webhook in `traceparent`
//! ```

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts};
use object::{Clock, Text};
use tokio::sync::mpsc;

use crate::{Peer, Request, RequestInfo, UserInfo, registry::random};

/// Capacity of the queue to the exporter; spans beyond it are lost.
const WAITING: usize = 2048;
const PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Headers that are propagated along with `traceparent`.
const ALONG: [HeaderName; 2] =
    [HeaderName::from_static("tracestate"), HeaderName::from_static("baggage")];

/// Decides which requests are sampled, and queues their spans.
#[derive(Debug)]
pub struct Tracer {
    queue: mpsc::Sender<Span>,
    /// Sampling rate per million, for requests without a trusted trace context.
    rate: u32,
    clock: Arc<dyn Clock>,
}

/// A finished span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: [u8; 16],
    pub id: [u8; 8],
    pub parent: Option<[u8; 8]>,
    /// The caller's trace and span, if this span is only linked to them.
    pub link: Option<([u8; 16], [u8; 8])>,
    pub name: Text,
    pub kind: Kind,
    /// Times in microseconds since 1970.
    pub began: i64,
    pub ended: i64,
    pub attributes: Vec<(&'static str, Attribute)>,
    pub failed: bool,
}

/// The span kind, with OpenTelemetry's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(Text),
    Number(i64),
}

impl<T: Into<Text>> From<T> for Attribute {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// The attributes of a span.
pub type Attributes = Vec<(&'static str, Attribute)>;

/// The current position in a trace.
#[derive(Clone, Debug)]
struct SpanContext {
    /// `None` if spans are not collected and the context is only propagated.
    tracer: Option<Arc<Tracer>>,
    trace: [u8; 16],
    id: [u8; 8],
    sampled: bool,
    along: Vec<(HeaderName, HeaderValue)>,
}

tokio::task_local! {
    static CURRENT: SpanContext;
}

impl Tracer {
    /// A tracer with this sampling rate per million, and the receiver of its spans.
    pub fn new(rate: u32, clock: Arc<dyn Clock>) -> (Arc<Self>, mpsc::Receiver<Span>) {
        let (queue, spans) = mpsc::channel(WAITING);
        (Arc::new(Self { queue, rate, clock }), spans)
    }

    /// Samples by the trace id, like OpenTelemetry's TraceIDRatioBased, so that other services
    /// decide alike.
    fn samples(&self, trace: &[u8; 16]) -> bool {
        let end = trace[8..].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)) >> 1;
        u128::from(end) < (u128::from(self.rate) << 63) / 1_000_000
    }
}

/// Runs `work` in a child span, if the current request is sampled.
pub async fn span<T>(
    name: &'static str,
    attributes: impl FnOnce() -> Attributes,
    work: impl Future<Output = T>,
) -> T {
    let Ok(place) = CURRENT.try_with(Clone::clone) else { return work.await };
    let Some(tracer) = place.tracer.clone().filter(|_| place.sampled) else { return work.await };
    let began = tracer.clock.now_micros();
    let inner = SpanContext { id: random(), ..place.clone() };
    let (trace, id) = (inner.trace, inner.id);
    let done = CURRENT.scope(inner, work).await;
    let kind = if name.starts_with("HTTP ") { Kind::Client } else { Kind::Internal };
    let span = Span {
        trace,
        id,
        parent: Some(place.id),
        link: None,
        name: name.into(),
        kind,
        began,
        ended: tracer.clock.now_micros(),
        attributes: attributes(),
        failed: false,
    };
    let _ = tracer.queue.try_send(span); // the exporter must not delay requests
    done
}

/// Adds the current trace context to the headers of an outgoing request.
pub fn inject_trace_context(headers: &mut HeaderMap) {
    let _ = CURRENT.try_with(|place| {
        let text =
            format!("00-{}-{}-{:02x}", hex(&place.trace), hex(&place.id), u8::from(place.sampled));
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(PARENT, value);
        }
        headers.extend(place.along.iter().cloned());
    });
}

/// The span of a request.
pub(crate) struct RequestSpan {
    place: SpanContext,
    parent: Option<[u8; 8]>,
    link: Option<([u8; 16], [u8; 8])>,
    name: Text,
    attributes: Attributes,
}

impl RequestSpan {
    /// `None` if there is no tracer and the request has no trace context.
    fn new(tracer: Option<&Arc<Tracer>>, headers: &HeaderMap, user: &UserInfo) -> Option<Self> {
        let named = headers.get(PARENT).and_then(|named| parse(named.to_str().ok()?));
        if tracer.is_none() && named.is_none() {
            return None;
        }
        let along = ALONG.into_iter().flat_map(|name| {
            let values = headers.get_all(&name).iter();
            values.map(|value| (name.clone(), value.clone())).collect::<Vec<_>>()
        });
        let place = |trace, id, sampled| SpanContext {
            tracer: tracer.cloned(),
            trace,
            id,
            sampled,
            along: along.collect(),
        };
        let Some(tracer) = tracer else {
            let (trace, id, sampled) = named?;
            return Some(Self::at(place(trace, id, sampled), None, None));
        };
        // Sampling costs resources, so the trace context of a request is only trusted from
        // administrators and monitoring.
        let believed = user.in_group("system:masters") || user.in_group("system:monitoring");
        Some(match named {
            Some((trace, parent, sampled)) if believed => {
                Self::at(place(trace, random(), sampled), Some(parent), None)
            }
            named => {
                let trace = random();
                let sampled = tracer.samples(&trace);
                let link = named.map(|(trace, id, _)| (trace, id));
                Self::at(place(trace, random(), sampled), None, link)
            }
        })
    }

    fn at(place: SpanContext, parent: Option<[u8; 8]>, link: Option<([u8; 16], [u8; 8])>) -> Self {
        Self { place, parent, link, name: Text::default(), attributes: Vec::new() }
    }

    /// The span of a request, with name and attributes.
    pub(crate) fn of(
        tracer: Option<&Arc<Tracer>>,
        (head, info, user): (&Parts, &RequestInfo, &UserInfo),
        (id, peer): (&str, &Peer),
    ) -> Option<Self> {
        let begun = Self::new(tracer, &head.headers, user)?;
        let address = peer.address.map(|address| address.ip().to_string());
        let attributes = about(head, id, address.as_deref().unwrap_or_default());
        Some(Self { name: name(head.method.as_str(), info), attributes, ..begun })
    }

    /// Runs the request; `code` returns the status of its response.
    pub(crate) async fn run<T>(
        self,
        began: i64,
        work: impl Future<Output = T>,
        code: impl FnOnce(&T) -> StatusCode,
    ) -> T {
        let Self { place, parent, link, name, mut attributes } = self;
        let tracer = place.tracer.clone().filter(|_| place.sampled);
        let (trace, id) = (place.trace, place.id);
        let done = CURRENT.scope(place, work).await;
        if let Some(tracer) = tracer {
            let code = code(&done);
            let number = Attribute::Number(code.as_u16().into());
            attributes.push(("http.response.status_code", number));
            let (ended, kind) = (tracer.clock.now_micros(), Kind::Server);
            let failed = code.is_server_error();
            let span =
                Span { trace, id, parent, link, name, kind, began, ended, attributes, failed };
            let _ = tracer.queue.try_send(span);
        }
        done
    }
}

/// The span name of a request: the path with placeholders for names.
fn name(method: &str, info: &RequestInfo) -> Text {
    if !info.is_resource {
        return method.into();
    }
    let mut path =
        if info.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", info.group) };
    path += &format!("/{}", info.version);
    if !info.namespace.is_empty() {
        path += "/namespaces/{:namespace}";
    }
    path += &format!("/{}", info.resource);
    if !info.name.is_empty() {
        path += "/{:name}";
    }
    if !info.subresource.is_empty() {
        path += &format!("/{}", info.subresource);
    }
    format!("{method} {path}").into()
}

/// The attributes of a request.
fn about(head: &Parts, id: &str, address: &str) -> Attributes {
    let text = |value: Option<&HeaderValue>| {
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let protocol = match head.version {
        http::Version::HTTP_2 => "2",
        http::Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    let host = head.uri.host().map(str::to_owned);
    let host = host.unwrap_or_else(|| text(head.headers.get(http::header::HOST)));
    let host = host.rsplit_once(':').map_or(&*host, |(host, _)| host).to_owned();
    vec![
        ("server.address", host.into()),
        ("http.request.method", head.method.as_str().into()),
        ("url.scheme", "https".into()),
        ("network.peer.address", address.into()),
        ("user_agent.original", text(head.headers.get(http::header::USER_AGENT)).into()),
        ("url.path", head.uri.path().into()),
        ("network.protocol.version", protocol.into()),
        ("http.target", target.into()),
        ("audit-id", id.into()),
    ]
}

/// Name and attributes of the child span for the operation on objects; `None` if there is none or
/// the request is not sampled.
pub(crate) fn part(request: &Request) -> Option<(&'static str, Attributes)> {
    let collected = CURRENT.try_with(|place| place.sampled && place.tracer.is_some());
    let info = &request.info;
    if !collected.unwrap_or_default() || !info.is_resource {
        return None;
    }
    let name = match &*info.verb {
        "get" => "Get",
        "list" => "List",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => return None,
    };
    let agent = request.head.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let attributes = vec![
        ("api-group", info.group.clone().into()),
        ("api-version", info.version.clone().into()),
        ("name", info.name.clone().into()),
        ("subresource", info.subresource.clone().into()),
        ("namespace", info.namespace.clone().into()),
        ("resource", info.resource.clone().into()),
        ("url", request.head.uri.path().into()),
        ("user-agent", agent.into()),
        ("verb", info.verb.clone().into()),
    ];
    Some((name, attributes))
}

/// Parses `00-TRACE-SPAN-FLAGS`, in hexadecimal digits.
fn parse(text: &str) -> Option<([u8; 16], [u8; 8], bool)> {
    let mut parts = text.split('-');
    let (version, trace, id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let known =
        version.len() == 2 && version != "ff" && (version != "00" || parts.next().is_none());
    let (trace, id) = (bytes::<16>(trace)?, bytes::<8>(id)?);
    let flags = bytes::<1>(flags)?[0];
    let named = trace != [0; 16] && id != [0; 8];
    (known && bytes::<1>(version).is_some() && named).then_some((trace, id, flags & 1 == 1))
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return None;
    }
    let mut out = [0; N];
    let mut rest = text;
    for byte in &mut out {
        let (two, after) = rest.split_at_checked(2)?;
        *byte = u8::from_str_radix(two, 16).ok()?;
        rest = after;
    }
    Some(out)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use object::SystemClock;

    use super::*;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_named_in_one_way() {
        let (trace, id, sampled) = parse(CALLER).unwrap();
        assert_eq!((trace[0], id[7], sampled), (0x0a, 0x31, true));
        assert!(!parse(&CALLER.replace("-01", "-00")).unwrap().2);
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn spans_hang_together_and_are_named_to_others() {
        let (tracer, mut spans) = Tracer::new(0, Arc::new(SystemClock));
        let mut headers = HeaderMap::new();
        headers.insert(PARENT, HeaderValue::from_static(CALLER));
        let admin = UserInfo::new("a", &["system:masters"]);
        let begun = RequestSpan::new(Some(&tracer), &headers, &admin).unwrap();
        let mut told = HeaderMap::new();
        let work = span("HTTP POST", Vec::new, async { inject_trace_context(&mut told) });
        begun.run(0, work, |()| StatusCode::OK).await;
        let (inner, outer) = (spans.recv().await.unwrap(), spans.recv().await.unwrap());
        assert_eq!((inner.kind, outer.kind), (Kind::Client, Kind::Server));
        assert_eq!(inner.parent, Some(outer.id));
        assert_eq!(hex(&outer.parent.unwrap()), "b7ad6b7169203331");
        let named = told[PARENT].to_str().unwrap();
        assert_eq!(named, format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", hex(&inner.id)));
    }

    #[test]
    fn only_some_may_ask_for_a_trace() {
        let (tracer, _spans) = Tracer::new(0, Arc::new(SystemClock));
        let mut headers = HeaderMap::new();
        headers.insert(PARENT, HeaderValue::from_static(CALLER));
        let nobody = UserInfo::new("bob", &[]);
        let begun = RequestSpan::new(Some(&tracer), &headers, &nobody).unwrap();
        assert!(!begun.place.sampled && begun.parent.is_none() && begun.link.is_some());
        assert!(RequestSpan::new(None, &HeaderMap::new(), &nobody).is_none(), "it costs nothing");
        assert!(RequestSpan::new(None, &headers, &nobody).is_some_and(|begun| begun.place.sampled));
        let (all, _spans) = Tracer::new(1_000_000, Arc::new(SystemClock));
        assert!(RequestSpan::new(Some(&all), &HeaderMap::new(), &nobody).unwrap().place.sampled);
    }
}
