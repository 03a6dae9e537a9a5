//! One question to a hook, within its time.

use std::time::Duration;

use object::{Status, Value, from_json, to_json};
use server::Registry;

use super::Hook;
use crate::client_config::{self, Manner};

/// Why a hook's answer is none.
#[derive(Debug)]
pub(super) enum Failure {
    /// It said no, or what it said cannot be done.
    Refused(Status),
    /// It did not answer, or not sensibly.
    Calling(String),
}

/// Asks a hook within its time.
pub(super) async fn call(
    registry: &Registry,
    hook: &Hook,
    review: &Value,
    manner: &Manner,
) -> Result<Value, Failure> {
    let seconds = hook.tree.get("timeoutSeconds").as_i64().unwrap_or(10).clamp(1, 30);
    let within = Duration::from_secs(u64::try_from(seconds).unwrap_or(10));
    let remote = client_config::remote(registry, hook.tree.get("clientConfig"), (within, manner));
    let remote =
        remote.map_err(|why| Failure::Calling(format!("failed to call webhook: {why}")))?;
    let calling = |why: String| {
        Failure::Calling(format!("failed to call webhook: Post {:?}: {why}", remote.url()))
    };
    let (code, bytes) = remote.post(to_json(review), within).await.map_err(calling)?;
    if !code.is_success() {
        let why = match code.as_u16() {
            404 => "the server could not find the requested resource".to_owned(),
            401 => "Unauthorized".to_owned(),
            _ => {
                let said = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned();
                format!(
                    "an error on the server ({said:?}) has prevented the request from succeeding"
                )
            }
        };
        return Err(Failure::Calling(format!("failed to call webhook: {why}")));
    }
    let answer = from_json(&bytes).map_err(|error| {
        let why = format!("couldn't get version/kind; json parse error: {error}");
        Failure::Calling(format!("failed to call webhook: {why}"))
    })?;
    same_kind(review, &answer)
        .map_err(|why| Failure::Calling(format!("failed to call webhook: {why}")))?;
    Ok(answer)
}

/// A hook answers with what it was asked with.
fn same_kind(review: &Value, answer: &Value) -> Result<(), String> {
    let text = |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
    let (asked, version, kind) =
        (text(review, "apiVersion"), text(answer, "apiVersion"), text(answer, "kind"));
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&&*version);
    if kind.is_empty() || version.is_empty() || (&*version, &*kind) == (&*asked, "AdmissionReview")
    {
        return Ok(()); // who says nothing means that
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
