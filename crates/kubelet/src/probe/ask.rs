//! One question to a container: a command, a request, a connection.

use std::{sync::Arc, time::Duration};

use api::core::{Container, HTTPGetAction, LifecycleHandler, Pod, ProbeHandler};
use bytes::Bytes;
use client::{Client, Tcp, Tls};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use object::IntOrString;
use tokio::{net::TcpStream, time::timeout};

use crate::runtime::Runtime;

/// More of what a probe answers is not told.
const LONGEST: usize = 10 << 10;

/// The container that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) runtime: Runtime,
    /// Its id.
    pub(crate) container: String,
    pub(crate) ip: String,
}

impl Target {
    pub(crate) async fn ask(
        &self,
        _pod: &Pod,
        container: &Container,
        handler: &ProbeHandler,
        limit: Duration,
    ) -> Result<(), String> {
        if let Some(exec) = handler.exec() {
            return self.exec(exec.command().iter().map(str::to_owned).collect(), limit).await;
        }
        if let Some(get) = handler.http_get() {
            return self.http(container, get, limit).await;
        }
        if let Some(tcp) = handler.tcp_socket() {
            let port = port(container, &tcp.port())?;
            return self.connect(self.address(tcp.host()), port, limit).await.map(drop);
        }
        if let Some(grpc) = handler.grpc() {
            let port = u16::try_from(grpc.port()).map_err(|_| "not a port".to_owned())?;
            return self.grpc(port, grpc.service(), limit).await;
        }
        Err("missing probe handler".into())
    }

    async fn exec(&self, command: Vec<String>, limit: Duration) -> Result<(), String> {
        let answer = self
            .runtime
            .exec(&self.container, command, limit)
            .await
            .map_err(|error| error.message().to_owned())?;
        if answer.exit_code == 0 {
            return Ok(());
        }
        let mut said = answer.stdout;
        said.extend(answer.stderr);
        said.truncate(LONGEST);
        Err(String::from_utf8_lossy(&said).into_owned())
    }

    async fn http(
        &self,
        container: &Container,
        get: &HTTPGetAction,
        limit: Duration,
    ) -> Result<(), String> {
        let port = port(container, &get.port())?;
        let host = self.address(get.host());
        let tls =
            (get.scheme() == "HTTPS").then(|| Arc::new(Tls { insecure: true, ..Tls::default() }));
        let mut config = client::Config::new(Arc::new(Tcp::new(host, port, tls)));
        config.timeout = limit;
        let client = Client::new(config.user_agent("kube-probe/1.37"));
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("*/*"));
        for header in get.http_headers().iter() {
            let name = HeaderName::try_from(header.name()).map_err(|error| error.to_string())?;
            let value = HeaderValue::try_from(header.value()).map_err(|error| error.to_string())?;
            headers.append(name, value);
        }
        let path = if get.path().starts_with('/') {
            get.path().to_owned()
        } else {
            format!("/{}", get.path())
        };
        let answer = timeout(limit, client.request(Method::GET, &path, headers, Bytes::new()))
            .await
            .map_err(|_| {
                format!(
                    "Get \"{}://{host}:{port}{path}\": context deadline exceeded",
                    get.scheme().to_lowercase()
                )
            })?
            .map_err(|error| {
                format!("Get \"{}://{host}:{port}{path}\": {error}", get.scheme().to_lowercase())
            })?;
        if (200..400).contains(&answer.status.as_u16()) {
            return Ok(());
        }
        Err(format!("HTTP probe failed with statuscode: {}", answer.status.as_u16()))
    }

    async fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
        let shown = format!("dial tcp {host}:{port}");
        match timeout(limit, TcpStream::connect((host, port))).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!("{shown}: {error}")),
            Err(_) => Err(format!("{shown}: i/o timeout")),
        }
    }

    /// The health check of gRPC, of which one message each way is all there is.
    async fn grpc(&self, port: u16, service: &str, limit: Duration) -> Result<(), String> {
        let wrong = |error: hyper::Error| format!("rpc error: {error}");
        let stream = self.connect(&self.ip, port, limit).await?;
        let shaken =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = timeout(limit, shaken)
            .await
            .map_err(|_| "timeout: failed to connect service".to_owned())?
            .map_err(wrong)?;
        let name = service.as_bytes();
        let mut message = vec![0, 0, 0, 0, 0];
        if !name.is_empty() {
            let length = u8::try_from(name.len()).map_err(|_| "the service's name is too long")?;
            message.extend([0x0a, length & 0x7f]);
            if length > 0x7f {
                return Err("the service's name is too long".into());
            }
            message.extend(name);
            message[4] = length + 2;
        }
        let request =
            Request::post(format!("http://{}:{port}/grpc.health.v1.Health/Check", self.ip))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("user-agent", "kube-probe/1.37")
                .body(Full::new(Bytes::from(message)))
                .map_err(|error| error.to_string())?;
        let asked = async {
            let answer = sender.send_request(request).await.map_err(wrong)?;
            let status = answer.headers().get("grpc-status").cloned();
            let body = answer.into_body().collect().await.map_err(wrong)?;
            let status = status.or_else(|| body.trailers()?.get("grpc-status").cloned());
            if status.as_ref().is_some_and(|status| status != "0") {
                return Err(format!(
                    "rpc error: code = {}",
                    status.and_then(|s| s.to_str().map(str::to_owned).ok()).unwrap_or_default()
                ));
            }
            // a frame's head, then field 1 with the value 1: SERVING
            if body.to_bytes().get(5..7) == Some(&[0x08, 0x01]) {
                return Ok(());
            }
            Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned())
        };
        tokio::select! {
            done = timeout(limit, asked) => done.map_err(|_| "timeout: health rpc did not complete".to_owned())?,
            ended = connection => Err(ended.map_or_else(|error| error.to_string(), |()| "the connection ended".into())),
        }
    }

    fn address<'a>(&'a self, host: &'a str) -> &'a str {
        if host.is_empty() { &self.ip } else { host }
    }
}

/// Runs a lifecycle hook.
pub(crate) async fn ask_handler(
    target: &Target,
    container: &Container,
    handler: &LifecycleHandler,
    limit: Duration,
) -> Result<(), String> {
    if let Some(exec) = handler.exec() {
        return target.exec(exec.command().iter().map(str::to_owned).collect(), limit).await;
    }
    if let Some(get) = handler.http_get() {
        return target.http(container, get, limit).await;
    }
    if let Some(sleep) = handler.sleep() {
        let wanted = Duration::from_secs(sleep.seconds().max(0).unsigned_abs());
        tokio::time::sleep(wanted.min(limit)).await;
        return Ok(());
    }
    Err("invalid handler: neither exec, httpGet nor sleep".into())
}

fn port(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::Text(name) => {
            match container.ports().find(|one| one.name() == name.as_str()) {
                Some(found) => found.container_port(),
                None => name.parse().map_err(|_| format!("couldn't find port: {name}"))?,
            }
        }
    };
    u16::try_from(number).map_err(|_| format!("invalid port number: {number}"))
}
