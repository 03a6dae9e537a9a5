//! componentstatuses: probes the scheduler and the controller manager on this host, and the store.
//! Deprecated, and still what `kubectl get cs` shows.

use std::{sync::Arc, time::Duration};

use api::core::ComponentStatus;
use client::{TcpConnector, TlsOptions};
use http::HeaderMap;
use object::{
    Object, ResourceRef, Status, Value, View,
    selector::{FieldSelector, Selector},
};
use server::{
    ConnectionPool, EndpointHandler, Request, ResponseFuture, Server, WebhookClient, list_as,
};

use super::{ResponseParams, served, typed};

const WITHIN: Duration = Duration::from_secs(5);
const SCHEDULER: &str = "scheduler";
const CONTROLLER_MANAGER: &str = "controller-manager";
const STORE: &str = "etcd-0";

/// The ports where the components on this host serve `/healthz`.
#[derive(Debug)]
pub(super) struct ComponentStatuses {
    pub(super) scheduler: u16,
    pub(super) controller_manager: u16,
}

impl ComponentStatuses {
    /// Uses upstream's default ports, unless others are given.
    pub(super) fn new(ports: Option<(u16, u16)>) -> Self {
        let (scheduler, controller_manager) = ports.unwrap_or((10_259, 10_257));
        Self { scheduler, controller_manager }
    }
}

impl EndpointHandler for ComponentStatuses {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (asked, name) = (ResponseParams::of(&request), request.info.name.clone());
            let kind = served(server, &request)?;
            if !name.is_empty() {
                let found = self.component(server, &name).await.ok_or_else(|| {
                    let resource = "componentstatus";
                    Status::not_found(ResourceRef { group: "", resource, name: &name })
                })?;
                return asked.reply(server, &kind.definition, (200, &found));
            }
            let (scheduler, manager, store) = tokio::join!(
                self.component(server, SCHEDULER),
                self.component(server, CONTROLLER_MANAGER),
                self.component(server, STORE)
            );
            let mut all: Vec<Value> = [scheduler, manager, store].into_iter().flatten().collect();
            let selects = selects(&request)?;
            all.retain(|component| selects(component));
            let now = server.registry.clock().now();
            list_as(&asked.headers, &asked.query, &kind, &all, now)
        })
    }
}

/// The label and field selectors of the request, as a predicate.
fn selects(request: &Request) -> Result<impl Fn(&Value) -> bool, Status> {
    let said = |name: &str| request.query.get(name).unwrap_or_default().to_owned();
    let labels = Selector::parse(&said("labelSelector"))
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let fields = FieldSelector::parse(&said("fieldSelector"))
        .map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(move |component: &Value| {
        let meta = Object::view(component).metadata();
        let field = |name: &str| match name {
            "metadata.name" => meta.name().into(),
            _ => object::Text::default(),
        };
        labels.matches(meta.labels()) && (fields.is_empty() || fields.matches(field))
    })
}

impl ComponentStatuses {
    /// The ComponentStatus of a component; `None` if there is none of that name.
    async fn component(&self, server: &Server, name: &str) -> Option<Value> {
        let health = match name {
            SCHEDULER => probe(self.scheduler).await,
            CONTROLLER_MANAGER => probe(self.controller_manager).await,
            STORE => {
                let health = server.registry.engine().health();
                health.map(|()| "ok".to_owned()).map_err(|error| error.to_string())
            }
            _ => return None,
        };
        let mut status = Value::object();
        status["metadata"]["name"] = name.into();
        let mut condition = Value::object();
        condition["type"] = "Healthy".into();
        condition["status"] = if health.is_ok() { "True" } else { "False" }.into();
        condition["message"] = health.unwrap_or_else(|why| why).into();
        status["conditions"] = [condition].into_iter().collect();
        Some(typed::<ComponentStatus>(status))
    }
}

/// Gets `/healthz` of a component on this host.
async fn probe(port: u16) -> Result<String, String> {
    let tls = TlsOptions { insecure: true, ..TlsOptions::default() };
    let to = TcpConnector::new("127.0.0.1", port, Some(Arc::new(tls)));
    let remote = WebhookClient {
        to,
        host: None,
        path: "/healthz".to_owned(),
        headers: HeaderMap::new(),
        pool: ConnectionPool::default(),
    };
    let asked = format!("Get \"{}\"", remote.url());
    let (code, body) = remote.get(WITHIN).await.map_err(|why| format!("{asked}: {why}"))?;
    let said = String::from_utf8_lossy(&body).into_owned();
    if code.is_success() { Ok(said) } else { Err(format!("{asked}: {code}: {said}")) }
}
