//! A test gRPC server on a unix socket.

use std::{convert::Infallible, path::Path, sync::Arc};

use bytes::{BufMut as _, Bytes};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::UnixListener, task::JoinSet};

/// Responds to every message by a function of the method and the message, until it is dropped.
pub(crate) struct Grpc {
    _tasks: JoinSet<()>,
}

impl Grpc {
    pub(crate) fn start(
        path: &Path,
        answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let (listener, answer) = (UnixListener::bind(path).unwrap(), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let answer = answer.clone();
                    async move {
                        let path = request.uri().path().to_owned();
                        let asked = request.into_body().collect().await.unwrap().to_bytes();
                        let method = path.rsplit('/').next().unwrap();
                        Ok::<_, Infallible>(framed(&answer(method, &asked[5..])))
                    }
                });
                open.spawn(async move {
                    let builder = http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { _tasks: tasks }
    }
}

fn framed(
    message: &[u8],
) -> http::Response<impl hyper::body::Body<Data = Bytes, Error = Infallible> + use<>> {
    let mut framed = vec![0];
    framed.put_u32(message.len().try_into().unwrap());
    framed.extend(message);
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let body = Full::new(Bytes::from(framed)).with_trailers(async { Some(Ok(trailers)) });
    http::Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}
