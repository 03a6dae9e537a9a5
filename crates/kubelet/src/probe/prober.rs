//! Single probes and lifecycle hooks: exec, HTTP, TCP and gRPC.

use std::{sync::Arc, time::Duration};

use api::core::{Container, HTTPGetAction, LifecycleHandler, Pod, ProbeHandler};
use bytes::Bytes;
use client::{Client, ConnectionUse, Connector, Io, TcpConnector, TlsOptions};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, HOST},
};
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
        http_get(self.address(get.host()), port(container, &get.port())?, get, limit).await
    }

    fn address<'a>(&'a self, host: &'a str) -> &'a str {
        if host.is_empty() { &self.ip } else { host }
    }
}

/// Sends one HTTP request. Only the head of the answer is read: the status decides, and a container may send a body
/// without end. Redirects are not followed, and `Retry-After` is no reason to ask again.
async fn http_get(
    host: &str,
    port: u16,
    get: &HTTPGetAction,
    limit: Duration,
) -> Result<(), String> {
    let tls = (get.scheme() == "HTTPS")
        .then(|| Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() }));
    let mut config = client::Config::new(Arc::new(TcpConnector::new(host, port, tls)));
    (config.timeout, config.retries) = (limit, false);
    let client = Client::new(config.user_agent("kube-probe/1.37"));
    let path = if get.path().starts_with('/') {
        get.path().to_owned()
    } else {
        format!("/{}", get.path())
    };
    let failed =
        |why: &str| format!("Get \"{}://{host}:{port}{path}\": {why}", get.scheme().to_lowercase());
    let asked = client.request(Method::GET, &path, probe_headers(get)?, Bytes::new());
    let answer = timeout(limit, asked)
        .await
        .map_err(|_| failed("context deadline exceeded"))?
        .map_err(|error| failed(&error.to_string()))?;
    if (200..400).contains(&answer.status.as_u16()) {
        return Ok(());
    }
    Err(format!("HTTP probe failed with statuscode: {}", answer.status.as_u16()))
}

/// The headers of the probe, and `Accept` unless it has that one too.
fn probe_headers(get: &HTTPGetAction) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in get.http_headers().iter() {
        let name = HeaderName::try_from(header.name()).map_err(|error| error.to_string())?;
        let value = HeaderValue::try_from(header.value()).map_err(|error| error.to_string())?;
        if name == HOST {
            headers.insert(name, value); // a request has one
        } else {
            headers.append(name, value);
        }
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(headers)
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

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinSet,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Answers every connection with `head`, and then `body` without end; returns the port and the requests.
    async fn serve(
        tasks: &mut JoinSet<()>,
        head: &'static str,
        body: &'static [u8],
    ) -> (u16, tokio::sync::mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let (heard, requests) = tokio::sync::mpsc::channel(100);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let got = stream.read(&mut request).await.expect("a request");
                let text = String::from_utf8_lossy(&request[..got]).to_lowercase();
                heard.send(text).await.expect("the test listens");
                // fails once the prober has gone
                let _ = stream.write_all(head.as_bytes()).await;
                while !body.is_empty() && stream.write_all(body).await.is_ok() {}
            }
        });
        (port, requests)
    }

    fn get(fields: &str) -> HTTPGetAction {
        HTTPGetAction::from(from_yaml(&format!("{{scheme: HTTP, path: /p, {fields}}}")).unwrap())
    }

    #[tokio::test]
    async fn one_request_is_one_verdict_whatever_the_container_answers() {
        let mut tasks = JoinSet::new();
        let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
        let (port, mut requests) = serve(&mut tasks, busy, b"").await;
        let error = http_get("127.0.0.1", port, &get(""), LIMIT).await.expect_err("busy");
        assert_eq!(error, "HTTP probe failed with statuscode: 503");
        requests.recv().await.expect("one request");
        assert!(requests.try_recv().is_err(), "it was asked again");

        let (port, _requests) = serve(&mut tasks, "HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096]).await;
        http_get("127.0.0.1", port, &get(""), LIMIT).await.expect("the head is enough");
        let away = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n";
        let (port, mut requests) = serve(&mut tasks, away, b"").await;
        http_get("127.0.0.1", port, &get(""), LIMIT).await.expect("redirects are fine");
        requests.recv().await.expect("one request");
        assert!(requests.try_recv().is_err());
        let (port, _requests) = serve(&mut tasks, "HTTP/1.1 200 OK\r\n", b"A: b\r\n").await;
        http_get("127.0.0.1", port, &get(""), LIMIT).await.expect_err("headers without end");
    }

    #[tokio::test]
    async fn headers_are_those_of_the_probe() {
        let mut tasks = JoinSet::new();
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let (port, mut requests) = serve(&mut tasks, ok, b"").await;
        http_get("127.0.0.1", port, &get(""), LIMIT).await.expect("healthy");
        let plain = requests.recv().await.expect("a request");
        let host = format!("\r\nhost: 127.0.0.1:{port}\r\n");
        assert!(plain.contains("\r\naccept: */*\r\n") && plain.contains(&host), "{plain}");
        assert!(plain.contains("\r\nuser-agent: kube-probe/1.37\r\n"), "{plain}");
        let own = "httpHeaders: [{name: Host, value: web.test}, {name: Accept, value: a/b}, {name: X, value: z}]";
        http_get("127.0.0.1", port, &get(own), LIMIT).await.expect("healthy");
        let own = requests.recv().await.expect("a request");
        for header in ["\r\nhost: web.test\r\n", "\r\naccept: a/b\r\n", "\r\nx: z\r\n"] {
            assert!(own.contains(header), "{own}");
        }
        assert_eq!((own.matches("\r\nhost:").count(), own.matches("\r\naccept:").count()), (1, 1));
    }
}
