//! A registry on loopback, which misbehaves where a test requests it.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use container::image::Digest;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

use super::Parts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Open,
    Basic,
    Token,
}

pub(super) struct Registry {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    access: Access,
    address: SocketAddr,
    /// Contents by path below /v2/.
    content: Mutex<HashMap<String, Vec<u8>>>,
    requests: Mutex<Vec<String>>,
    /// Number of requests that fail first.
    failures: Mutex<u32>,
}

impl Registry {
    pub(super) async fn start(access: Access) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            access,
            address,
            content: Mutex::default(),
            requests: Mutex::default(),
            failures: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let serving = shared.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = shared.clone();
                        async move { Ok::<_, Infallible>(shared.answer(&request)) }
                    });
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, shared, _tasks: tasks }
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        self.shared.content.lock().expect("whole").insert(path.to_owned(), bytes.to_vec());
    }

    pub(super) fn push(&self, name: &str, tag: &str, parts: &Parts) {
        for blob in parts.blobs() {
            self.put(&format!("{name}/blobs/{}", Digest::of(blob)), blob);
        }
        self.put(&format!("{name}/manifests/{tag}"), &parts.manifest);
        self.put(&format!("{name}/manifests/{}", Digest::of(&parts.manifest)), &parts.manifest);
    }

    pub(super) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    pub(super) fn fail(&self, times: u32) {
        *self.shared.failures.lock().expect("whole") = times;
    }

    pub(super) fn requests(&self, containing: &str) -> usize {
        self.shared
            .requests
            .lock()
            .expect("whole")
            .iter()
            .filter(|path| path.contains(containing))
            .count()
    }
}

impl Shared {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        self.requests.lock().expect("whole").push(path.to_owned());
        let failures = &mut *self.failures.lock().expect("whole");
        if *failures > 0 {
            *failures -= 1;
            return respond(StatusCode::SERVICE_UNAVAILABLE, "");
        }
        let authorization =
            request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if path == "/token" {
            let scoped =
                request.uri().query() == Some("service=test&scope=repository%3Aprivate%3Apull");
            return match authorization {
                Some("Basic dTpw") if scoped => respond(StatusCode::OK, r#"{"token": "good"}"#),
                _ => respond(StatusCode::UNAUTHORIZED, ""),
            };
        }
        let (wanted, challenge) = match self.access {
            Access::Open => (None, String::new()),
            Access::Basic => (Some("Basic dTpw"), r#"Basic realm="test""#.to_owned()),
            Access::Token => {
                let realm = format!("http://{}/token", self.address);
                let scope = "repository:private:pull";
                (
                    Some("Bearer good"),
                    format!(r#"Bearer realm="{realm}",service="test",scope="{scope}""#),
                )
            }
        };
        if wanted.is_some() && authorization != wanted {
            let mut response = respond(
                StatusCode::UNAUTHORIZED,
                r#"{"errors":[{"code":"DENIED","message":"who?"}]}"#,
            );
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge.parse().expect("valid"));
            return response;
        }
        match self.content.lock().expect("whole").get(path.trim_start_matches("/v2/")) {
            Some(bytes) => Response::new(Full::new(bytes.clone().into())),
            None => respond(
                StatusCode::NOT_FOUND,
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no"}]}"#,
            ),
        }
    }
}

fn respond(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
