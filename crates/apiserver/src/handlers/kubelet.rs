//! Requests that are proxied to a kubelet, a pod or a Service: logs, exec, attach, portforward and
//! proxy.

use std::{io, sync::Arc, time::Duration};

use api::core::{Container, ContainerPort, Node, Pod};
use client::{
    ADDRESS_NOT_ALLOWED, Addresses, Connection, ConnectionUse, Connector, Proxy, TcpConnector,
    TlsOptions,
};
use http::{
    HeaderValue, Method, StatusCode, Uri,
    header::{HOST, LOCATION, UPGRADE},
};
use http_body_util::BodyExt;
use object::{ResourceRef, Status, View};
use schema::{ErrorList, FieldPath};
use server::{
    Attributes, CounterVec, EndpointHandler, MetricDesc, MetricsSource, Query, Reply, Request,
    ResponseFuture, Server, WebSocketUpgrade, authorization_decision, is_upgrade, proxy,
};
use tokio::time::timeout;

use super::{
    connect, kubelet_error,
    link_rewrite::{self, LinkRewrite},
    targets::{Target, endpoint, escaped},
};

/// Connect timeout for pods and Services.
const WITHIN: Duration = Duration::from_secs(30);

/// How kubelets are reached.
#[derive(Clone, Debug)]
pub(crate) struct KubeletClient {
    pub(crate) tls: Arc<TlsOptions>,
    /// Whether a kubelet's certificate must be for the name of its node, instead of the address.
    pub(crate) by_name: bool,
    /// Preferred types of node addresses, in order.
    pub(crate) addresses: Vec<String>,
    /// Connect timeout for kubelets.
    pub(crate) timeout: Duration,
    /// The proxy to kubelets, pods and Services, if one is configured.
    pub(crate) egress_proxy: Option<Proxy>,
    pub(crate) logs: Arc<PodLogMetrics>,
    /// Whether exec, attach and portforward need the verb `create`, whatever the HTTP method.
    pub(crate) streams_need_create: bool,
}

/// Metrics of log requests: with and without verification of the kubelet's certificate.
#[derive(Debug)]
pub(crate) struct PodLogMetrics {
    usage: CounterVec,
    failures: CounterVec,
}

impl Default for PodLogMetrics {
    fn default() -> Self {
        Self {
            usage: CounterVec::new(MetricDesc {
                name: "kube_apiserver_pod_logs_insecure_backend_total",
                help: "Logs by whether kubelets are verified.",
                labels: &["usage"],
            }),
            failures: CounterVec::new(MetricDesc {
                name: "kube_apiserver_pod_logs_backend_tls_failure_total",
                help: "Kubelets that could not prove who they are.",
                labels: &[],
            }),
        }
    }
}

impl MetricsSource for PodLogMetrics {
    fn report(&self, out: &mut String) {
        self.usage.write(out);
        self.failures.write(out);
    }
}

impl KubeletClient {
    /// The handler of a pod's log, exec, attach, portforward or proxy subresource.
    pub(super) fn pods(&self, verb: &'static str) -> PodProxyHandler {
        PodProxyHandler { kubelets: self.clone(), verb }
    }

    /// The handler of `nodes/proxy`.
    pub(super) fn nodes(&self) -> NodeProxyHandler {
        NodeProxyHandler { kubelets: self.clone() }
    }

    /// The handler of `services/proxy`.
    pub(super) fn services(&self) -> ServiceProxyHandler {
        ServiceProxyHandler { through: self.egress_proxy.clone() }
    }

    /// Proxies the request to a port of a node, by default to its kubelet.
    async fn call(&self, server: &Arc<Server>, request: Request) -> Result<Reply, Status> {
        let target = Target::parse("node", &request.info.name)?;
        let kubelet = self.of(server, &target.name)?;
        let port = target.number()?.filter(|port| *port != kubelet.port);
        let to = match port {
            Some(port) => TcpConnector::new(&kubelet.host, port, tls_for(&target.scheme))
                .with_proxy(self.egress_proxy.clone()),
            None => kubelet,
        };
        // Through such a stream the kubelet executes commands.
        if port.is_none() && is_upgrade(&request.head.headers) {
            self.may_stream(server, &request).await?;
        }
        let path = path_of(&request);
        let to = to.only(Addresses::GlobalUnicast);
        proxy_request(server, request, (&to, self.timeout), &path).await
    }

    /// Checks the verb `create` for a stream, because WebSocket clients must use GET.
    async fn may_stream(&self, server: &Server, request: &Request) -> Result<(), Status> {
        let info = &request.info;
        if !self.streams_need_create || info.verb == "create" {
            return Ok(());
        }
        let wanted = Attributes { verb: "create".into(), ..info.attributes(&request.query) };
        authorization_decision(server, &request.user, &wanted).await.map(drop).map_err(|why| {
            let (group, resource, name) = (&*info.group, &*info.resource, &*info.name);
            Status::forbidden(ResourceRef { group, resource, name }, &why)
        })
    }

    /// Proxies a log, exec, attach or portforward request to the kubelet; errors have upstream's
    /// texts.
    async fn stream(
        &self,
        server: &Arc<Server>,
        request: Request,
        node: &str,
        path: &str,
    ) -> Result<Reply, Status> {
        let mut to = self.of(server, node)?;
        let logs = path.starts_with("/containerLogs/");
        if logs && request.query.flag("insecureSkipTLSVerifyBackend") {
            self.logs.usage.count(&["skip_tls_allowed"]);
            let anybody = TlsOptions { insecure: true, ca: None, ..(*self.tls).clone() };
            to.tls = Some(Arc::new(anybody));
        } else if logs {
            self.logs.usage.count(&["enforce_tls"]);
        }
        let failed = |error: io::Error| {
            let error = error.to_string();
            let said = if logs {
                if error.contains("certificate") {
                    self.logs.failures.count(&[]);
                }
                format!("Get \"{}://{}{path}\": {error}", to.scheme(), to.authority())
            } else {
                format!("error dialing backend: {error}")
            };
            Status::failure(500, "", said)
        };
        let connected = reach(&to, self.timeout).await.map_err(failed)?;
        let reply = proxy_over(server, request, &to, connected, path).await?;
        match reply.status().is_redirection() {
            true => Err(failed(io::Error::other("redirects forbidden"))),
            false => Ok(reply),
        }
    }

    /// The connector to a node's kubelet.
    fn of(&self, server: &Server, node: &str) -> Result<TcpConnector, Status> {
        let kind = server.registry.kind("", "nodes")?;
        let found = server.registry.get(&kind, "", node)?;
        let (host, port) = address(Node::view(&found.object), &self.addresses)?;
        let tls = match self.by_name {
            true => {
                Arc::new(TlsOptions { server_name: Some(node.to_owned()), ..(*self.tls).clone() })
            }
            false => self.tls.clone(),
        };
        Ok(TcpConnector::new(&host, port, Some(tls)).with_proxy(self.egress_proxy.clone()))
    }
}

/// The address and port of a node's kubelet.
fn address(node: &Node, preferred: &[String]) -> Result<(String, u16), Status> {
    let addresses = node.status().addresses();
    let mut preferred = preferred.iter();
    let found = preferred.find_map(|wanted| addresses.find(|own| own.type_() == wanted));
    let Some(found) = found else {
        let name = node.metadata().name();
        return Err(Status::internal(format!("no preferred addresses found for node {name:?}")));
    };
    let port = node.status().daemon_endpoints().kubelet_endpoint().port();
    let port = u16::try_from(port).ok().filter(|port| *port != 0).unwrap_or(10250);
    Ok((found.address().to_owned(), port))
}

async fn proxy_request(
    server: &Arc<Server>,
    request: Request,
    (to, within): (&TcpConnector, Duration),
    path: &str,
) -> Result<Reply, Status> {
    if let Some(place) = trailing_slash_redirect(&request) {
        let mut reply = nothing(StatusCode::MOVED_PERMANENTLY);
        reply.headers_mut().insert(LOCATION, place);
        return Ok(reply);
    }
    let connected = reach(to, within).await.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied if error.to_string() == ADDRESS_NOT_ALLOWED => {
            Status::bad_request(ADDRESS_NOT_ALLOWED)
        }
        _ => Status::unavailable(format!("error trying to reach service: {error}")),
    })?;
    let way = way(&request, to.authority());
    Ok(link_rewrite::through(way, proxy_over(server, request, to, connected, path).await?))
}

/// How links in pages behind the proxy are rewritten.
fn way(request: &Request, target: &str) -> LinkRewrite {
    let path = request.head.uri.path().trim_end_matches('/');
    let prefix = path.strip_suffix(request.info.rest.trim_end_matches('/')).unwrap_or(path);
    let host = request.head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or(request.head.uri.authority().map(http::uri::Authority::as_str));
    LinkRewrite {
        prefix: prefix.trim_end_matches('/').to_owned(),
        hosts: [target.to_owned(), host.unwrap_or_default().to_owned()],
    }
}

async fn reach(to: &TcpConnector, within: Duration) -> io::Result<Connection> {
    let late = || {
        let said = format!("dial tcp {}: i/o timeout", to.authority());
        io::Error::new(io::ErrorKind::TimedOut, said)
    };
    timeout(within, to.connect(ConnectionUse::Upgrade)).await.unwrap_or_else(|_| Err(late()))
}

async fn proxy_over(
    server: &Arc<Server>,
    request: Request,
    to: &TcpConnector,
    connected: Connection,
    path: &str,
) -> Result<Reply, Status> {
    let uri: Uri = format!("{}://{}{path}", to.scheme(), to.authority())
        .parse()
        .map_err(|_| Status::bad_request("the path cannot be passed on"))?;
    proxy(server, request, connected.io, uri).await
}

/// The redirect to the path with a trailing slash, which relative links at the root of the target
/// need.
fn trailing_slash_redirect(request: &Request) -> Option<HeaderValue> {
    let (head, path) = (&request.head, request.head.uri.path());
    let asks = matches!(head.method, Method::GET | Method::HEAD)
        && request.info.subresource == "proxy"
        && !head.headers.contains_key(UPGRADE);
    if !asks || !request.info.rest.is_empty() || path.ends_with('/') {
        return None;
    }
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    HeaderValue::from_str(&format!("{path}/{query}")).ok()
}

fn nothing(code: StatusCode) -> Reply {
    let body = http_body_util::Empty::new()
        .map_err(|never: std::convert::Infallible| match never {})
        .boxed_unsync();
    let mut reply = Reply::new(body);
    *reply.status_mut() = code;
    reply
}

/// Proxies a subresource of a pod, named by `verb`.
#[derive(Debug)]
pub(super) struct PodProxyHandler {
    kubelets: KubeletClient,
    verb: &'static str,
}

impl EndpointHandler for PodProxyHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, mut request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            connect::admit(server, &mut request).await?;
            let info = request.info.clone();
            if matches!(self.verb, "exec" | "attach" | "portforward") {
                self.kubelets.may_stream(server, &request).await?;
            } else if self.verb == "proxy" {
                return self.pass(server, request).await;
            }
            let kind = server.registry.kind("", "pods")?;
            let name = info.name.to_string();
            if self.verb == "log" {
                log_options(&request.query, &name)?;
            }
            let found = server.registry.get(&kind, &info.namespace, &name)?;
            let pod = Pod::view(&found.object);
            let container = match self.verb {
                "portforward" => String::new(),
                _ => container(pod, request.query.get("container").unwrap_or_default())?,
            };
            let node = pod.spec().node_name();
            if node.is_empty() && self.verb == "log" {
                return Ok(nothing(StatusCode::NO_CONTENT));
            } else if node.is_empty() {
                return Err(Status::bad_request(format!(
                    "pod {name} does not have a host assigned"
                )));
            }
            let namespace = &info.namespace;
            let query = kubelet_query(self.verb, request.head.uri.query().unwrap_or_default());
            let path = match self.verb {
                "log" => format!("/containerLogs/{namespace}/{name}/{container}{query}"),
                "portforward" => format!("/portForward/{namespace}/{name}{query}"),
                verb => format!("/{verb}/{namespace}/{name}/{container}{query}"),
            };
            let node = node.to_owned();
            let socket =
                if self.verb == "log" { WebSocketUpgrade::take(&mut request)? } else { None };
            let mut reply = self.kubelets.stream(server, request, &node, &path).await?;
            if self.verb == "log" {
                reply = kubelet_error::check(reply, &name).await?;
            }
            match socket {
                Some(socket) => socket.stream_chunks(server, reply),
                None => Ok(reply),
            }
        })
    }
}

impl PodProxyHandler {
    /// Proxies the request to a port of the pod.
    async fn pass(&self, server: &Arc<Server>, request: Request) -> Result<Reply, Status> {
        let target = Target::parse("pod", &request.info.name)?;
        let kind = server.registry.kind("", "pods")?;
        let found = server.registry.get(&kind, &request.info.namespace, &target.name)?;
        let pod = Pod::view(&found.object);
        let default = pod.spec().containers().iter().find_map(|container| {
            container.ports().iter().next().map(ContainerPort::container_port)
        });
        let default = default.and_then(|port| u16::try_from(port).ok());
        let usual = if target.scheme == "https" { 443 } else { 80 };
        let port = target.number()?.or(default).unwrap_or(usual);
        let ip = pod.status().pod_ip();
        if ip.parse().is_ok_and(|ip| Addresses::GlobalUnicast.allow(ip)) {
            let to = TcpConnector::new(ip, port, tls_for(&target.scheme))
                .with_proxy(self.kubelets.egress_proxy.clone());
            let path = path_of(&request);
            return proxy_request(server, request, (&to, WITHIN), &path).await;
        }
        Err(Status::bad_request(ADDRESS_NOT_ALLOWED))
    }
}

/// Path and query of the request to the target.
fn path_of(request: &Request) -> String {
    let (uri, rest) = (&request.head.uri, escaped(&request.info.rest));
    let slash = if !rest.is_empty() && uri.path().ends_with('/') { "/" } else { "" };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{rest}{slash}{query}")
}

/// Translates the query of a stream to the kubelet's option names.
fn kubelet_query(verb: &str, query: &str) -> String {
    let named = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = match (verb, name) {
            (_, "" | "container") | ("log", "insecureSkipTLSVerifyBackend") => return None,
            ("exec" | "attach", "stdin") => "input",
            ("exec" | "attach", "stdout") => "output",
            ("exec" | "attach", "stderr") => "error",
            ("portforward", "ports") => "port",
            (_, name) => name,
        };
        Some(format!("{name}={value}"))
    };
    let mut pairs: Vec<String> = query.split('&').filter_map(named).collect();
    pairs.sort_by(|a, b| a.split('=').next().cmp(&b.split('=').next()));
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Validates the options of a log request.
fn log_options(query: &Query, pod: &str) -> Result<(), Status> {
    let mut errs = ErrorList::default();
    if let Some(lines) = query.integer("tailLines")? {
        errs.non_negative(&FieldPath::Root.field("tailLines"), lines);
    }
    let mut positive = |name: &'static str, n: i64| {
        if n < 1 {
            errs.invalid(&FieldPath::Root.field(name), n, "must be greater than 0");
        }
    };
    if let Some(bytes) = query.integer("limitBytes")? {
        positive("limitBytes", bytes);
    }
    let since = query.integer("sinceSeconds")?;
    if since.is_some() && query.get("sinceTime").is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errs.forbidden(&FieldPath::Root.key(""), why);
    } else if let Some(seconds) = since {
        positive("sinceSeconds", seconds);
    }
    if query.get("stream").is_some() {
        errs.forbidden(&FieldPath::Root.field("stream"), "may not be specified");
    }
    if errs.is_empty() { Ok(()) } else { Err(errs.into_status("", "PodLogOptions", pod)) }
}

/// The container that the request names, the annotated default, or the only one.
fn container(pod: &Pod, named: &str) -> Result<String, Status> {
    let spec = pod.spec();
    let all: Vec<&str> = spec
        .containers()
        .iter()
        .map(Container::name)
        .chain(spec.init_containers().iter().map(Container::name))
        .chain(
            spec.ephemeral_containers()
                .iter()
                .map(|container| container.ephemeral_container_common().name()),
        )
        .collect();
    let pod_name = pod.metadata().name();
    if !named.is_empty() {
        if all.contains(&named) {
            return Ok(named.to_owned());
        }
        return Err(Status::bad_request(format!(
            "container {named} is not valid for pod {pod_name}"
        )));
    }
    let annotated = pod.metadata().annotations().get("kubectl.kubernetes.io/default-container");
    if let Some(name) = annotated.filter(|name| all.contains(name)) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = spec.containers().iter().map(Container::name).collect();
    match &*names {
        [only] => Ok((*only).to_owned()),
        [] => Err(Status::bad_request(format!("pod {pod_name} has no containers"))),
        many => {
            let mut said = format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                many.join(" ")
            );
            let first: Vec<&str> = spec.init_containers().iter().map(Container::name).collect();
            if !first.is_empty() {
                said += &format!(" or one of the init containers: [{}]", first.join(" "));
            }
            Err(Status::bad_request(said))
        }
    }
}

/// Proxies requests to a node.
#[derive(Debug)]
pub(super) struct NodeProxyHandler {
    kubelets: KubeletClient,
}

impl EndpointHandler for NodeProxyHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, mut request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            connect::admit(server, &mut request).await?;
            self.kubelets.call(server, request).await
        })
    }
}

/// Proxies requests to a ready endpoint of a Service, because this server needs no route to cluster
/// IPs.
#[derive(Debug)]
pub(super) struct ServiceProxyHandler {
    through: Option<Proxy>,
}

impl EndpointHandler for ServiceProxyHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, mut request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            connect::admit(server, &mut request).await?;
            let info = request.info.clone();
            let target = Target::parse("service", &info.name)?;
            let (ip, port) = endpoint(&server.registry, &info.namespace, &target)?;
            let to = TcpConnector::new(&ip, port, tls_for(&target.scheme))
                .with_proxy(self.through.clone())
                .only(Addresses::GlobalUnicast);
            let path = path_of(&request);
            proxy_request(server, request, (&to, WITHIN), &path).await
        })
    }
}

/// Certificates of targets are not verified, as upstream does: the cluster network is trusted.
fn tls_for(scheme: &str) -> Option<Arc<TlsOptions>> {
    (scheme == "https").then(|| Arc::new(TlsOptions { insecure: true, ..TlsOptions::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_have_names_of_their_own() {
        let exec =
            kubelet_query("exec", "stdout=true&container=main&command=sh&stdin=1&command=-c");
        assert_eq!(exec, "?command=sh&command=-c&input=1&output=true");
        assert_eq!(kubelet_query("portforward", "ports=80&ports=81"), "?port=80&port=81");
        assert_eq!(
            kubelet_query("log", "tailLines=10&container=a&follow=true"),
            "?follow=true&tailLines=10"
        );
        assert_eq!(kubelet_query("log", ""), "");
    }
}
