//! The API aggregation layer: APIServices register group versions that other servers serve.
//! Requests are proxied with the caller's identity in headers, and the Available condition is kept
//! up to date.

mod available;
mod local_api_services;
mod remote_discovery;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use api::apiregistration::APIService;
use client::{ConnectionUse, Connector, Pem, TcpConnector, TlsOptions};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header::LOCATION};
use object::{Bytes, Status, Value, View};
use server::{
    Aggregator, ListOptions, MetricsSource, Registry, RemoteDocument, RemoteGroup, Request,
    ResponseFuture, Selection, Server, UserInfo,
};

pub(crate) use self::available::run;
use crate::{client_config::resolve_service, egress::EgressSelector};

const GROUP: &str = "apiregistration.k8s.io";

/// Proxies requests to aggregated servers, and caches their discovery and OpenAPI documents.
#[derive(Debug)]
pub(crate) struct ApiAggregator {
    registry: Arc<Registry>,
    /// The client certificate and key that this server presents to aggregated servers.
    pair: (Pem, Pem),
    /// Whether redirects from an aggregated server are rejected.
    reject_redirects: bool,
    /// The proxy between this server and the aggregated ones, if one is configured.
    egress: EgressSelector,
    /// Discovery and OpenAPI documents, by group and version.
    known: Mutex<BTreeMap<(String, String), RemoteVersion>>,
    /// How often OpenAPI documents have changed.
    edition: AtomicU64,
}

/// The documents of one version of an aggregated server.
#[derive(Clone, Debug)]
struct RemoteVersion {
    resources: Value,
    described: Option<RemoteOpenApi>,
}

/// The OpenAPI documents of one version.
#[derive(Clone, Debug)]
struct RemoteOpenApi {
    /// Path of the v3 document, which contains a hash of its content.
    url: String,
    v2: Arc<Value>,
    v3: bytes::Bytes,
}

impl MetricsSource for ApiAggregator {
    fn report(&self, out: &mut String) {
        const NAME: &str = "aggregator_unavailable_apiservice";
        let _ = write!(out, "# HELP {NAME} Whether others serve.\n# TYPE {NAME} gauge\n");
        let Ok(kind) = self.registry.kind(GROUP, "apiservices") else { return };
        let all = self.registry.list(&kind, &Selection::default(), &ListOptions::default());
        for version in all.map(|list| list.items).unwrap_or_default() {
            let service = APIService::view(&version.object);
            let conditions = service.status().conditions();
            let down = conditions.find(|own| own.type_() == "Available" && own.status() != "True");
            let (name, down) = (service.metadata().name(), u8::from(down.is_some()));
            let _ = writeln!(out, "{NAME}{{name=\"{name}\"}} {down}");
        }
    }
}

impl ApiAggregator {
    pub(crate) fn new(
        registry: &Arc<Registry>,
        pair: (Pem, Pem),
        (rejects, egress): (bool, EgressSelector),
    ) -> Self {
        Self {
            registry: registry.clone(),
            pair,
            reject_redirects: rejects,
            egress,
            known: Mutex::default(),
            edition: AtomicU64::default(),
        }
    }

    /// The APIServices that name a Service, that is, the remote ones.
    fn remote(&self) -> Vec<APIService> {
        let Ok(kind) = self.registry.kind(GROUP, "apiservices") else { return Vec::new() };
        let all = self.registry.list(&kind, &Selection::default(), &ListOptions::default());
        let all = all.map(|list| list.items).unwrap_or_default();
        let services = all.iter().map(|version| APIService::from(version.object.clone()));
        services.filter(|service| service.spec().service().is_some()).collect()
    }

    fn find(&self, group: &str, version: &str) -> Option<APIService> {
        let kind = self.registry.kind(GROUP, "apiservices").ok()?;
        let found = self.registry.get(&kind, "", &format!("{version}.{group}")).ok()?;
        let service = APIService::view(&found.object);
        service.spec().service().is_some().then(|| service.clone())
    }

    /// The connector to the Service of an APIService, and the host name to send.
    fn resolve(&self, service: &APIService) -> Result<(TcpConnector, String), String> {
        let spec = service.spec();
        let target = spec.service().ok_or("no service is named")?;
        let port = i64::from(target.port());
        let (ip, real) = resolve_service(&self.registry, target.namespace(), target.name(), port)?;
        let host = format!("{}.{}.svc", target.name(), target.namespace());
        let bundle = Bytes::decode(spec.ca_bundle()).filter(|pem| !pem.is_empty());
        let tls = TlsOptions {
            ca: bundle.map(Pem::Data),
            pair: Some(self.pair.clone()),
            server_name: Some(host.clone()),
            insecure: spec.insecure_skip_tls_verify(),
            ..TlsOptions::default()
        };
        let to = TcpConnector::new(&ip, real, Some(Arc::new(tls)))
            .with_proxy(self.egress.cluster.clone());
        Ok((to, host))
    }

    fn update_version(&self, group: &str, version: &str, now: Option<RemoteVersion>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (group.to_owned(), version.to_owned());
        let url = |known: Option<&RemoteVersion>| Some(known?.described.as_ref()?.url.clone());
        let changed = url(known.get(&key)) != url(now.as_ref());
        match now {
            Some(now) => drop(known.insert(key, now)),
            None => drop(known.remove(&key)),
        }
        if changed {
            self.edition.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The OpenAPI documents as of the last check.
    fn described(&self, group: &str, version: &str) -> Option<RemoteOpenApi> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(group.to_owned(), version.to_owned()))?.described.clone()
    }

    /// Drops the versions that no APIService registers any more.
    fn forget(&self, services: &[APIService]) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = |(group, version): &(String, String)| {
            let is =
                |own: &APIService| own.spec().group() == group && own.spec().version() == version;
            services.iter().any(is)
        };
        let gone: Vec<_> = known.keys().filter(|key| !stands(key)).cloned().collect();
        drop(known);
        gone.iter().for_each(|(group, version)| self.update_version(group, version, None));
    }

    async fn proxy(
        &self,
        server: &Arc<Server>,
        mut request: Request,
    ) -> Result<server::Reply, Status> {
        let path = request.head.uri.path().to_owned();
        let mut parts = path.trim_start_matches("/apis/").split('/');
        let (group, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let unavailable = || Ok(server::text_reply(503, "service unavailable"));
        let service = self.find(group, version).ok_or_else(Status::unknown_resource)?;
        let conditions = service.status().conditions();
        let down = conditions.find(|own| own.type_() == "Available" && own.status() != "True");
        let Some((to, host)) = self.resolve(&service).ok().filter(|_| down.is_none()) else {
            return unavailable();
        };
        let connected = match to.connect(ConnectionUse::Upgrade).await {
            Ok(connected) => connected,
            Err(error) => {
                let why = format!("error trying to reach service: {error}");
                return Ok(server::text_reply(503, &why));
            }
        };
        let user = request.user.clone();
        if set_identity_headers(&mut request.head.headers, &user).is_err() {
            let why = "error trying to reach service: the user cannot be named in a header";
            return Ok(server::text_reply(503, why));
        }
        let query = request.head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let uri: Uri = format!("https://{host}{path}{query}")
            .parse()
            .map_err(|_| Status::bad_request("the path cannot be passed on"))?;
        let reply = server::proxy(server, request, connected.io, uri).await?;
        let elsewhere = reply.headers().get(LOCATION).is_some_and(|place| !place.is_empty());
        if self.reject_redirects && reply.status().is_redirection() && elsewhere {
            let why = "the backend attempted to redirect this request, which is not permitted";
            return Ok(server::text_reply(502, why));
        }
        Ok(reply)
    }
}

/// Sets the `X-Remote-*` headers to the caller's identity, and removes those that the caller sent.
/// Fails if the identity cannot be a header: without one, the request would seem to come from this
/// server itself.
fn set_identity_headers(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), http::Error> {
    let own: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| -> Result<(), http::Error> {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes())?);
        Ok(())
    };
    add("x-remote-user", &user.name)?;
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid)?;
    }
    for group in &user.groups {
        add("x-remote-group", group)?;
    }
    for (key, values) in &user.extra {
        let key: String = key
            .bytes()
            .map(|c| match c {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                    char::from(c).to_ascii_lowercase().to_string()
                }
                other => format!("%{other:02x}"),
            })
            .collect();
        for value in values {
            add(&format!("x-remote-extra-{key}"), value)?;
        }
    }
    Ok(())
}

impl Aggregator for ApiAggregator {
    fn has(&self, group: &str, version: &str) -> bool {
        self.find(group, version).is_some()
    }

    fn groups(&self) -> Vec<RemoteGroup> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut services = self.remote();
        let spec = |service: &APIService| {
            let spec = service.spec();
            (spec.group().to_owned(), -spec.version_priority(), spec.version().to_owned())
        };
        services.sort_by_key(spec);
        let mut groups: Vec<RemoteGroup> = Vec::new();
        for service in services {
            let (group, _, version) = spec(&service);
            let resources = known.get(&(group.clone(), version.clone()));
            let resources = resources.map(|known| known.resources.clone());
            let entry = (version, resources.unwrap_or_default());
            match groups.last_mut().filter(|last| last.name == group) {
                Some(last) => last.versions.push(entry),
                None => groups.push(RemoteGroup { name: group, versions: vec![entry] }),
            }
        }
        groups
    }

    fn documents(&self) -> Vec<RemoteDocument> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let document = |((group, version), known): (&(String, String), &RemoteVersion)| {
            let RemoteOpenApi { v2, v3, .. } = known.described.clone()?;
            Some(RemoteDocument { group: group.clone(), version: version.clone(), v2, v3 })
        };
        known.iter().filter_map(document).collect()
    }

    fn change_counter(&self) -> u64 {
        self.edition.load(Ordering::Relaxed)
    }

    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(self.proxy(server, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_whole_or_not_passed_on() {
        let mut headers = HeaderMap::new();
        headers.append("x-remote-user", HeaderValue::from_static("root"));
        headers.append("x-remote-extra-scopes", HeaderValue::from_static("all"));
        let mut user = UserInfo::new("J\u{fc}rgen", &["K\u{f6}che", "g"]);
        user.extra.insert("a/b".to_owned(), vec!["\u{fc}".to_owned()]);
        set_identity_headers(&mut headers, &user).unwrap();
        let said = |name: &str| -> Vec<String> {
            let values = headers.get_all(name).iter();
            values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
        };
        assert_eq!(said("x-remote-user"), ["J\u{fc}rgen"]);
        assert_eq!(said("x-remote-group"), ["K\u{f6}che", "g"]);
        assert_eq!(said("x-remote-extra-a%2fb"), ["\u{fc}"]);
        assert_eq!(said("x-remote-extra-scopes"), Vec::<String>::new());
        for (name, group) in [("a\nb", "g"), ("a", "g\r\nx-remote-group: system:masters")] {
            assert!(
                set_identity_headers(&mut HeaderMap::new(), &UserInfo::new(name, &[group]))
                    .is_err()
            );
        }
    }
}
