//! Webhook clients from a `clientConfig`: the webhook is at a URL, or at an endpoint of a Service,
//! which the server resolves itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use api::{core::Service, discovery::EndpointSlice};
use client::{Addresses, Pem, TcpConnector, TlsOptions};
use http::{HeaderValue, header::USER_AGENT};
use object::{Bytes, Status, Value, View, selector::Selector};
use server::{ListOptions, Registry, Selection, WebhookClient};

use crate::{egress::EgressSelector, remote::CredentialsByHost};

/// Counter for round-robin over the endpoints of a Service.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// The User-Agent of webhook requests.
const AGENT: HeaderValue = HeaderValue::from_static("kube-apiserver-admission");

/// Credentials and proxies for webhook requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhookClientSettings {
    /// The credentials of this server, by webhook host.
    pub(crate) users: CredentialsByHost,
    /// The proxies between this server and webhooks.
    pub(crate) egress: EgressSelector,
}

/// The client for a `clientConfig`; `within` is the timeout that is sent along.
pub(crate) fn webhook_client(
    registry: &Registry,
    config: &Value,
    (within, manner): (Duration, &WebhookClientSettings),
) -> Result<WebhookClient, String> {
    let WebhookClientSettings { users, egress } = manner;
    let seconds = within.as_secs();
    let authorities = config.get("caBundle").as_str().and_then(Bytes::decode);
    let authorities = authorities.filter(|pem| !pem.is_empty()).map(Pem::Data);
    let mut tls = TlsOptions { ca: authorities, ..TlsOptions::default() };
    let service = config.get("service");
    let text = |name: &str| service.get(name).as_str().unwrap_or_default().to_owned();
    if service.is_object() {
        let (namespace, name, path) = (text("namespace"), text("name"), text("path"));
        let port = service.get("port").as_i64().unwrap_or(443);
        let (ip, target) = resolve_service(registry, &namespace, &name, port)?;
        let host = format!("{name}.{namespace}.svc");
        tls.server_name = Some(host.clone());
        let mut user = users.for_host(&host, u16::try_from(port).unwrap_or(443));
        tls.pair = user.pair;
        user.headers.insert(USER_AGENT, AGENT);
        let slash = if path.starts_with('/') { "" } else { "/" };
        return Ok(WebhookClient {
            to: TcpConnector::new(&ip, target, Some(Arc::new(tls)))
                .with_proxy(egress.cluster.clone()),
            host: Some(format!("{host}:{port}")),
            path: format!("{slash}{path}?timeout={seconds}s"),
            headers: user.headers,
            pool: egress.pool.clone(),
        });
    }
    let url = config.get("url").as_str().unwrap_or_default();
    let uri: http::Uri = url.parse().map_err(|_| format!("{url:?} is no address"))?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("{url:?} is not https"));
    }
    let host = uri.host().ok_or_else(|| format!("{url:?} names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let mut user = users.for_host(host, port);
    tls.pair = user.pair;
    user.headers.insert(USER_AGENT, AGENT);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let more = if path.contains('?') { '&' } else { '?' };
    Ok(WebhookClient {
        to: TcpConnector::new(host, port, Some(Arc::new(tls)))
            .with_proxy(egress.control_plane.clone()),
        host: None,
        path: format!("{path}{more}timeout={seconds}s"),
        headers: user.headers,
        pool: egress.pool.clone(),
    })
}

/// Resolves a port of a Service to one of its endpoints, because this server needs no route to
/// cluster IPs.
pub(crate) fn resolve_service(
    registry: &Registry,
    namespace: &str,
    name: &str,
    port: i64,
) -> Result<(String, u16), String> {
    let said = |status: Status| status.message().to_owned();
    let services = registry.kind("", "services").map_err(said)?;
    let found = registry
        .get(&services, namespace, name)
        .map_err(|_| format!("service {name:?} not found"))?;
    let service = Service::view(&found.object);
    if service.spec().type_() == "ExternalName" {
        let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
        return Ok((service.spec().external_name().to_owned(), port));
    }
    let own = service.spec().ports().find(|own| i64::from(own.port()) == port);
    let own = own.ok_or_else(|| format!("service {name:?} has no port {port}"))?;
    let none = || format!("no endpoints available for service {name:?}");
    let slices = registry.kind("discovery.k8s.io", "endpointslices").map_err(said)?;
    let labels = Selector::from_labels([("kubernetes.io/service-name", name)]);
    let selection = Selection { labels, ..Selection::namespace(namespace) };
    let slices = registry.list(&slices, &selection, &ListOptions::default()).map_err(said)?;
    let mut targets = Vec::new();
    for slice in &slices.items {
        let slice = EndpointSlice::view(&slice.object);
        if slice.address_type() == "FQDN" {
            continue; // a name could resolve to this host
        }
        let port = slice.ports().find(|target| target.name() == own.name());
        let Some(port) = port.and_then(api::discovery::EndpointPort::port) else { continue };
        for endpoint in slice.endpoints().iter() {
            if endpoint.conditions().ready() != Some(false) {
                let global =
                    |ip: &&str| ip.parse().is_ok_and(|ip| Addresses::GlobalUnicast.allow(ip));
                let addresses = endpoint.addresses().iter().filter(global);
                targets.extend(addresses.map(|ip| (ip.to_owned(), port)));
            }
        }
    }
    let turn = TURN.fetch_add(1, Ordering::Relaxed) % targets.len().max(1);
    let (ip, port) = targets.get(turn).ok_or_else(none)?;
    Ok((ip.clone(), u16::try_from(*port).map_err(|_| none())?))
}
