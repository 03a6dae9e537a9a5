//! One call of an admission webhook, with its timeout.

use std::time::Duration;

use object::{Status, Value};
use server::Registry;

use super::Webhook;
use crate::client_config::{self, WebhookClientSettings};

/// Why a webhook call did not admit the request.
#[derive(Debug)]
pub(super) enum WebhookError {
    /// The webhook denied the request, or its patch cannot be applied.
    Denied(Status),
    /// The call failed, or the response was invalid; the failurePolicy applies.
    Calling(String),
}

/// Posts the AdmissionReview to the webhook, and returns the response.
pub(super) async fn call(
    registry: &Registry,
    hook: &Webhook,
    review: &Value,
    manner: &WebhookClientSettings,
) -> Result<Value, WebhookError> {
    let seconds = hook.tree.get("timeoutSeconds").as_i64().unwrap_or(10).clamp(1, 30);
    let within = Duration::from_secs(u64::try_from(seconds).unwrap_or(10));
    let calling = |why: String| WebhookError::Calling(format!("failed to call webhook: {why}"));
    let remote =
        client_config::webhook_client(registry, hook.tree.get("clientConfig"), (within, manner));
    let answer = remote.map_err(calling)?.post_review(review, within).await.map_err(calling)?;
    same_kind(review, &answer).map_err(calling)?;
    Ok(answer)
}

/// Checks that the response has the kind and version of the review.
fn same_kind(review: &Value, answer: &Value) -> Result<(), String> {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let (asked, version, kind) =
        (text(review, "apiVersion"), text(answer, "apiVersion"), text(answer, "kind"));
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&&*version);
    if kind.is_empty() || version.is_empty() || (&*version, &*kind) == (&*asked, "AdmissionReview")
    {
        return Ok(()); // a response without kind or version is accepted
    }
    if known && kind == "AdmissionReview" {
        let short = |version: &str| version.rsplit('/').next().unwrap_or_default().to_owned();
        let (from, to) = (short(&version), short(&asked));
        return Err(format!(
            "converting ({from}.AdmissionReview) to ({to}.AdmissionReview): unknown conversion"
        ));
    }
    Err(format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \
         \"pkg/runtime/scheme.go:111\""
    ))
}
