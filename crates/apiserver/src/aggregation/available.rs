//! Availability of aggregated servers: the discovery document of each is fetched every few seconds and when an
//! APIService has changed.

use std::{future::pending, sync::Arc, time::Duration};

use api::apiregistration::APIService;
use futures_util::stream::{self, StreamExt as _};
use object::{Status, from_json};
use server::{Selection, Watch, WatchStart, WebhookClient};
use tokio::time::sleep;
use tracing::warn;

use super::{
    ApiAggregator, GROUP, RemoteOpenApi, RemoteVersion, local_api_services, remote_discovery,
};
use crate::condition::ConditionUpdate;

const AGAIN: Duration = Duration::from_secs(5);
/// Waits for further changes, which are handled together.
const SOON: Duration = Duration::from_millis(100);
const WITHIN: Duration = Duration::from_secs(5);
/// How many servers are checked at the same time.
const TOGETHER: usize = 32;

/// The Available condition of a service: status, reason, message.
type Availability = (&'static str, &'static str, String);

/// Keeps the Available condition of all APIServices up to date.
pub(crate) async fn run(aggregation: Arc<ApiAggregator>) {
    let mut changes = None;
    loop {
        if changes.is_none() {
            changes = aggregation.changes().ok();
        }
        let local =
            panics::contain("aggregation", local_api_services::reconcile(&aggregation.registry))
                .await;
        if let Ok(Err(status)) = local {
            warn!(error = status.message(), "cannot write the local APIServices");
        }
        let services = panics::catch("aggregation", || aggregation.remote()).unwrap_or_default();
        aggregation.forget(&services);
        check_all(&aggregation, services).await;
        rest(&mut changes).await;
    }
}

/// Checks all servers concurrently, so that one that does not respond delays no other.
async fn check_all(aggregation: &ApiAggregator, services: Vec<APIService>) {
    let checks = services.into_iter().map(|service| async move {
        let checked = async {
            let verdict = aggregation.check(&service).await;
            aggregation.set_condition(&service, verdict).await
        };
        if let Ok(Err(status)) = panics::contain("aggregation", checked).await {
            warn!(error = status.message(), "cannot update the status of an APIService");
        }
    });
    stream::iter(checks).buffer_unordered(TOGETHER).collect::<()>().await;
}

/// Returns when an APIService has changed, or after [`AGAIN`].
async fn rest(changes: &mut Option<Watch>) {
    let change = async {
        match changes {
            Some(watch) => watch.next().await.is_some_and(|change| change.is_ok()),
            None => pending().await,
        }
    };
    let goes_on = tokio::select! {
        () = sleep(AGAIN) => true,
        goes_on = change => {
            sleep(SOON).await;
            goes_on
        }
    };
    if !goes_on {
        *changes = None;
    }
}

impl ApiAggregator {
    fn changes(&self) -> Result<Watch, Status> {
        let kind = self.registry.kind(GROUP, "apiservices")?;
        let start = WatchStart::After(kind.objects()?.progress_revision());
        self.registry.watch(&kind, Selection::default(), start)
    }

    async fn check(&self, service: &APIService) -> Availability {
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
        let Ok((to, host)) = self.resolve(service) else {
            self.update_version(group, version, None);
            let why = format!(
                "endpoints for service/{name} in {namespace:?} have no addresses with port name \"\""
            );
            return ("False", "MissingEndpoints", why);
        };
        let remote = WebhookClient {
            to,
            host: Some(host),
            path: format!("/apis/{group}/{version}"),
            headers: aggregator_identity_headers(),
            pool: self.egress.pool.clone(),
        };
        let url = remote.url();
        let failed = |why: String| {
            let why = format!("failing or missing response from {url}: {why}");
            ("False", "FailedDiscoveryCheck", why)
        };
        match remote.get(WITHIN).await {
            Ok((code, body)) if code.is_success() => {
                let documents = self.describe(&remote, group, version).await;
                let known = from_json(&body).ok();
                let known = known.map(|said| {
                    let resources = remote_discovery::resources(&said, group, version);
                    RemoteVersion { resources, described: documents }
                });
                self.update_version(group, version, known);
                ("True", "Passed", "all checks passed".to_owned())
            }
            Ok((code, _)) => failed(format!("bad status from {url}: {}", code.as_u16())),
            Err(error) => failed(format!("Get {url:?}: {error}")),
        }
    }

    /// The OpenAPI documents of a version, if its server has any; fetched again only when they have
    /// changed.
    async fn describe(
        &self,
        remote: &WebhookClient,
        group: &str,
        version: &str,
    ) -> Option<RemoteOpenApi> {
        let get = async |path: &str| {
            let remote = WebhookClient { path: path.to_owned(), ..remote.clone() };
            let (code, body) = remote.get(WITHIN).await.ok()?;
            code.is_success().then_some(body)
        };
        let index = from_json(&get("/openapi/v3").await?).ok()?;
        let entry = index.get("paths").get(&format!("apis/{group}/{version}"));
        let url = entry.get("serverRelativeURL").as_str()?.to_owned();
        let before = self.described(group, version);
        if before.as_ref().is_some_and(|before| before.url == url) {
            return before;
        }
        let v3 = get(&url).await?;
        let v2 = Arc::new(from_json(&get("/openapi/v2").await?).ok()?);
        Some(RemoteOpenApi { url, v2, v3 })
    }

    /// Writes the condition, if it has changed.
    async fn set_condition(
        &self,
        service: &APIService,
        (status, reason, why): Availability,
    ) -> Result<(), Status> {
        let kind = self.registry.kind(GROUP, "apiservices")?;
        let condition = ConditionUpdate { kind: "Available", status, reason, message: &why };
        let name = service.metadata().name();
        condition.write_if_changed(&self.registry, &kind, name, object::Lens::tree(service)).await
    }
}

/// The identity that this server presents when it checks an aggregated server.
fn aggregator_identity_headers() -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-remote-user", http::HeaderValue::from_static("system:kube-aggregator"));
    headers.insert("x-remote-group", http::HeaderValue::from_static("system:masters"));
    headers
}
