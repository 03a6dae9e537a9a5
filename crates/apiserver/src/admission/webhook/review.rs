//! AdmissionReview: what a hook is asked, and what it answers.

use std::collections::BTreeMap;

use object::{Bytes, Object, Status, Text, Value, View, from_json};
use ref_cast::RefCast;
use schema::{conform, patch};
use server::{Admission, Operation, Served, User, uid};

use super::{Failure, Hook, Invocation};

/// What a hook said.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// A JSON patch; `Null`: nothing is changed.
    pub(super) patch: Value,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    result: Value,
}

/// The review that a hook gets, and the uid that its answer must have.
pub(super) fn request(admission: &Admission, invocation: &Invocation) -> (Text, Value) {
    let uid = uid();
    let (own, seen) = (admission.served, &invocation.served);
    let mut request = Value::object();
    request["uid"] = uid.clone().into();
    request["kind"] = kind(seen, &admission.object);
    request["resource"] = resource(seen);
    request["requestKind"] = kind(own, &admission.object);
    request["requestResource"] = resource(own);
    if !admission.subresource.is_empty() {
        request["subResource"] = admission.subresource.into();
        request["requestSubResource"] = admission.subresource.into();
    }
    if !admission.name.is_empty() {
        request["name"] = admission.name.clone().into();
    }
    if !admission.namespace.is_empty() {
        request["namespace"] = admission.namespace.clone().into();
    }
    let (operation, options) = match admission.operation {
        Operation::Create => ("CREATE", "CreateOptions"),
        Operation::Update => ("UPDATE", "UpdateOptions"),
        Operation::Delete => ("DELETE", "DeleteOptions"),
        Operation::Connect => ("CONNECT", ""),
    };
    request["operation"] = operation.into();
    request["userInfo"] = user(admission.user);
    let object = (!admission.object.is_null()).then_some(&admission.object);
    request["object"] =
        object.map_or(Value::Null, |object| shown(seen, object, admission.revision));
    request["oldObject"] =
        admission.old.map_or(Value::Null, |old| shown(seen, old, admission.revision));
    request["dryRun"] = admission.dry_run.into();
    request["options"] = Value::Null;
    if !options.is_empty() {
        request["options"] = Value::object();
        request["options"]["kind"] = options.into();
        request["options"]["apiVersion"] = "meta.k8s.io/v1".into();
        if admission.dry_run {
            request["options"]["dryRun"] = ["All"].into_iter().collect();
        }
    }
    let mut review = Value::object();
    review["kind"] = "AdmissionReview".into();
    review["apiVersion"] = "admission.k8s.io/v1".into();
    review["request"] = request;
    (uid, review)
}

/// The kind of the object: that of the resource, or what a part of it takes.
fn kind(served: &Served, object: &Value) -> Value {
    let (names, view) = (&served.definition.names, Object::view(object));
    let (group, version) = match view.api_version().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", view.api_version()),
    };
    let own = [names.group, names.version, names.kind];
    let part = !view.kind().is_empty() && view.kind() != served.hub.names.kind;
    let [group, version, name] = if part { [group, version, view.kind()] } else { own };
    let mut kind = Value::object();
    kind["group"] = group.into();
    kind["version"] = version.into();
    kind["kind"] = name.into();
    kind
}

fn resource(served: &Served) -> Value {
    let names = &served.definition.names;
    let mut resource = Value::object();
    resource["group"] = names.group.into();
    resource["version"] = names.version.into();
    resource["resource"] = names.plural.into();
    resource
}

pub(super) fn user(user: &User) -> Value {
    let mut info = Value::object();
    info["username"] = user.name.clone().into();
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    info["groups"] = user.groups.iter().map(Text::as_str).collect();
    if !user.extra.is_empty() {
        let mut extra = Value::object();
        for (name, values) in &user.extra {
            extra[name.as_str()] = values.iter().map(String::as_str).collect();
        }
        info["extra"] = extra;
    }
    info
}

/// The object in the version that the hook wants.
fn shown(served: &Served, object: &Value, revision: u64) -> Value {
    // What a subresource takes is no object of the resource.
    if Object::view(object).kind() != served.hub.names.kind {
        return object.clone();
    }
    let mut object = object.clone();
    served.shown(&mut object);
    if revision > 0 {
        let meta = Object::ref_cast_mut(&mut object).metadata_mut();
        meta.set_resource_version(revision.to_string());
    }
    object
}

impl Verdict {
    pub(super) fn read(answer: &Value, uid: &str, mutating: bool) -> Result<Self, String> {
        let response = answer.get("response");
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        let text =
            |tree: &Value, name: &str| tree.get(name).as_str().unwrap_or_default().to_owned();
        let own = text(response, "uid");
        if own != uid {
            return Err(format!("expected response.uid={uid:?}, got {own:?}"));
        }
        let (version, kind) = (text(answer, "apiVersion"), text(answer, "kind"));
        if (&*version, &*kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                 {group}/{version}, Kind={kind}"
            ));
        }
        let (patch, ty) =
            (response.get("patch").as_str().unwrap_or_default(), response.get("patchType"));
        match (mutating, patch.is_empty(), ty.is_null()) {
            (true, false, true) => {
                return Err("webhook returned response.patch but not response.patchType".to_owned());
            }
            (true, true, false) => {
                return Err("webhook returned response.patchType but not response.patch".to_owned());
            }
            (false, false, _) => {
                return Err("validating webhook may not return response.patch".to_owned());
            }
            (false, _, false) => {
                return Err("validating webhook may not return response.patchType".to_owned());
            }
            (true, false, false) if ty.as_str() != Some("JSONPatch") => {
                return Err(format!(
                    "unsupported patch type {:?}",
                    ty.as_str().unwrap_or_default()
                ));
            }
            _ => {}
        }
        let patch = match Bytes::decode(patch) {
            _ if patch.is_empty() => Value::Null,
            Some(bytes) => from_json(&bytes).map_err(|error| {
                format!("received undecodable patch in webhook response: {error}")
            })?,
            None => return Err("received undecodable patch in webhook response".to_owned()),
        };
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

    /// The hook's no, as the caller gets it.
    pub(super) fn refusal(&self, hook: &str) -> Status {
        let mut result = self.result.clone();
        if !result.is_object()
            || conform(<Status as object::Lens>::SHAPE, &mut result, &mut Vec::new()).is_err()
        {
            result = Value::object();
        }
        let mut status = Status::from(result);
        if status.code() < 400 {
            status.set_code(400);
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

/// Changes the object as a hook wants it.
pub(super) fn apply(
    admission: &mut Admission<'_>,
    hook: &Hook,
    invocation: &Invocation,
    patch: &Value,
) -> Result<(), Failure> {
    if patch.items().is_empty() {
        return Ok(());
    }
    let wrong = |why: String| Failure::Refused(Status::internal(why));
    if admission.object.is_null() {
        return Err(wrong(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this \
             operation",
            hook.name
        )));
    }
    let served = &invocation.served;
    let before = shown(served, &admission.object, 0);
    let mut object = patch::json(&before, patch).map_err(|error| wrong(error.to_string()))?;
    if Object::view(&object).kind() == served.definition.names.kind {
        served.definition.conform(&mut object, &mut Vec::new()).map_err(wrong)?;
        served.definition.hooks.default_fields(&mut object);
        served.definition.normalize(&mut object);
        served.stored(&mut object);
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
        let verdict = Verdict::read(&answer(good), "u", true).unwrap();
        assert!(verdict.allowed && verdict.patch.items().is_empty());
        assert!(Verdict::read(&answer(good), "u", false).unwrap_err().contains("may not return"));
        assert!(Verdict::read(&answer(good), "v", true).unwrap_err().contains("response.uid"));
        assert!(Verdict::read(&answer("{}"), "u", true).unwrap_err().contains("absent"));
    }

    #[test]
    fn a_no_has_a_reason_or_says_that_it_has_none() {
        let none = Verdict::default().refusal("h.example.com");
        assert_eq!(
            (none.code(), none.message()),
            (400, "admission webhook \"h.example.com\" denied the request without explanation")
        );
        let said =
            Verdict { result: answer(r#"{"code":403,"message":"no"}"#), ..Verdict::default() };
        let said = said.refusal("h");
        assert_eq!(
            (said.code(), said.message()),
            (403, "admission webhook \"h\" denied the request: no")
        );
    }
}
