//! Field management: updates `managedFields` on every write, and merges server-side apply requests.

use object::{Object, Status, Time, Value, View};
use schema::{
    FieldPaths,
    apply::{self, ApplyError, FieldManagerRequest},
    patch,
};
use store::Version;

use super::{
    Registry, RequestContext,
    create::default_and_convert,
    patch::{check_identity, open},
    update::{TRIES, parse_precondition},
    versions::WebhookVersionConverter,
};
use crate::{
    Query, ServedResource,
    codec::{StrictFindings, coerce_body},
    respond::to_response_object,
};

/// An apply request.
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest<'a> {
    pub object: &'a Value,
    pub force: bool,
    /// Whether the object may be created if it does not exist.
    pub creates: bool,
}

impl Registry {
    /// Updates `managedFields`: the manager of this write becomes the owner of the fields it
    /// changed.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub(super) async fn update_managed_fields(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        subresource: &str,
        old: Option<&Value>,
        new: Value,
    ) -> Result<Value, Status> {
        if call.is_apply {
            return Ok(new); // apply has already updated managedFields
        }
        let now = Time::format(self.clock().now());
        // Ownership is recorded with the field names of the request version, and not for empty
        // fields, which the API would not return.
        let seen = |object: &Value| {
            let mut object = object.clone();
            if served.storage_version.is_none() {
                if !served.is_storage_version() {
                    served.to_request_version(&mut object);
                }
                served.definition.drop_new_empty(&mut object, &Value::Null);
            }
            object
        };
        let (old, mut asked) = (old.map(seen), seen(&new));
        if let books @ Value::List(_) = new.get("metadata").get("managedFields") {
            asked["metadata"]["managedFields"] = books.clone(); // an explicitly empty list resets managedFields
        }
        let mut others = WebhookVersionConverter::of(served, subresource);
        let managed = others.resolve(self, |others| {
            let api_version = served.definition.names.api_version();
            let write = write(call, served, subresource, &api_version, &now, others);
            apply::update_managed_fields(&write, old.as_ref(), asked.clone())
        });
        let managed = managed.await.map_err(|error| error.status())?;
        if served.storage_version.is_some() {
            return Ok(managed);
        }
        let managers = Object::view(&managed).metadata().managed_fields().clone();
        let mut new = Object::from(new);
        new.metadata_mut().set_managed_fields(managers);
        Ok(new.into())
    }

    /// Server-side apply. Returns 201 if it created the object.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn apply(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        subresource: &str,
        applied: ApplyRequest<'_>,
    ) -> Result<(u16, Version<Value>), Status> {
        call.is_apply = true;
        let found = self.get(served, key.0, key.1);
        let exists = !found.is_err_and(|status| status.code() == 404);
        if !exists && subresource.is_empty() && applied.creates {
            let object = self.merge_applied(call, served, subresource, None, &applied).await?;
            check_identity(served, &object, key)?;
            parse_precondition(Object::view(&object).metadata().resource_version())?;
            let made = self.create(call, served, key.0, object).await;
            if !made.as_ref().is_err_and(|status| status.has_reason("AlreadyExists")) {
                return Ok((201, made?));
            }
        }
        let wanted = applied.object.get("metadata").get("resourceVersion").as_str();
        let mut tries = TRIES;
        loop {
            let old = self.get_for_update(served, key).await?;
            let wanted = parse_precondition(wanted.unwrap_or_default())?;
            if wanted != 0 && wanted != old.revision {
                return Err(Status::optimistic_lock_conflict(served.subject(key.1)));
            }
            let mut live = to_response_object(served, 0, &old.object);
            open(&mut live);
            let mut object =
                self.merge_applied(call, served, subresource, Some(&live), &applied).await?;
            check_identity(served, &object, key)?;
            let books = object["metadata"]["managedFields"].clone();
            live["metadata"]["managedFields"] = books.clone();
            if object == live {
                // If no field changes, the stored object is kept unconverted.
                object = old.object.clone();
                object["metadata"]["managedFields"] = books;
            } else {
                default_and_convert(served, &mut object);
            }
            match self.replace(call, served, subresource, &old, object).await {
                Err(status) if status.has_reason("Conflict") && tries > 1 => tries -= 1,
                done => return Ok((200, done?)),
            }
        }
    }

    /// Merges the applied fields into the live object, in the version of the request.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    async fn merge_applied(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        subresource: &str,
        live: Option<&Value>,
        applied: &ApplyRequest<'_>,
    ) -> Result<Value, Status> {
        let now = Time::format(self.clock().now());
        let names = &served.definition.names;
        let mut others = WebhookVersionConverter::of(served, subresource);
        let laid = others.resolve(self, |others| {
            let api_version = names.api_version();
            let write = write(call, served, subresource, &api_version, &now, others);
            apply::apply(&write, live, applied.object, applied.force)
        });
        let laid = laid.await.map_err(|error| error.status())?;
        let mut object = laid.clone();
        // Custom resources were validated during the merge; their `null` values are left for the
        // validation rules.
        if served.definition.is_built_in() {
            let fits = |object: &mut Value| {
                coerce_body(
                    &served.definition,
                    &Query::default(),
                    object,
                    &StrictFindings::default(),
                )
            };
            if fits(&mut object).is_err() {
                object = laid;
                let (group, version) = (names.group, names.version);
                patch::from_unstructured(version, &served.definition.schema, &mut object).map_err(|why| {
                    let of = format!("{group}/{version}, Kind={}", names.kind);
                    let meta = Object::view(applied.object).metadata();
                    let (namespace, name) = (meta.namespace(), meta.name());
                    ApplyError::Failed(format!(
                        "failed to convert new object ({namespace}/{name}; {of}) to proper version: \
                         unable to convert unstructured object to {of}: {why}"
                    ))
                    .status()
                })?;
                fits(&mut object)?;
            }
        }
        Ok(object)
    }
}

#[expect(clippy::too_many_arguments, reason = "who, what kind, which part, when")]
fn write<'a>(
    call: &'a RequestContext,
    served: &'a ServedResource,
    subresource: &'a str,
    api_version: &'a str,
    now: &'a str,
    versions: &'a WebhookVersionConverter<'a>,
) -> FieldManagerRequest<'a> {
    FieldManagerRequest {
        schema: &served.definition.schema,
        api_version,
        kind: served.definition.names.kind,
        manager: &call.manager,
        subresource,
        reset_fields: reset_of(served, subresource),
        now,
        converter: versions,
    }
}

/// The fields that a write to this resource or subresource cannot set (upstream's reset fields).
pub(super) fn reset_of(served: &ServedResource, subresource: &str) -> FieldPaths {
    let definition = &served.definition;
    let declared = definition.subresource(subresource);
    declared.map_or(definition.reset_fields, |declared| declared.reset_fields)
}
