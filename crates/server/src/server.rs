//! The server: its parts, its connections, and the handling of a request.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Version,
    header::{ACCEPT_ENCODING, CONNECTION, EXPECT, RETRY_AFTER},
    request::Parts,
};
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use object::Status;
use schema::ResourceDefinition;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};
use tracing::debug;

use crate::{
    Aggregator, AuditBackend, AuditStage, Authenticator, Authorizer, Config, FlowControl,
    HandlerRef, HealthCheck, HttpPolicy, MetricsSource, Peer, ProbeScope, Query, Registry, Reply,
    Request, RequestBody, RequestInfo, RouteTable, Seat, Shutdown,
    answer_budget::AnswerBudget,
    audit::{RequestAudit, with_audit_context},
    batched_tcp::WriteBatch,
    body::counted,
    codec::media_type,
    compress::compressed,
    connection_limits::ConnectionLimits,
    deadline,
    driver::DriverWatch,
    encodings::EncodingCache,
    filters::{Caller, FilteredRequest, InFlightLimiter, RejectedRequest, run_filters},
    memory::Memory,
    metrics::{GaugeGuard, Labels, Metrics, method_verb},
    negotiate::negotiate_failure,
    openapi::OpenApiDocuments,
    query::is_escaped,
    rejection::Rejection,
    respond::{raw, status_as, status_reply, warn},
    route,
    streams::StreamExecutor,
    timer_queue::TimerQueue,
    trace::{self, RequestSpan, Tracer},
    turns::{Account, Turn, Turns, account},
};

/// Timeout for the headers of a request; also the keep-alive timeout of HTTP/1.1.
const HEADERS: Duration = Duration::from_secs(32);
/// Idle timeout of an HTTP/2 connection: as long as Go's clients keep one.
const IDLE: Duration = Duration::from_secs(90);
/// Maximum unsent bytes of a response, per HTTP/2 stream.
const SEND_BUFFER: usize = 64 << 10;
/// HTTP/2 flow-control windows of a stream and of a connection. They are fixed, because adapting
/// them to the connection would cost a ping for every body.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// The only supported value of the Expect header.
const CONTINUE: &str = "100-continue";

/// An API server.
#[derive(Debug)]
pub struct Server {
    pub registry: Arc<Registry>,
    pub config: Config,
    /// Tried in order; the first that recognizes the credentials decides.
    pub authenticators: Vec<Arc<dyn Authenticator>>,
    /// Tried in order; the first with an opinion decides.
    pub authorizers: Vec<Arc<dyn Authorizer>>,
    pub health_checks: Vec<HealthCheck>,
    /// Further sources of `/metrics`.
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
    /// API Priority and Fairness; without it, only the number of requests in flight is limited.
    pub flow: Option<Arc<dyn FlowControl>>,
    /// The aggregation layer.
    pub aggregate: Option<Arc<dyn Aggregator>>,
    /// The audit backend.
    pub audit: Option<Arc<dyn AuditBackend>>,
    /// Samples requests for tracing.
    pub tracer: Option<Arc<Tracer>>,
    /// What answers requests to each resource and subresource.
    pub routes: RouteTable,
    /// Kinds without a resource: request and response bodies of subresources.
    pub subresource_kinds: Vec<ResourceDefinition>,
    /// Handlers of non-resource paths by their first segment.
    pub path_handlers: HashMap<&'static str, HandlerRef>,
    pub(crate) seats: InFlightLimiter,
    pub(crate) metrics: Metrics,
    pub(crate) documents: OpenApiDocuments,
    pub(crate) encodings: Arc<EncodingCache>,
    pub(crate) stop: CancellationToken,
    pub(crate) turns: Arc<Turns>,
    answers: Arc<AnswerBudget>,
    pub(crate) connection_limits: Arc<ConnectionLimits>,
    timers: Arc<TimerQueue>,
    rings: Once,
    /// Whether the server is shutting down.
    ending: Arc<AtomicBool>,
    /// Whether new requests are rejected with 429 and `Retry-After`.
    rejecting_requests: AtomicBool,
    /// Counts requests in flight, by its references; watches only until their response starts.
    in_flight: Arc<()>,
    driver: DriverWatch,
    tasks: TaskTracker,
}

impl Server {
    /// A server without authenticators, authorizers and handlers, which the caller adds.
    pub fn new(registry: Arc<Registry>, config: Config) -> Self {
        let ending = Arc::new(AtomicBool::new(false));
        let ends = ending.clone();
        let shutdown = HealthCheck::new("shutdown", ProbeScope::Readyz, move || {
            match ends.load(Ordering::Acquire) {
                false => Ok(()),
                true => Err("process is shutting down".to_owned()),
            }
        });
        Self {
            seats: InFlightLimiter::new(&config.limits),
            registry,
            config,
            authenticators: Vec::new(),
            authorizers: Vec::new(),
            health_checks: vec![shutdown],
            metrics_sources: Vec::new(),
            aggregate: None,
            audit: None,
            tracer: None,
            flow: None,
            routes: RouteTable::default(),
            subresource_kinds: Vec::new(),
            path_handlers: HashMap::new(),
            metrics: Metrics::default(),
            documents: OpenApiDocuments::default(),
            encodings: Arc::default(),
            stop: CancellationToken::new(),
            turns: Arc::default(),
            answers: Arc::default(),
            connection_limits: Arc::default(),
            timers: Arc::default(),
            rings: Once::new(),
            driver: DriverWatch::default(),
            ending,
            rejecting_requests: AtomicBool::new(false),
            in_flight: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Shuts down gracefully: first `/readyz` fails, then requests are finished and watches are
    /// ended one after the other, until the deadline.
    pub async fn stop(&self, deadline: Duration) {
        let Shutdown { delay, retry_after, watch_termination: watches } = self.config.shutdown;
        self.ending.store(true, Ordering::Release);
        tokio::time::sleep(delay).await;
        self.rejecting_requests.store(retry_after, Ordering::Release);
        let until = Instant::now() + deadline;
        while retry_after && Arc::strong_count(&self.in_flight) > 1 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.timers.shut_down(watches);
        self.stop.cancel();
        self.tasks.close();
        let ended = tokio::select! {
            () = self.tasks.wait() => true,
            () = self.timers.run() => false,
            () = sleep_until(until + watches) => false,
        };
        if !ended {
            debug!("connections were still open at the end");
        }
    }

    /// Completes when the server stops.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.clone().cancelled_owned()
    }

    /// Spawns a task; the only spawn of this crate. A panic ends only the task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(panics::contain("server task", task));
    }

    /// Spawns a task that is cancelled when the server stops.
    pub fn background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Starts periodic trimming of the caches, and reports their sizes.
    pub fn keep_small(&mut self) {
        let registry = Arc::downgrade(&self.registry);
        let memory = Memory { registry, encodings: self.encodings.clone() };
        self.metrics_sources.push(Arc::new(memory.clone()));
        memory.start();
    }

    /// The timer queue; starts it on first use.
    pub(crate) fn bell(&self) -> Arc<TimerQueue> {
        self.rings.call_once(|| {
            let bell = self.timers.clone();
            self.background(async move { bell.run().await });
        });
        self.timers.clone()
    }

    /// Serves a connection from the same host or process.
    pub(crate) fn serve_local(
        self: &Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Peer,
    ) {
        let turn = self.turns.turn(Account::new("local"));
        if let Some(user) = &peer.identity {
            turn.charge_to(account(user));
        }
        let served = self.clone().connection(io, None, peer, turn.clone());
        self.spawn(turn.run(Box::pin(served)));
    }

    /// Serves one connection in HTTP/1.1 or HTTP/2. `outgoing` is the write batch of a TCP
    /// connection.
    pub(crate) async fn connection(
        self: Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        outgoing: Option<WriteBatch>,
        peer: Peer,
        turn: Arc<Turn>,
    ) {
        let (server, leave) = (self.clone(), Arc::new(Notify::new()));
        let left = leave.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let service = service_fn(move |request| {
            begins.store(true, Ordering::Relaxed);
            let (own, peer, left) = (server.clone(), peer.clone(), left.clone());
            // Boxed at once, because the future of a request is too large to be moved.
            let answer = Box::pin(async move {
                let _in_flight = own.driver.enter();
                let answer = pin!(own.clone().answer(request, peer, left));
                let answer = panics::contain_pinned("request", answer).await;
                answer.unwrap_or_else(|_| status_reply(&panicked()))
            });
            AbortOnDropHandle::new(server.tasks.spawn(turn.request().run(answer)))
        });
        let streams = StreamExecutor::default();
        let mut builder = Builder::new(streams.clone());
        let headers = self.config.limits.headers;
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_buf_size(headers.max(8192));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(u32::try_from(headers).unwrap_or(u32::MAX))
            .max_concurrent_streams(self.config.limits.max_http2_streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if self.config.limits.max_http2_streams.is_none() {
            builder = builder.http1_only();
        }
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
        let mut driving = streams.drive(Box::pin(connection.into_owned()), outgoing);
        let is_remote = driving.is_remote();
        driving.end_when_idle(IDLE, leave.clone());
        let silent = async {
            tokio::time::sleep(HEADERS).await;
            if !is_remote || begun.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut driving => ended,
            () = silent => return debug!("closing a connection that sent no request"),
            () = async { tokio::select! { () = self.stop.cancelled() => {}, () = leave.notified() => {} } } => {
                driving.connection.as_mut().graceful_shutdown();
                driving.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection failed");
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
        peer: Peer,
        leave: Arc<Notify>,
    ) -> Reply {
        let (head, body) = request.into_parts();
        let edge = &self.config.http_policy;
        let origin = edge.origin(&head);
        if head.version == Version::HTTP_2 && edge.should_go_away() {
            leave.notify_one();
        }
        let version = head.version;
        let (body, left) = RequestBody::of(&head, body);
        let mut reply = if let Some(reply) = self.early_response(&head, origin.as_ref(), &leave) {
            drop(body);
            reply
        } else {
            let _under_way = self.in_flight.clone();
            Box::pin(self.clone().decide(head, body, peer)).await
        };
        if let Some(left) = left
            && let Some(rest) = left.drain(&mut reply, self.config.limits.request).await
        {
            self.spawn(rest);
        }
        edge.add_headers(reply.headers_mut(), origin);
        if version == Version::HTTP_2
            && self.config.close_anonymous
            && reply.extensions_mut().remove::<Unauthenticated>().is_some()
        {
            leave.notify_one();
        }
        reply
    }

    /// Responses that depend neither on the user nor on the resource: CORS preflight, malformed
    /// requests, shutdown.
    fn early_response(
        &self,
        head: &Parts,
        origin: Option<&HeaderValue>,
        leave: &Notify,
    ) -> Option<Reply> {
        if let Some(reply) = HttpPolicy::preflight(head, origin) {
            return Some(reply);
        }
        if !is_escaped(head.uri.path()) {
            return Some(raw(400, "text/plain; charset=utf-8", "400 Bad Request"));
        }
        if head.headers.get(EXPECT).is_some_and(|expected| expected != CONTINUE) {
            let mut reply = raw(417, "", Vec::new());
            reply.headers_mut().clear();
            return Some(reply);
        }
        if self.refuses(head) {
            leave.notify_one();
            return Some(shutting_down_response());
        }
        None
    }

    /// Whether the request is rejected because the server is shutting down. Health checks and
    /// metrics are still served.
    fn refuses(&self, head: &Parts) -> bool {
        let path = head.uri.path();
        self.rejecting_requests.load(Ordering::Acquire)
            && !["/readyz", "/livez", "/healthz", "/metrics"]
                .iter()
                .any(|own| path.starts_with(own))
    }

    #[expect(clippy::too_many_lines, reason = "the filters, one after the other")]
    async fn decide(self: Arc<Self>, head: Parts, body: RequestBody, peer: Peer) -> Reply {
        let (began, arrived) = (Instant::now(), self.registry.clock().now_micros());
        let id = crate::registry::uid();
        let verb = match media_type(&head.headers) {
            "application/apply-patch+yaml" | "application/apply-patch+cbor"
                if head.method == Method::PATCH =>
            {
                "APPLY"
            }
            _ => method_verb(head.method.as_str()),
        };
        let labels;
        let (mut check, sent) = (String::new(), body.size_hint().exact());
        let passed = run_filters(&self, &head, &peer).await;
        let mut reply = match passed {
            Err(RejectedRequest { status, info, asker }) => {
                labels = Labels::of(&info, verb, false, false);
                let nobody = asker.is_nobody();
                let trail = self.trail(&id, asker, &info, (&head, &peer), arrived);
                let query = Query::parse_for(&self.config, head.uri.query().unwrap_or_default());
                let mut reply = status_as(&status, negotiate_failure(&head.headers, &query));
                if let Some(trail) = &trail {
                    trail.record.note_answer(status.into());
                }
                if nobody {
                    reply.extensions_mut().insert(Unauthenticated);
                }
                self.audit_response(trail, reply)
            }
            Ok(FilteredRequest { info, query, asker, seat }) => {
                let (user, nobody) = (asker.effective_user(), asker.is_nobody());
                let RequestInfo { group, version, resource, subresource, .. } = &info;
                let known = self.registry.kinds().has(group, version, resource, subresource);
                let dry_run = query.get("dryRun").is_some();
                check = query.get("fieldValidation").unwrap_or_default().to_owned();
                labels = Labels::of(&info, verb, info.is_resource && known, dry_run);
                let writes = !matches!(&*info.verb, "get" | "list" | "watch" | "head");
                let metrics = &self.metrics;
                let under_way = if writes { &metrics.writing } else { &metrics.reading };
                let _under_way = GaugeGuard::new(under_way);
                let trail = self.trail(&id, asker, &info, (&head, &peer), arrived);
                let accepted = head.headers.get(ACCEPT_ENCODING).cloned();
                let (lists, gets) = (info.verb == "list", info.verb == "get");
                let charged = account(&user);
                let (is_resource, failure) =
                    (info.is_resource, negotiate_failure(&head.headers, &query));
                let traced =
                    RequestSpan::of(self.tracer.as_ref(), (&head, &info, &user), (&id, &peer));
                let mut head = head;
                self.config.identity_headers.strip(&mut head.headers);
                let request = Request { head, body, peer, info, query, user };
                let untold = trail.as_ref().and_then(RequestAudit::refusal);
                let handled = Box::pin(async {
                    match (&trail, untold) {
                        (_, Some(status)) => {
                            let how = negotiate_failure(&request.head.headers, &request.query);
                            status_as(&status, how)
                        }
                        (Some(trail), None) => {
                            with_audit_context(trail.record.clone(), self.handle(request)).await
                        }
                        (None, None) => self.handle(request).await,
                    }
                });
                let reply = match traced {
                    Some(traced) => traced.run(arrived, handled, Reply::status).await,
                    None => handled.await,
                };
                let reply = if is_resource {
                    let admitted = self.answers.admit(reply, charged, lists || gets);
                    admitted.unwrap_or_else(|status| status_as(&status, failure))
                } else {
                    reply
                };
                let reply = self.audit_response(trail, reply);
                let mut reply = if lists || gets {
                    compressed(reply, lists, accepted.as_ref()).await
                } else {
                    reply
                };
                mark(reply.headers_mut(), &seat);
                if nobody {
                    reply.extensions_mut().insert(Unauthenticated);
                }
                reply
            }
        };
        let size = reply.body().size_hint().exact();
        self.metrics.observe(labels.clone(), reply.status().as_u16(), began.elapsed(), size);
        self.metrics.observe_sent(&labels, sent, &check, began.elapsed());
        if size.is_none() && labels.verb == "LIST" {
            let server = self.clone();
            reply = reply
                .map(|body| counted(body, move |sent| server.metrics.observe_size(&labels, sent)));
        }
        if let Ok(mut id) = HeaderValue::from_str(&id) {
            id.set_sensitive(true); // unique per response: keeps it out of the HPACK table
            reply.headers_mut().insert(AUDIT_ID, id);
        }
        reply
    }

    /// Begins the audit of a request, if the policy logs it.
    #[expect(clippy::too_many_arguments, reason = "all that is known of a request")]
    fn trail(
        &self,
        id: &str,
        asker: Caller,
        info: &RequestInfo,
        (head, peer): (&Parts, &Peer),
        arrived: i64,
    ) -> Option<RequestAudit> {
        RequestAudit::begin(self.audit.as_ref()?, id, (asker, info), (head, peer), arrived)
    }

    /// Generates the audit events of a response: ResponseComplete, or for a long-running one
    /// ResponseStarted and later ResponseComplete.
    fn audit_response(&self, trail: Option<RequestAudit>, reply: Reply) -> Reply {
        let Some(trail) = trail else { return reply };
        let (clock, code) = (self.registry.clock().clone(), reply.status().as_u16());
        if !trail.is_long_running() {
            trail.end(AuditStage::ResponseComplete, code, clock.now_micros());
            return reply;
        }
        trail.end(AuditStage::ResponseStarted, code, clock.now_micros());
        let is_over = move |_| trail.end(AuditStage::ResponseComplete, code, clock.now_micros());
        reply.map(|body| counted(body, is_over))
    }

    async fn handle(self: &Arc<Self>, request: Request) -> Reply {
        let mut warnings = Vec::new();
        let failure = negotiate_failure(&request.head.headers, &request.query);
        let longest = self.config.limits.request;
        let limit = match deadline::of(&request.info, &request.query, longest) {
            Ok(limit) => limit,
            Err(status) => return status_as(&status, failure),
        };
        let part = trace::part(&request);
        let routed = panics::contain("request", route::route(self, request, &mut warnings));
        let routed = async {
            let routed = async { routed.await.unwrap_or_else(|_| Err(panicked().into())) };
            match limit {
                Some(limit) => timeout(limit, routed).await,
                None => Ok(routed.await),
            }
        };
        let routed = match part {
            Some((name, about)) => trace::span(name, || about, routed).await,
            None => routed.await,
        };
        let mut reply = match routed {
            Ok(Ok(reply)) => reply,
            Ok(Err(Rejection::Router(status))) => {
                warnings.clear();
                status_as(&status, failure)
            }
            Ok(Err(Rejection::Handler(status))) => status_as(&status, failure),
            Err(_) => {
                let late = "request did not complete within the allotted timeout";
                status_as(&Status::timeout(late), failure)
            }
        };
        warn(reply.headers_mut(), &warnings);
        reply
    }
}

/// The response to a request whose handler panicked, with upstream's message.
fn panicked() -> Status {
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}

/// Marks the response to an unauthenticated or anonymous client.
#[derive(Clone, Copy, Debug)]
struct Unauthenticated;

/// The response to requests during shutdown.
fn shutting_down_response() -> Reply {
    let said = "The apiserver is shutting down, please try again later.\n";
    let mut reply = raw(429, "text/plain; charset=utf-8", said);
    let headers = reply.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Sets the headers with the uids of the FlowSchema and the priority level.
fn mark(headers: &mut HeaderMap, seat: &Seat) {
    let Some((schema, level)) = &seat.classification else { return };
    for (name, uid) in [(FLOW_SCHEMA, schema), (PRIORITY_LEVEL, level)] {
        if let Ok(uid) = HeaderValue::from_str(uid) {
            headers.insert(name, uid);
        }
    }
}
