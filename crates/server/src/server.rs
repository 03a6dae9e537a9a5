//! A server: what it serves, to whom, and how.

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
    Request, RequestBody, RequestInfo, Seat, Shutdown,
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
    respond::{raw, status_as, status_reply, warn},
    route,
    streams::StreamExecutor,
    timer_queue::TimerQueue,
    trace::{self, RequestSpan, Tracer},
    turns::{Account, Turn, Turns, account},
};

/// How long the head of a request may take to arrive, on a connection of HTTP/1.1 also the next.
const HEADERS: Duration = Duration::from_secs(32);
/// How long a connection of HTTP/2 may be without a request: as long as Go's clients keep one.
const IDLE: Duration = Duration::from_secs(90);
/// So much of an answer waits for a client that does not read, of each of its requests.
const SEND_BUFFER: usize = 64 << 10;
/// So much of a body may be on its way before it is read: of one request, and of all those of
/// a connection. To find out what a line can take would cost a ping for every body.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");
/// All that somebody may expect before they send a body.
const CONTINUE: &str = "100-continue";

#[derive(Debug)]
pub struct Server {
    pub registry: Arc<Registry>,
    pub config: Config,
    /// The first that understands a request decides who calls.
    pub authenticators: Vec<Arc<dyn Authenticator>>,
    /// The first that has an opinion decides.
    pub authorizers: Vec<Arc<dyn Authorizer>>,
    pub health_checks: Vec<HealthCheck>,
    /// Who adds to what `/metrics` says.
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
    /// Who is handled first when there is too much; without it, a bound on all.
    pub flow: Option<Arc<dyn FlowControl>>,
    /// What others serve.
    pub aggregate: Option<Arc<dyn Aggregator>>,
    /// Who is told what was done.
    pub audit: Option<Arc<dyn AuditBackend>>,
    /// Who decides which requests are traced.
    pub tracer: Option<Arc<Tracer>>,
    /// By group, resource and subresource: what is no plain object.
    pub handlers: HashMap<(&'static str, &'static str, &'static str), HandlerRef>,
    /// Kinds without a resource: what some subresources take and give.
    pub subresource_kinds: Vec<ResourceDefinition>,
    /// By the first part of the path: what is no resource.
    pub path_handlers: HashMap<&'static str, HandlerRef>,
    pub(crate) seats: InFlightLimiter,
    pub(crate) metrics: Metrics,
    pub(crate) documents: OpenApiDocuments,
    pub(crate) encodings: Arc<EncodingCache>,
    pub(crate) stop: CancellationToken,
    pub(crate) turns: Arc<Turns>,
    pub(crate) connection_limits: Arc<ConnectionLimits>,
    timers: Arc<TimerQueue>,
    rings: Once,
    /// Whether it is about to end.
    ending: Arc<AtomicBool>,
    /// Whether whoever comes is told to come again.
    rejecting_requests: AtomicBool,
    /// Requests under way, watches not among them once they have begun.
    in_flight: Arc<()>,
    driver: DriverWatch,
    tasks: TaskTracker,
}

impl Server {
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
            handlers: HashMap::new(),
            subresource_kinds: Vec::new(),
            path_handlers: HashMap::new(),
            metrics: Metrics::default(),
            documents: OpenApiDocuments::default(),
            encodings: Arc::default(),
            stop: CancellationToken::new(),
            turns: Arc::default(),
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

    /// Ends everything: first nobody is sent here any more, then requests end when they are
    /// answered and watches one after the other, until the deadline is over.
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

    /// Returns when the server is told to end.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.clone().cancelled_owned()
    }

    /// Runs `task` until it ends. The only spawn of this crate. A panic ends the task alone.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(panics::contain("server task", task));
    }

    /// Runs `task` until it ends, or everything does.
    pub fn background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Gives memory back that nobody needs any more, as long as the server runs.
    pub fn keep_small(&mut self) {
        let registry = Arc::downgrade(&self.registry);
        let memory = Memory { registry, encodings: self.encodings.clone() };
        self.metrics_sources.push(Arc::new(memory.clone()));
        memory.start();
    }

    /// Wakes those who wait, as long as the server runs.
    pub(crate) fn bell(&self) -> Arc<TimerQueue> {
        self.rings.call_once(|| {
            let bell = self.timers.clone();
            self.background(async move { bell.run().await });
        });
        self.timers.clone()
    }

    /// Serves a connection from within this machine to its end.
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

    /// Serves one connection to its end, in HTTP/1.1 or HTTP/2. What goes out over it may have
    /// to be told when.
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
            // Made where it stays: the future of a request is too large to be moved.
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
            () = silent => return debug!("a connection came without a request"),
            () = async { tokio::select! { () = self.stop.cancelled() => {}, () = leave.notified() => {} } } => {
                driving.connection.as_mut().graceful_shutdown();
                driving.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a connection broke");
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

    /// What can be said without a look at who asks, and for what.
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

    /// Whether the request is turned away since the server ends. Those who look after it may
    /// still ask.
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
            id.set_sensitive(true); // never the same again: no table of headers need keep it
            reply.headers_mut().insert(AUDIT_ID, id);
        }
        reply
    }

    /// Begins to tell of a request, if anybody wants to hear of it.
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

    /// Tells how a request was answered; of what goes on, that it has begun and when it ends.
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
            let routed = async { routed.await.unwrap_or_else(|_| Err(panicked())) };
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
            Ok(Err(status)) => {
                // Who takes no form, or sends none, is refused before anybody looks at the rest.
                if status.message().starts_with("406: ") || status.message().starts_with("415: ") {
                    warnings.clear();
                }
                status_as(&status, failure)
            }
            Err(_) => {
                let late = "request did not complete within the allotted timeout";
                status_as(&Status::timeout(late), failure)
            }
        };
        warn(reply.headers_mut(), &warnings);
        reply
    }
}

/// The answer to a request that caused a panic: upstream's words.
fn panicked() -> Status {
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}

/// Marks the answer to somebody who has not shown who he is.
#[derive(Clone, Copy, Debug)]
struct Unauthenticated;

/// What is said at the end.
fn shutting_down_response() -> Reply {
    let said = "The apiserver is shutting down, please try again later.\n";
    let mut reply = raw(429, "text/plain; charset=utf-8", said);
    let headers = reply.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Says whose seat it was.
fn mark(headers: &mut HeaderMap, seat: &Seat) {
    let Some((schema, level)) = &seat.classification else { return };
    for (name, uid) in [(FLOW_SCHEMA, schema), (PRIORITY_LEVEL, level)] {
        if let Ok(uid) = HeaderValue::from_str(uid) {
            headers.insert(name, uid);
        }
    }
}
