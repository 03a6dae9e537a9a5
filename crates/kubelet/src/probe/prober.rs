//! Single probes and lifecycle hooks: exec, HTTP, TCP and gRPC.

use std::{sync::Arc, time::Duration};

use api::core::{Container, HTTPGetAction, LifecycleHandler, Pod, ProbeHandler};
use bytes::Bytes;
use client::{Client, ConnectionUse, Connector, Io, TcpConnector, TlsOptions};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use object::{IntOrString, wait_seconds};
use tokio::time::timeout;

use super::{command::Failure, grpc};
use crate::runtime::RuntimeClient;

/// The container to probe.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTarget {
    pub(crate) runtime: RuntimeClient,
    /// The container's id.
    pub(crate) container: String,
    pub(crate) ip: String,
}

impl ProbeTarget {
    /// Runs a network probe (HTTP, TCP or gRPC); exec probes use `probe_command`.
    pub(crate) async fn run_probe(
        &self,
        _pod: &Pod,
        container: &Container,
        handler: &ProbeHandler,
        limit: Duration,
    ) -> Result<(), String> {
        if let Some(get) = handler.http_get() {
            return self.http(container, get, limit).await;
        }
        if let Some(tcp) = handler.tcp_socket() {
            let port = port(container, &tcp.port())?;
            return connect(self.address(tcp.host()), port, limit).await.map(drop);
        }
        if let Some(grpc) = handler.grpc() {
            let port = u16::try_from(grpc.port()).map_err(|_| "not a port".to_owned())?;
            return grpc::check(&self.ip, port, grpc.service(), limit).await;
        }
        Err("missing probe handler".into())
    }

    async fn http(
        &self,
        container: &Container,
        get: &HTTPGetAction,
        limit: Duration,
    ) -> Result<(), String> {
        let port = port(container, &get.port())?;
        let host = self.address(get.host());
        let tls = (get.scheme() == "HTTPS")
            .then(|| Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() }));
        let mut config = client::Config::new(Arc::new(TcpConnector::new(host, port, tls)));
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

    fn address<'a>(&'a self, host: &'a str) -> &'a str {
        if host.is_empty() { &self.ip } else { host }
    }
}

/// Opens a TCP connection with the API client's own resolver. The standard library's resolver blocks a thread for as
/// long as the DNS server takes, and the pod chooses the name.
pub(super) async fn connect(host: &str, port: u16, limit: Duration) -> Result<Box<dyn Io>, String> {
    match timeout(limit, TcpConnector::new(host, port, None).connect(ConnectionUse::Requests)).await
    {
        Ok(Ok(connected)) => Ok(connected.io),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
    }
}

/// Runs a lifecycle hook.
pub(crate) async fn run_hook(
    target: &ProbeTarget,
    container: &Container,
    handler: &LifecycleHandler,
    limit: Duration,
) -> Result<(), String> {
    if let Some(exec) = handler.exec() {
        let command: Vec<_> = exec.command().iter().map(str::to_owned).collect();
        return target.run_command(&command, limit).await.map_err(Failure::text);
    }
    if let Some(get) = handler.http_get() {
        return target.http(container, get, limit).await;
    }
    if let Some(sleep) = handler.sleep() {
        let wanted = wait_seconds(sleep.seconds());
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
