//! AdmissionReview: the request to a webhook, and its response.

use std::collections::BTreeMap;

use object::{Bytes, Object, Status, Text, Value, View, from_json};
use ref_cast::RefCast;
use schema::{coerce_to_schema, patch};
use server::{AdmissionAttributes, ServedResource, uid};

use super::{Invocation, Webhook, WebhookError};
use crate::admission::review;

/// The response of a webhook.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReviewResult {
    pub(super) allowed: bool,
    /// A JSON patch; `Null` if the webhook changes nothing.
    pub(super) patch: Value,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    result: Value,
}

/// The versions of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    /// Like `V1`, with fewer requirements on the response.
    V1beta1,
}

impl ReviewVersion {
    /// The first version in `admissionReviewVersions` that this server supports.
    pub(super) fn of(hook: &Webhook) -> Result<Self, WebhookError> {
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some(Self::V1),
            Some("v1beta1") => Some(Self::V1beta1),
            _ => None,
        };
        let versions = hook.tree.get("admissionReviewVersions").items();
        versions.iter().find_map(known).ok_or_else(|| {
            WebhookError::Calling(
                "could not create admission objects: webhook does not accept known AdmissionReview \
                 versions (v1, v1beta1)"
                    .to_owned(),
            )
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// The review to send, and the uid that the response must have.
pub(super) fn request(
    admission: &AdmissionAttributes,
    invocation: &Invocation,
    version: ReviewVersion,
) -> (Text, Value) {
    let (uid, seen) = (uid(), &invocation.served);
    let mut request =
        review::request(admission, seen, |object| shown(seen, object, admission.revision));
    request["uid"] = uid.clone().into();
    let mut review = Value::object();
    review["kind"] = "AdmissionReview".into();
    review["apiVersion"] = format!("admission.k8s.io/{}", version.name()).into();
    review["request"] = request;
    (uid, review)
}

/// The object in the version that the webhook gets.
fn shown(served: &ServedResource, object: &Value, revision: u64) -> Value {
    // The body of a subresource is not an object of the resource.
    if Object::view(object).kind() != served.internal.names.kind {
        return object.clone();
    }
    let mut object = object.clone();
    served.to_request_version(&mut object);
    if served.definition.is_built_in() {
        served.definition.normalize(&mut object);
    }
    if revision > 0 {
        let meta = Object::ref_cast_mut(&mut object).metadata_mut();
        meta.set_resource_version(revision.to_string());
    }
    object
}

impl ReviewResult {
    /// Decodes and validates a response with this uid; the error is upstream's text.
    pub(crate) fn read(
        answer: &Value,
        uid: &str,
        (version, mutating): (ReviewVersion, bool),
    ) -> Result<Self, String> {
        let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
        let response = answer.get("response");
        if !response.is_object() {
            return invalid("webhook response was absent".to_owned());
        }
        let own = response.get("uid").as_str().unwrap_or_default();
        if version == ReviewVersion::V1 && own != uid {
            return invalid(format!("expected response.uid={uid:?}, got {own:?}"));
        }
        let patch = response.get("patch").as_str().unwrap_or_default();
        let mut ty = response.get("patchType").as_str();
        if version == ReviewVersion::V1 {
            let said = Object::view(answer);
            if said.kind().is_empty() || said.api_version().is_empty() {
                let (version, kind) = (said.api_version(), said.kind());
                let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
                return invalid(format!(
                    "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                     {group}/{version}, Kind={kind}"
                ));
            }
            if let Err(why) = check_patch(mutating, patch, ty) {
                return invalid(why.to_owned());
            }
        } else {
            ty = Some("JSONPatch");
        }
        let patch = match Bytes::decode(patch) {
            _ if patch.is_empty() || !mutating => Value::Null,
            Some(bytes) => from_json(&bytes).map_err(|error| {
                format!("received undecodable patch in webhook response: {error}")
            })?,
            None => return Err("received undecodable patch in webhook response".to_owned()),
        };
        if !matches!(patch, Value::Null | Value::List(_)) {
            return Err("received undecodable patch in webhook response: it is no list".to_owned());
        }
        if let Some(other) = ty.filter(|ty| *ty != "JSONPatch" && !patch.items().is_empty()) {
            return Err(format!("unsupported patch type {other:?}"));
        }
        let strings = |tree: &Value| {
            tree.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let annotations = response.get("auditAnnotations").entries();
        Ok(Self {
            allowed: response.get("allowed").as_bool().unwrap_or_default(),
            patch,
            warnings: strings(response.get("warnings")),
            annotations: annotations
                .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
                .collect(),
            result: response.get("status").clone(),
        })
    }

    /// The Status that the client gets when the webhook denies the request.
    pub(crate) fn denied_status(&self, hook: &str) -> Status {
        let mut result = self.result.clone();
        if !result.is_object()
            || coerce_to_schema(<Status as object::Lens>::SHAPE, &mut result, &mut Vec::new())
                .is_err()
        {
            result = Value::object();
        }
        let mut status = Status::from(result);
        if status.code() < 400 {
            status.set_code(400);
        } else if status.code() >= 600 {
            status.set_code(500); // not a valid HTTP code
        }
        if matches!(status.status(), "" | "Success") {
            status.set_status("Failure");
        }
        let denied = format!("admission webhook {hook:?} denied the request");
        let message = match (status.message(), status.reason()) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        status.set_message(message);
        status
    }
}

/// Checks that `patch` and `patchType` come together, and only from a mutating webhook.
fn check_patch(mutating: bool, patch: &str, ty: Option<&str>) -> Result<(), &'static str> {
    Err(match (mutating, patch.is_empty(), ty) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, _, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    })
}

/// Applies the webhook's patch to the object.
pub(super) fn apply(
    admission: &mut AdmissionAttributes<'_>,
    hook: &Webhook,
    invocation: &Invocation,
    patch: &Value,
) -> Result<(), WebhookError> {
    if patch.items().is_empty() {
        return Ok(());
    }
    let wrong = |why: String| WebhookError::Denied(Status::internal(why));
    if admission.object.is_null() {
        return Err(wrong(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this \
             operation",
            hook.name
        )));
    }
    let served = &invocation.served;
    let before = shown(served, &admission.object, 0);
    let mut object =
        patch::apply_json_patch(&before, patch).map_err(|error| wrong(error.to_string()))?;
    let (was, is) = (Object::view(&before), Object::view(&object));
    if !object.is_object() || was.kind() != is.kind() || was.api_version() != is.api_version() {
        let (name, kind) = (&hook.name, was.kind());
        return Err(wrong(format!("admission webhook {name:?} made something else of a {kind}")));
    }
    if Object::view(&object).kind() == served.definition.names.kind {
        served.definition.coerce(&mut object, &mut Vec::new()).map_err(wrong)?;
        served.definition.strategy.default_fields(&mut object);
        served.definition.normalize(&mut object);
        served.to_internal_version(&mut object);
    }
    admission.object = object;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Value {
        from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_answer_is_read_with_care() {
        let good = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
            "response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}}"#;
        let read = |text: &str, uid: &str, version, mutating| {
            ReviewResult::read(&answer(text), uid, (version, mutating))
        };
        let (v1, v1beta1) = (ReviewVersion::V1, ReviewVersion::V1beta1);
        let verdict = read(good, "u", v1, true).unwrap();
        assert!(verdict.allowed && verdict.patch.items().is_empty());
        let why = |uid, mutating| read(good, uid, v1, mutating).unwrap_err();
        assert!(why("u", false).contains("may not return"));
        assert!(why("v", true).contains("response.uid"));
        assert!(read(good, "v", v1beta1, false).unwrap().allowed, "less was expected then");
        assert!(read("{}", "u", v1, true).unwrap_err().contains("absent"));
        let odd = good.replace("JSONPatch", "Merge");
        assert!(read(&odd, "u", v1, true).is_ok(), "of nothing, any sort is known");
        let odd = odd.replace("W10=", "W3t9XQ==");
        assert_eq!(read(&odd, "u", v1, true).unwrap_err(), "unsupported patch type \"Merge\"");
    }

    #[test]
    fn a_no_has_a_reason_or_says_that_it_has_none() {
        let none = ReviewResult::default().denied_status("h.example.com");
        assert_eq!(
            (none.code(), none.message()),
            (400, "admission webhook \"h.example.com\" denied the request without explanation")
        );
        let said = ReviewResult {
            result: answer(r#"{"code":403,"message":"no"}"#),
            ..ReviewResult::default()
        };
        let said = said.denied_status("h");
        assert_eq!(
            (said.code(), said.message()),
            (403, "admission webhook \"h\" denied the request: no")
        );
    }
}
