//! A server: what it serves, to whom, and how.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use http::header::ACCEPT_ENCODING;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use object::Status;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::{
    Authenticate, Authorize, Check, Config, Handler, Peer, Registry, Reply, Request,
    compress::compressed,
    encodings::Encodings,
    filters::{Passed, Seats, pass},
    metrics::{Labels, Metrics},
    openapi::Documents,
    respond::{status_reply, warn},
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
    /// By group, resource and subresource: what is no plain object.
    pub handlers: HashMap<(&'static str, &'static str, &'static str), Handler>,
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
            handlers: HashMap::new(),
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
        let audit = crate::registry::uid();
        let mut labels = Labels { verb: head.method.as_str().to_owned(), ..Labels::default() };
        let passed = pass(&self, &head, &peer).await;
        let mut reply = match passed {
            Err(status) => status_reply(&status),
            Ok(Passed { info, query, user, seat }) => {
                labels = Labels {
                    verb: info.verb.to_uppercase().into(),
                    group: info.group.to_string(),
                    version: info.version.to_string(),
                    resource: info.resource.to_string(),
                    subresource: info.subresource.to_string(),
                    code: 0,
                };
                let request = Request { head, body, peer, info, query, user };
                let reply = self.handle(request).await;
                drop(seat);
                reply
            }
        };
        labels.code = reply.status().as_u16();
        self.metrics.observe(labels, began.elapsed());
        if let Ok(id) = audit.parse() {
            reply.headers_mut().insert("audit-id", id);
        }
        reply
    }

    async fn handle(self: &Arc<Self>, request: Request) -> Reply {
        let mut warnings = Vec::new();
        let accepted = request.head.headers.get(ACCEPT_ENCODING).cloned();
        let reads = matches!(&*request.info.verb, "get" | "list");
        let limit = self.config.limits.request;
        let routed = timeout(limit, route::route(self, request, &mut warnings)).await;
        let mut reply = match routed {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => status_reply(&status),
            Err(_) => status_reply(&Status::timeout(
                "request did not complete within the allotted timeout",
            )),
        };
        warn(reply.headers_mut(), &warnings);
        if reads { compressed(reply, accepted.as_ref()).await } else { reply }
    }
}
