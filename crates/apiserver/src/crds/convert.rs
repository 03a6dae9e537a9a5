//! Conversion webhooks of CustomResourceDefinitions.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use object::{Status, Value, View};
use server::{ConvertFuture, Converter, Registry};

use crate::{
    client_config::{self, WebhookClientSettings},
    egress::EgressSelector,
};

/// Timeout of a conversion webhook.
const WITHIN: Duration = Duration::from_secs(30);
/// The versions of ConversionReview that this server supports.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Calls the conversion webhooks.
#[derive(Debug)]
pub(crate) struct ConversionWebhooks {
    /// Weak, because the registry owns this value.
    registry: Weak<Registry>,
    manner: WebhookClientSettings,
}

impl ConversionWebhooks {
    pub(crate) fn new(registry: &Arc<Registry>, egress: EgressSelector) -> Self {
        let manner = WebhookClientSettings { egress, ..WebhookClientSettings::default() };
        Self { registry: Arc::downgrade(registry), manner }
    }
}

impl Converter for ConversionWebhooks {
    fn convert(&self, webhook: &Value, objects: Vec<Value>, api_version: &str) -> ConvertFuture {
        let (registry, webhook) = (self.registry.clone(), webhook.clone());
        let manner = self.manner.clone();
        let wanted = api_version.to_owned();
        Box::pin(async move {
            let registry = registry.upgrade().ok_or("the server is ending")?;
            let reviews = webhook.get("conversionReviewVersions").items();
            let version =
                reviews.iter().filter_map(Value::as_str).find(|own| REVIEWS.contains(own));
            let version = version.ok_or("no supported conversion review versions")?;
            let uid = server::uid();
            let review = request(version, &uid, objects, &wanted);
            let remote = client_config::webhook_client(
                &registry,
                webhook.get("clientConfig"),
                (WITHIN, &manner),
            )?;
            response(version, &uid, &remote.post_review(&review, WITHIN).await?)
        })
    }
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

/// The converted objects of a response, or why it is invalid.
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
