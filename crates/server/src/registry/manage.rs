//! Who set which fields: kept with every write, and decided by on apply.

use std::sync::Arc;

use object::{ManagedFieldsEntry, Object, Status, Time, Value, View};
use schema::{
    apply::{self, ApplyError, Write, reset},
    patch,
};
use store::Version;

use super::{
    Call, Registry,
    create::default,
    patch::{nameless, open},
    update::based_on,
};
use crate::{
    Query, Served,
    codec::{Twice, fit},
    respond::shown,
};

/// What an applier sends.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    pub object: &'a Value,
    pub force: bool,
}

impl Registry {
    /// Notes the manager of what this write has changed.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub(super) fn manage(
        &self,
        call: &Call,
        served: &Served,
        subresource: &str,
        old: Option<&Value>,
        mut new: Value,
    ) -> Value {
        if call.applies {
            return new; // who applies has said so already
        }
        self.drop_strange(served, &mut new);
        let now = Time::text(self.clock().now());
        let names = &served.definition.names;
        let api_version = names.api_version();
        let write = |shape| Write {
            shape,
            api_version: &api_version,
            kind: names.kind,
            manager: &call.manager,
            subresource,
            reset: reset_of(served, subresource),
            now: &now,
        };
        if served.definition.custom.is_some() {
            return apply::update(&write(&served.hub.shape), old, new);
        }
        // Fields are named as the request names them, and none is held that would not be sent.
        let seen = |object: &Value| {
            let mut object = object.clone();
            if !Arc::ptr_eq(&served.definition, &served.hub) {
                served.shown(&mut object);
            }
            served.definition.drop_hollow(&mut object, &Value::Null);
            object
        };
        let mut asked = seen(&new);
        if let books @ Value::List(_) = new.get("metadata").get("managedFields") {
            asked["metadata"]["managedFields"] = books.clone(); // an empty list says something
        }
        let managed =
            apply::update(&write(&served.definition.shape), old.map(seen).as_ref(), asked);
        let managers = Object::view(&managed).metadata().managed_fields().clone();
        let mut new = Object::from(new);
        new.metadata_mut().set_managed_fields(managers);
        new.into()
    }

    /// What somebody holds in a version that there is not cannot be followed.
    fn drop_strange(&self, served: &Served, object: &mut Value) {
        let names = &served.definition.names;
        let strange = |entry: &ManagedFieldsEntry| {
            let (group, version) =
                entry.api_version().split_once('/').unwrap_or(("", entry.api_version()));
            (group, version) != (names.group, names.version)
                && self.kinds().named(group, version, names.kind).is_none()
        };
        let books = Object::view(object).metadata().managed_fields();
        let right = |entry: &ManagedFieldsEntry| entry.fields_type() == "FieldsV1";
        if books.iter().all(right) && books.iter().any(strange) {
            let known = books.iter().filter(|entry| !strange(entry)).cloned();
            let known: object::List<ManagedFieldsEntry> = known.collect();
            object["metadata"]["managedFields"] = known.into();
        }
    }

    /// Server-side apply. Gives 201 with an object that this has made.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn apply(
        &self,
        call: &mut Call,
        served: &Served,
        key: (&str, &str),
        subresource: &str,
        applied: Applied<'_>,
    ) -> Result<(u16, Version<Value>), Status> {
        call.applies = true;
        let found = self.get(served, key.0, key.1);
        let exists = !found.is_err_and(|status| status.code() == 404);
        if !exists && subresource.is_empty() {
            let mut object = self.laid(call, served, subresource, None, &applied)?;
            object["metadata"]["name"] = key.1.into();
            let made = self.create(call, served, key.0, object).await;
            if !made.as_ref().is_err_and(|status| status.is("AlreadyExists")) {
                return Ok((201, made?));
            }
        }
        let asked = call.clone();
        let made = self
            .change(call, served, key, subresource, |old| {
                let wanted = applied.object.get("metadata").get("resourceVersion").as_str();
                let wanted = based_on(wanted.unwrap_or_default())?;
                if wanted != 0 && wanted != old.revision {
                    return Err(Status::stale(served.subject(key.1)));
                }
                let mut live = shown(served, 0, &old.object);
                open(&mut live);
                let mut object = self.laid(&asked, served, subresource, Some(&live), &applied)?;
                if Object::view(&object).metadata().name().is_empty() {
                    return Err(nameless(key.1));
                }
                default(served, &mut object);
                Ok(object)
            })
            .await?;
        Ok((200, made))
    }

    /// What is applied, laid over what is there, in the request's version.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    fn laid(
        &self,
        call: &Call,
        served: &Served,
        subresource: &str,
        live: Option<&Value>,
        applied: &Applied<'_>,
    ) -> Result<Value, Status> {
        let now = Time::text(self.clock().now());
        let names = &served.definition.names;
        let api_version = names.api_version();
        let write = Write {
            shape: &served.definition.shape,
            api_version: &api_version,
            kind: names.kind,
            manager: &call.manager,
            subresource,
            reset: reset_of(served, subresource),
            now: &now,
        };
        let laid = || {
            let object = apply::apply(&write, live, applied.object, applied.force);
            object.map_err(|error| error.status())
        };
        let mut object = laid()?;
        // Custom kinds were checked as they were laid; a `null` is for their rules to see.
        if served.definition.custom.is_none() {
            let fits = |object: &mut Value| {
                fit(&served.definition, &Query::default(), object, &Twice::default())
            };
            if fits(&mut object).is_err() {
                object = laid()?;
                patch::restore(&served.definition.shape, &mut object).map_err(|why| {
                    let (group, version) = (names.group, names.version);
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

/// The fields that a write through this path does not set, whatever it says.
fn reset_of(served: &Served, subresource: &str) -> &'static [&'static [&'static str]] {
    let kind = &served.definition;
    match (&kind.custom, subresource) {
        (None, _) => reset(kind.names.kind, subresource),
        (Some(_), "") if kind.subresource("status").is_some() => &[&["status"]],
        (Some(_), "status") => &[&["metadata"], &["spec"]],
        (Some(_), _) => &[],
    }
}
