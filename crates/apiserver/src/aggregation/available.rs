//! Who answers: each server behind this one is asked now and then what it serves.

use std::{sync::Arc, time::Duration};

use api::apiregistration::APIService;
use object::{Object, Status, Time, Value, View, from_json};
use server::{Call, Remote, User};
use tokio::time::sleep;
use tracing::warn;

use super::{Aggregation, GROUP, local};

const AGAIN: Duration = Duration::from_secs(5);
const WITHIN: Duration = Duration::from_secs(5);

/// Why a service is available or not: status, reason, message.
type Verdict = (&'static str, &'static str, String);

/// Keeps the conditions of all APIServices true.
pub(crate) async fn run(aggregation: Arc<Aggregation>) {
    loop {
        if let Err(status) = local::follow(&aggregation.registry).await {
            warn!(error = status.message(), "local API services cannot be kept");
        }
        for service in aggregation.remote() {
            let verdict = aggregation.check(&service).await;
            if let Err(status) = aggregation.note(&service, verdict).await {
                warn!(error = status.message(), "the state of an API service cannot be kept");
            }
        }
        sleep(AGAIN).await;
    }
}

impl Aggregation {
    async fn check(&self, service: &APIService) -> Verdict {
        let spec = service.spec();
        let (group, version) = (spec.group(), spec.version());
        let Some(target) = spec.service() else {
            return ("False", "ServiceNotFound", "no service is named".to_owned());
        };
        let (namespace, name) = (target.namespace(), target.name());
        let found = self
            .registry
            .kind("", "services")
            .and_then(|kind| self.registry.get(&kind, namespace, name));
        if found.is_err() {
            let why = format!("service/{name} in {namespace:?} is not present");
            return ("False", "ServiceNotFound", why);
        }
        let Ok((to, host)) = self.way(service) else {
            self.learn(group, version, None);
            let why = format!(
                "endpoints for service/{name} in {namespace:?} have no addresses with port name \"\""
            );
            return ("False", "MissingEndpoints", why);
        };
        let remote = Remote {
            to,
            host: Some(host),
            path: format!("/apis/{group}/{version}"),
            headers: introduction(),
        };
        let url = remote.url();
        let failed = |why: String| {
            let why = format!("failing or missing response from {url}: {why}");
            ("False", "FailedDiscoveryCheck", why)
        };
        match remote.get(WITHIN).await {
            Ok((code, body)) if code.is_success() => {
                self.learn(group, version, from_json(&body).ok());
                ("True", "Passed", "all checks passed".to_owned())
            }
            Ok((code, _)) => failed(format!("bad status from {url}: {}", code.as_u16())),
            Err(error) => failed(format!("Get {url:?}: {error}")),
        }
    }

    /// Writes the condition, if it has changed.
    async fn note(
        &self,
        service: &APIService,
        (status, reason, why): Verdict,
    ) -> Result<(), Status> {
        let old = service.status().conditions().find(|own| own.type_() == "Available");
        if old.is_some_and(|old| {
            (old.status(), old.reason(), old.message()) == (status, reason, &why)
        }) {
            return Ok(());
        }
        let changed = old.is_none_or(|old| old.status() != status);
        let since = old.map(|old| old.last_transition_time().to_owned()).unwrap_or_default();
        let since =
            if changed { Time::text(self.registry.clock().now()).to_string() } else { since };
        let kind = self.registry.kind(GROUP, "apiservices")?;
        let change = |old: &store::Version<Value>| {
            let mut service = old.object.clone();
            let mut condition = Value::object();
            condition["type"] = "Available".into();
            condition["status"] = status.into();
            condition["reason"] = reason.into();
            condition["message"] = why.as_str().into();
            condition["lastTransitionTime"] = since.as_str().into();
            let others = service.get("status").get("conditions").items().iter();
            let others =
                others.filter(|own| own.get("type").as_str() != Some("Available")).cloned();
            let all: Vec<Value> = others.chain([condition]).collect();
            service["status"]["conditions"] = all.into_iter().collect();
            Ok(service)
        };
        let own = User::new("system:apiserver", &["system:masters"]);
        let mut call = Call::new(own, "kube-apiserver");
        let name = Object::view(object::Lens::tree(service)).metadata().name();
        self.registry.change(&mut call, &kind, ("", name), "status", change).await.map(drop)
    }
}

/// This server itself asks, as somebody who may read what is served.
fn introduction() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-remote-user", http::HeaderValue::from_static("system:kube-aggregator"));
    headers.insert("x-remote-group", http::HeaderValue::from_static("system:masters"));
    headers
}
