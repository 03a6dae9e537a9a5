//! Patch requests: the body by its media type, and the checks before the registry applies it.

use object::{Status, Value};
use schema::{ErrorList, FieldPath};
use store::Version;

use crate::{
    Attributes, Request, RequestContext, ServedResource, Server, audit,
    body::read,
    cbor,
    codec::{FieldValidation, media_type, unsupported_patch, validation},
    filters::authorize,
    registry::{ApplyRequest, Patch, PatchType},
    rejection::Rejection,
};

/// Patches or applies an object, and returns the response code with it.
pub(crate) async fn patch(
    server: &Server,
    served: &ServedResource,
    request: Request,
    call: &mut RequestContext,
) -> Result<(u16, Version<Value>), Rejection> {
    let create = Attributes { verb: "create".into(), ..request.info.attributes(&request.query) };
    let Request { head, body, info, query, .. } = request;
    let media_type = media_type(&head.headers).to_owned();
    let bytes = read(body, server.config.limits.body).await?;
    let namespace = if served.definition.is_namespaced() { &*info.namespace } else { "" };
    let key = (namespace, &*info.name);
    let in_cbor = media_type == "application/apply-patch+cbor" && query.cbor;
    if in_cbor || media_type == "application/apply-patch+yaml" {
        let force = query.flag("force");
        let (applied, twice) = match in_cbor {
            true => (applied_cbor(&bytes)?, Vec::new()),
            false => applied_yaml(&bytes)?,
        };
        audit::log_request_object(|| applied.clone());
        if query.get("fieldManager").unwrap_or_default().is_empty() {
            let mut errs = ErrorList::default();
            errs.required(&FieldPath::Root.field("fieldManager"), "is required for apply patch");
            return Err(errs.into_status("meta.k8s.io", "PatchOptions", "").into());
        }
        let missing = server.registry.get(served, key.0, key.1);
        let creates = missing.is_err_and(|status| status.code() == 404);
        if creates && info.subresource.is_empty() {
            authorize(server, &call.user, &create).await?;
        }
        let applied = ApplyRequest { object: &applied, force, creates };
        match validation(&query) {
            FieldValidation::Strict if !twice.is_empty() => {
                let lines = twice.join("\n  ");
                return Err(Status::bad_request(format!(
                    "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {lines}"
                ))
                .into());
            }
            FieldValidation::Warn => call.warnings.extend(twice),
            _ => {}
        }
        let applied = server.registry.apply(call, served, key, &info.subresource, applied).await;
        return applied.map_err(Rejection::from);
    }
    let ty = PatchType::of(&media_type);
    let ty = ty.ok_or_else(|| unsupported_patch(&served.definition, &query))?;
    if ty == PatchType::Strategic && served.definition.is_custom() {
        return Err(unsupported_patch(&served.definition, &query));
    }
    if query.get("force").is_some() {
        let mut errs = ErrorList::default();
        errs.forbidden(&FieldPath::Root.field("force"), "may not be specified for non-apply patch");
        return Err(errs.into_status("meta.k8s.io", "PatchOptions", "").into());
    }
    let patch = Patch::read(ty, &bytes, &query)?;
    let made = server.registry.patch(call, served, key, &info.subresource, &patch).await?;
    Ok((200, made))
}

/// Decodes an apply configuration in YAML, and its duplicate fields.
fn applied_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    let (applied, twice) = object::yaml::from_yaml_with_duplicates(text)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    if applied.is_null() {
        return Err(Status::bad_request("invalid object type: /, Kind="));
    } else if !applied.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: {}",
            schema::patch::not_an_object(&applied)
        )));
    }
    Ok((applied, twice))
}

/// Decodes an apply configuration in CBOR, where duplicates are an error.
fn applied_cbor(bytes: &[u8]) -> Result<Value, Status> {
    let read = cbor::read(None, bytes).map_err(|error| {
        let why = match error {
            cbor::Error::NoMap(ty) => format!(
                "cbor: cannot unmarshal {ty} into Go value of type map[string]interface {{}}"
            ),
            other => other.to_string(),
        };
        Status::bad_request(format!("error decoding patch: {why}"))
    })?;
    match read.tree {
        Value::Null => Err(Status::bad_request("invalid object type: /, Kind=")),
        applied => Ok(applied),
    }
}
