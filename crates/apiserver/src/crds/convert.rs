//! Conversion by webhook: a review is sent to whom the definition names.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use api::{core::Service, discovery::EndpointSlice};
use client::{Client, Config, Pem, Tcp, Tls};
use object::{Bytes, Status, Value, View, selector::Selector, to_json};
use server::{Convert, Converting, Page, Registry, Selection};

/// How long a webhook may take.
const WITHIN: Duration = Duration::from_secs(30);
/// The forms of a review that this server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Asks the webhooks of definitions.
#[derive(Debug)]
pub(crate) struct Webhooks {
    /// The registry holds this.
    registry: Weak<Registry>,
}

impl Webhooks {
    pub(crate) fn new(registry: &Arc<Registry>) -> Self {
        Self { registry: Arc::downgrade(registry) }
    }
}

impl Convert for Webhooks {
    fn convert(&self, webhook: &Value, objects: Vec<Value>, api_version: &str) -> Converting {
        let (registry, webhook) = (self.registry.clone(), webhook.clone());
        let wanted = api_version.to_owned();
        Box::pin(async move {
            let registry = registry.upgrade().ok_or("the server is ending")?;
            let reviews = webhook.get("conversionReviewVersions").items();
            let version =
                reviews.iter().filter_map(Value::as_str).find(|own| REVIEWS.contains(own));
            let version = version.ok_or("no supported conversion review versions")?;
            let uid = server::uid();
            let review = request(version, &uid, objects, &wanted);
            let (to, path) = place(&registry, webhook.get("clientConfig"))?;
            let client = Client::new(Config::new(Arc::new(to)).timeout(WITHIN));
            let path = format!("{path}?timeout={}s", WITHIN.as_secs());
            let body = bytes::Bytes::from(to_json(&review));
            let answer = client.call(http::Method::POST, &path, "application/json", body).await;
            response(version, &uid, &answer.map_err(|error| error.to_string())?)
        })
    }
}

/// Where a webhook is, and its path there. An endpoint of a service is found here: this
/// server needs no route to the addresses of services.
fn place(registry: &Registry, config: &Value) -> Result<(Tcp, String), String> {
    let authorities = config.get("caBundle").as_str().and_then(Bytes::decode);
    let authorities = authorities.filter(|pem| !pem.is_empty()).map(Pem::Data);
    let tls = Tls { authorities, ..Tls::default() };
    let service = config.get("service");
    if service.is_object() {
        let text = |name: &str| service.get(name).as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let port = service.get("port").as_i64().unwrap_or(443);
        let (ip, target) = endpoint(registry, namespace, name, port)?;
        let server_name = Some(format!("{name}.{namespace}.svc"));
        let slash = if text("path").starts_with('/') { "" } else { "/" };
        let to = Tcp::new(&ip, target, Some(Arc::new(Tls { server_name, ..tls })));
        return Ok((to, format!("{slash}{}", text("path"))));
    }
    let url = config.get("url").as_str().unwrap_or_default();
    let uri: http::Uri = url.parse().map_err(|_| format!("{url:?} is no address"))?;
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
    let host = host.ok_or_else(|| format!("{url:?} is no address with https"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let to = Tcp::new(host, uri.port_u16().unwrap_or(443), Some(Arc::new(tls)));
    Ok((to, uri.path().to_owned()))
}

/// An endpoint of a service that is ready.
fn endpoint(
    registry: &Registry,
    namespace: &str,
    name: &str,
    port: i64,
) -> Result<(String, u16), String> {
    let said = |status: Status| status.message().to_owned();
    let services = registry.kind("", "services").map_err(said)?;
    let found = registry.get(&services, namespace, name);
    let found = found.map_err(|_| format!("service {name:?} not found"))?;
    let service = Service::view(&found.object);
    let own = service.spec().ports().find(|own| i64::from(own.port()) == port);
    let own = own.ok_or_else(|| format!("service {name:?} has no port {port}"))?;
    let kind = registry.kind("discovery.k8s.io", "endpointslices").map_err(said)?;
    let labels = Selector::labels([("kubernetes.io/service-name", name)]);
    let selection = Selection { labels, ..Selection::namespace(namespace) };
    let slices = registry.list(&kind, &selection, &Page::default()).map_err(said)?;
    let mut targets = slices.items.iter().filter_map(|slice| {
        let slice = EndpointSlice::view(&slice.object);
        let port = slice.ports().find(|target| target.name() == own.name())?.port()?;
        let ready = slice.endpoints().find(|one| one.conditions().ready() != Some(false))?;
        let ip = ready.addresses().iter().next()?.to_owned();
        Some((ip, u16::try_from(port).ok()?))
    });
    targets.next().ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

fn request(version: &str, uid: &str, objects: Vec<Value>, wanted: &str) -> Value {
    let mut review = Value::object();
    review["apiVersion"] = format!("apiextensions.k8s.io/{version}").into();
    review["kind"] = "ConversionReview".into();
    review["request"]["uid"] = uid.into();
    review["request"]["desiredAPIVersion"] = wanted.into();
    review["request"]["objects"] = objects.into_iter().collect();
    review
}

/// The converted objects, if that is what was answered.
fn response(version: &str, uid: &str, review: &Value) -> Result<Vec<Value>, String> {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let wanted = (format!("apiextensions.k8s.io/{version}"), "ConversionReview".to_owned());
    let found = (text(review, "apiVersion"), text(review, "kind"));
    if version == "v1" && found != wanted {
        return Err(format!(
            "expected webhook response of {}, Kind={}, got {}, Kind={}",
            wanted.0, wanted.1, found.0, found.1
        ));
    }
    let response = review.get("response");
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    if version == "v1" && text(response, "uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, "uid")));
    }
    let result = Status::view(response.get("result"));
    match (result.status(), result.message()) {
        ("Success", _) => Ok(response.get("convertedObjects").items().to_vec()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn answer(text: &str) -> Result<Vec<Value>, String> {
        let review = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{text}}}"#
        );
        response("v1", "u", &from_json(review.as_bytes()).expect("written in a test"))
    }

    #[test]
    fn an_answer_is_to_what_was_asked() {
        let good = r#"{"uid":"u","result":{"status":"Success"},"convertedObjects":[{"kind":"K"}]}"#;
        assert_eq!(answer(good).map(|objects| objects.len()), Ok(1));
        let other = r#"{"uid":"v","result":{"status":"Success"}}"#;
        assert_eq!(answer(other), Err(r#"expected response.uid="u", got "v""#.to_owned()));
        let failed = r#"{"uid":"u","result":{"status":"Failure","message":"no such field"}}"#;
        assert_eq!(answer(failed), Err("no such field".to_owned()));
        assert_eq!(answer("null"), Err("no response provided".to_owned()));
    }
}
