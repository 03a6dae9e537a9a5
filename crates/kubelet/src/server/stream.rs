//! Exec, attach and port-forward: requests a stream from the runtime, then copies bytes in both directions.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use container::cri::{AttachRequest, ExecRequest, PortForwardRequest};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};
use tracing::debug;

use super::{HttpResponse, flag, idle_timeout::copy_until_idle, query_value, query_values, text};
use crate::{KubeletContext, pod::observe::RuntimePodState, runtime::with_timeout};

const DIAL: Duration = Duration::from_secs(10);
const RUN: Duration = Duration::from_mins(2);

/// Answers `exec|attach|run/NAMESPACE/POD[/UID]/CONTAINER` and `portForward/NAMESPACE/POD[/UID]`.
pub(crate) async fn answer(
    host: &Arc<KubeletContext>,
    parts: &[&str],
    request: Request<Incoming>,
) -> HttpResponse {
    let (what, namespace, name, uid, container) = match parts {
        ["portForward", namespace, name] => ("portForward", *namespace, *name, "", ""),
        ["portForward", namespace, name, uid] => ("portForward", *namespace, *name, *uid, ""),
        [what, namespace, name, container] => (*what, *namespace, *name, "", *container),
        [what, namespace, name, uid, container] => (*what, *namespace, *name, *uid, *container),
        _ => return text(StatusCode::NOT_FOUND, "404 page not found"),
    };
    let Some(pod) = host.pods.find(namespace, name, uid) else {
        return text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    let seen = match RuntimePodState::of(&host.runtime, pod.metadata().uid()).await {
        Ok(seen) => seen,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.message()),
    };
    let query = request.uri().query();
    if what == "run" {
        return run(host, &seen, container, query).await;
    }
    match url(host, what, &seen, container, query).await {
        Ok(url) => forward(host, &url, request).await.unwrap_or_else(|error| {
            text(StatusCode::BAD_GATEWAY, &format!("the runtime's stream: {error}"))
        }),
        Err((status, why)) => text(status, &why),
    }
}

/// Requests the stream from the runtime; returns the URL where the runtime serves it.
async fn url(
    host: &KubeletContext,
    what: &str,
    seen: &RuntimePodState,
    container: &str,
    query: Option<&str>,
) -> Result<Uri, (StatusCode, String)> {
    let mut cri = host.runtime.cri();
    let missing = || (StatusCode::NOT_FOUND, format!("container not found (\"{container}\")"));
    let asked = |names: &[&str]| flag(query, names);
    let (stdin, stdout) = (asked(&["input", "stdin"]), asked(&["output", "stdout"]));
    let (stderr, tty) = (asked(&["error", "stderr"]), asked(&["tty"]));
    let answer = match what {
        "exec" => {
            let found = seen.running().find(|one| one.name == container).ok_or_else(missing)?;
            let request = ExecRequest {
                container_id: found.id.clone(),
                cmd: query_values(query, "command").collect(),
                tty,
                stdin,
                stdout,
                stderr: stderr && !tty,
            };
            with_timeout(RUN, cri.runtime.exec(request)).await.map(|answer| answer.url)
        }
        "attach" => {
            let found = seen.running().find(|one| one.name == container).ok_or_else(missing)?;
            let stderr = stderr && !tty;
            let request =
                AttachRequest { container_id: found.id.clone(), stdin, tty, stdout, stderr };
            with_timeout(RUN, cri.runtime.attach(request)).await.map(|answer| answer.url)
        }
        _ => {
            let sandbox = seen.sandbox().ok_or_else(|| {
                (StatusCode::NOT_FOUND, "the pod's sandbox does not run".to_owned())
            })?;
            let ports = query_values(query, "port").flat_map(|ports| {
                ports.split(',').filter_map(|port| port.parse().ok()).collect::<Vec<i32>>()
            });
            let request =
                PortForwardRequest { pod_sandbox_id: sandbox.id.clone(), port: ports.collect() };
            with_timeout(RUN, cri.runtime.port_forward(request)).await.map(|answer| answer.url)
        }
    };
    let url =
        answer.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.message().to_owned()))?;
    url.parse().map_err(|_| (StatusCode::BAD_GATEWAY, "the runtime gave no address".to_owned()))
}

/// Forwards the request to the runtime's streaming server and connects both ends.
async fn forward(
    host: &KubeletContext,
    url: &Uri,
    request: Request<Incoming>,
) -> Result<HttpResponse, String> {
    let authority = url.authority().ok_or("an address without a host")?.to_string();
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let stream = timeout(DIAL, TcpStream::connect(&authority))
        .await
        .map_err(|_| "no connection in time")?
        .map_err(|error| said(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| said(&error))?;
    host.cx.spawn("stream connection", async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "the stream of the runtime failed");
        }
    });
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut onward = Request::builder().method(request.method()).uri(path);
    for (name, value) in request.headers() {
        if name != http::header::HOST && name != http::header::AUTHORIZATION {
            onward = onward.header(name, value);
        }
    }
    let onward = onward
        .header(http::header::HOST, &authority)
        .body(Empty::<Bytes>::new())
        .map_err(|error| said(&error))?;
    let mut answer = timeout(DIAL, sender.send_request(onward))
        .await
        .map_err(|_| "no answer in time")?
        .map_err(|error| said(&error))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (head, body) = answer.into_parts();
        let body = body.map_err(std::io::Error::other).boxed();
        return Ok(http::Response::from_parts(head, body));
    }
    let far = hyper::upgrade::on(&mut answer);
    let near = hyper::upgrade::on(request);
    let idle = host.config.streaming_idle;
    host.cx.spawn("stream", async move {
        let (Ok(far), Ok(near)) = futures_util::future::join(far, near).await else { return };
        let (mut far, mut near) = (TokioIo::new(far), TokioIo::new(near));
        let copied = copy_until_idle(&mut near, &mut far, idle).await;
        if let Err(error) = copied {
            debug!(%error, "stream failed");
        }
    });
    let (head, _) = answer.into_parts();
    Ok(http::Response::from_parts(
        head,
        Empty::<Bytes>::new().map_err(|never| match never {}).boxed(),
    ))
}

/// Runs a command and answers with its output.
async fn run(
    host: &KubeletContext,
    seen: &RuntimePodState,
    container: &str,
    query: Option<&str>,
) -> HttpResponse {
    let Some(found) = seen.running().find(|one| one.name == container) else {
        return text(StatusCode::NOT_FOUND, "container not found");
    };
    let command = query_value(query, "cmd").unwrap_or_default();
    let command = command.split_whitespace().map(str::to_owned).collect();
    match host.runtime.exec(&found.id, command, RUN).await {
        Ok(answer) => {
            let mut said = answer.stdout;
            said.extend(answer.stderr);
            text(StatusCode::OK, &String::from_utf8_lossy(&said))
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.message()),
    }
}
