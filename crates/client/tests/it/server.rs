//! A test server with one handler, behind any connector.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use client::{Client, Config, PipeConnector};
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use object::{Value, from_json};
use tokio::task::JoinSet;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) enum Say {
    Json(u16, &'static str),
    With(u16, &'static str, &'static [(&'static str, &'static str)]),
    /// These lines, and then a response that never ends.
    Open(&'static str),
    Silence,
}

type Answer = dyn Fn(&Asked) -> Say + Send + Sync;

#[derive(Clone)]
pub(crate) struct Server {
    answer: Arc<Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), asked: Arc::default() }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// A client on a pipe, served until the set is dropped.
    pub(crate) fn on_pipe(&self, tasks: &mut JoinSet<()>) -> Client {
        let (pipe, mut ends) = PipeConnector::new();
        let this = self.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Some(end) = ends.recv().await {
                let this = this.clone();
                connections.spawn(async move { this.serve(end).await });
            }
        });
        Client::new(Config::pipe(pipe))
    }

    pub(crate) async fn serve(
        &self,
        io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    ) {
        let this = self.clone();
        let service = service_fn(move |request| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        drop(builder.serve_connection_with_upgrades(TokioIo::new(io), service).await);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let asked = Asked {
            method: head.method,
            uri: head.uri.path_and_query().unwrap().to_string(),
            headers: head.headers,
            body: from_json(&body).unwrap_or_default(),
        };
        let said = (self.answer)(&asked);
        self.asked.lock().unwrap().push(asked);
        let response = Response::builder();
        match said {
            Say::Json(code, text) => response.status(code).body(whole(text)).unwrap(),
            Say::With(code, text, headers) => {
                let named =
                    headers.iter().fold(response, |r, (name, value)| r.header(*name, *value));
                named.status(code).body(whole(text)).unwrap()
            }
            Say::Open(text) => {
                use futures_util::StreamExt;
                let first = stream::iter([Ok(Frame::data(Bytes::from(text)))]);
                response
                    .body(StreamBody::new(first.chain(stream::pending())).boxed_unsync())
                    .unwrap()
            }
            Say::Silence => std::future::pending().await,
        }
    }
}

fn whole(text: &'static str) -> Body {
    http_body_util::Full::new(Bytes::from(text)).boxed_unsync()
}
