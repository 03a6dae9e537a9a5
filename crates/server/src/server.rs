//! A server: what it serves, to whom, and how.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use http::{HeaderMap, header::ACCEPT_ENCODING, request::Parts};
use http_body_util::BodyExt;
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use object::Status;
use schema::Definition;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::{
    Aggregate, Audit, AuditStage, Authenticate, Authorize, Check, Config, Flow, Handler, Peer,
    Query, Registry, Reply, Request, RequestInfo, Seat, User,
    audit::{Trail, recorded},
    body::full,
    compress::compressed,
    encodings::Encodings,
    filters::{Passed, Refused, Seats, pass},
    metrics::{Labels, Metrics},
    negotiate::negotiate_failure,
    openapi::Documents,
    respond::{status_as, warn},
    route,
};

#[derive(Debug)]
pub struct Server {
    pub registry: Arc<Registry>,
    pub config: Config,
    /// The first that understands a request decides who calls.
    pub authenticators: Vec<Arc<dyn Authenticate>>,
    /// The first that has an opinion decides.
    pub authorizers: Vec<Arc<dyn Authorize>>,
    pub checks: Vec<Check>,
    /// Who is handled first when there is too much; without it, a bound on all.
    pub flow: Option<Arc<dyn Flow>>,
    /// What others serve.
    pub aggregate: Option<Arc<dyn Aggregate>>,
    /// Who is told what was done.
    pub audit: Option<Arc<dyn Audit>>,
    /// By group, resource and subresource: what is no plain object.
    pub handlers: HashMap<(&'static str, &'static str, &'static str), Handler>,
    /// Kinds without a resource: what some subresources take and give.
    pub parts: Vec<Definition>,
    /// By the first part of the path: what is no resource.
    pub paths: HashMap<&'static str, Handler>,
    pub(crate) seats: Seats,
    pub(crate) metrics: Metrics,
    pub(crate) documents: Documents,
    pub(crate) encodings: Arc<Encodings>,
    pub(crate) stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    pub fn new(registry: Arc<Registry>, config: Config) -> Self {
        Self {
            seats: Seats::new(&config.limits),
            registry,
            config,
            authenticators: Vec::new(),
            authorizers: Vec::new(),
            checks: Vec::new(),
            aggregate: None,
            audit: None,
            flow: None,
            handlers: HashMap::new(),
            parts: Vec::new(),
            paths: HashMap::new(),
            metrics: Metrics::default(),
            documents: Documents::default(),
            encodings: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Ends everything: watches at once, other requests when they are answered or
    /// the deadline is over.
    pub async fn stop(&self, deadline: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(deadline, self.tasks.wait()).await.is_err() {
            debug!("connections were still open at the end");
        }
    }

    /// Returns when the server is told to end.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.clone().cancelled_owned()
    }

    /// Runs `task` until it ends. The only spawn of this crate.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
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

    /// Serves one connection to its end, in HTTP/1.1 or HTTP/2.
    pub async fn connection(
        self: Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Peer,
    ) {
        let server = self.clone();
        let service = service_fn(move |request| {
            let (server, peer) = (server.clone(), peer.clone());
            async move { Ok::<_, Infallible>(server.answer(request, peer).await) }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        let headers = self.config.limits.headers;
        builder.http1().timer(TokioTimer::new()).max_buf_size(headers.max(8192));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(headers).unwrap_or(u32::MAX))
            .max_concurrent_streams(1000)
            .adaptive_window(true);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a connection broke");
        }
    }

    async fn answer(self: Arc<Self>, request: hyper::Request<Incoming>, peer: Peer) -> Reply {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let id = crate::registry::uid();
        let mut labels = Labels { verb: head.method.as_str().to_owned(), ..Labels::default() };
        let passed = pass(&self, &head, &peer).await;
        let mut reply = match passed {
            Err(Refused { status, who }) => {
                let trail =
                    who.and_then(|(user, info)| self.trail(&id, &user, &info, &head, &peer));
                let query = Query::parse(head.uri.query().unwrap_or_default());
                let reply = status_as(&status, negotiate_failure(&head.headers, &query));
                self.told(trail, reply, false).await
            }
            Ok(Passed { info, query, user, seat }) => {
                labels = Labels {
                    verb: info.verb.to_uppercase().into(),
                    group: info.group.to_string(),
                    version: info.version.to_string(),
                    resource: info.resource.to_string(),
                    subresource: info.subresource.to_string(),
                    code: 0,
                };
                let trail = self.trail(&id, &user, &info, &head, &peer);
                let request = Request { head, body, peer, info, query, user };
                let reply = match &trail {
                    Some(trail) => recorded(trail.record.clone(), self.handle(request)).await,
                    None => self.handle(request).await,
                };
                let mut reply = self.told(trail, reply, true).await;
                mark(reply.headers_mut(), &seat);
                reply
            }
        };
        labels.code = reply.status().as_u16();
        self.metrics.observe(labels, began.elapsed());
        if let Ok(id) = id.parse() {
            reply.headers_mut().insert("audit-id", id);
        }
        reply
    }

    /// Begins to tell of a request, if anybody wants to hear of it.
    fn trail(
        &self,
        id: &str,
        user: &User,
        info: &RequestInfo,
        head: &Parts,
        peer: &Peer,
    ) -> Option<Trail> {
        let uri = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let now = self.registry.clock().micros();
        Trail::begin(self.audit.as_ref()?, id, (user, info), (uri, &head.headers, peer), now)
    }

    /// Tells how a request was answered.
    async fn told(&self, trail: Option<Trail>, reply: Reply, allowed: bool) -> Reply {
        let Some(mut trail) = trail else { return reply };
        trail.decided(allowed);
        let (now, code) = (self.registry.clock().micros(), reply.status().as_u16());
        if reply.body().size_hint().exact().is_none() {
            trail.end(AuditStage::ResponseStarted, code, None, now);
            return reply;
        }
        let (head, body) = reply.into_parts();
        let bytes =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        trail.end(AuditStage::ResponseComplete, code, Some(&bytes), now);
        Reply::from_parts(head, full(bytes))
    }

    async fn handle(self: &Arc<Self>, request: Request) -> Reply {
        let mut warnings = Vec::new();
        let accepted = request.head.headers.get(ACCEPT_ENCODING).cloned();
        let reads = matches!(&*request.info.verb, "get" | "list");
        let limit = self.config.limits.request;
        let failure = negotiate_failure(&request.head.headers, &request.query);
        let routed = timeout(limit, route::route(self, request, &mut warnings)).await;
        let mut reply = match routed {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => status_as(&status, failure),
            Err(_) => {
                let late = "request did not complete within the allotted timeout";
                status_as(&Status::timeout(late), failure)
            }
        };
        warn(reply.headers_mut(), &warnings);
        if reads { compressed(reply, accepted.as_ref()).await } else { reply }
    }
}

/// Says whose seat it was.
fn mark(headers: &mut HeaderMap, seat: &Seat) {
    let Some((schema, level)) = &seat.of else { return };
    for (name, uid) in
        [("x-kubernetes-pf-flowschema-uid", schema), ("x-kubernetes-pf-prioritylevel-uid", level)]
    {
        if let Ok(uid) = uid.parse() {
            headers.insert(name, uid);
        }
    }
}
