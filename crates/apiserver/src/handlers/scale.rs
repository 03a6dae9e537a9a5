//! The scale subresource: reads and writes the replica count of a workload.

use std::sync::Arc;

use api::autoscaling::v1::Scale;
use object::{
    Lens, Object, ObjectMeta, ResourceRef, Status, StatusDetails, Time, Value, View,
    selector::Selector,
};
use schema::{
    ErrorList, FieldPath, ResourceDefinition,
    apply::{self, ApplyError, FieldManagerRequest},
    patch,
};
use server::{
    EndpointHandler, Operation, Patch, PatchType, Query, Request, RequestContext, RequestInfo,
    ResponseFuture, ServedResource, Server, SubresourceRequest, log_request_object,
};

use super::{
    ResponseParams, asking, body_of, bytes_of, custom_scale, request_context, same_name, served,
    warned,
};

#[derive(Debug)]
pub(super) struct ScaleHandler;

impl EndpointHandler for ScaleHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (served, info) = (served(server, &request)?, request.info.clone());
            if let Some(paths) = served.definition.custom().and_then(|own| own.scale.clone()) {
                return custom_scale::handle(server, request, served, paths).await;
            }
            let (asked, kind) =
                (ResponseParams::of(&request), ResourceDefinition::from_kind::<Scale>());
            let path = &["spec", "replicas"][..];
            let key = (&*info.namespace, &*info.name);
            let mut call = request_context(&request);
            if info.verb == "get" {
                let found = server.registry.get(&served, key.0, key.1)?;
                let scale = scale_of(found.revision, &found.object);
                return asked.reply(server, &kind, (200, &scale));
            }
            let wanted = if info.verb == "update" {
                ScaleWrite::Whole(body_of(server, &mut call, request, &kind).await?)
            } else {
                server.registry.get(&served, key.0, key.1)?; // NotFound comes before errors in the patch
                patch_of(server, request, &asked.query).await?
            };
            if let ScaleWrite::Whole(scale) = &wanted {
                same_name(scale, key)?;
                check(scale, key.1)?;
            }
            let manager = call.manager.clone();
            let now = Time::format(server.registry.clock().now());
            let api_version = served.definition.names.api_version();
            let laid = |old: &store::Version<Value>, wanted: &ScaleWrite| {
                let books = ScaleFieldManager {
                    server,
                    object: &old.object,
                    path,
                    api_version: &api_version,
                };
                books.after(wanted, scale_of(old.revision, &old.object), &manager, &now)
            };
            let found = server.registry.get(&served, key.0, key.1)?;
            let (before, first) = (scale_of(found.revision, &found.object), laid(&found, &wanted)?);
            call.warnings.extend(first.odd);
            if let ScaleWrite::Patched(_) = &wanted {
                same_name(&first.scale, key)?;
                check(&first.scale, key.1)?;
            }
            let checked = |scale: &mut Value| {
                same_name(scale, key)?;
                check(scale, key.1)
            };
            let part = (&before, found.revision, first.scale);
            let changed = admitted(server, &mut call, (&served, &info), part, checked).await?;
            let wanted = changed.map_or(wanted, ScaleWrite::Whole);
            let change = |old: &store::Version<Value>| {
                let ScaleWriteResult { scale: after, managed_fields: books, .. } =
                    laid(old, &wanted)?;
                same_name(&after, key)?;
                check(&after, key.1)?;
                let scale = Scale::view(&after);
                let (version, uid) = (scale.metadata().resource_version(), scale.metadata().uid());
                let have = Object::view(&old.object).metadata().uid();
                if !uid.is_empty() && uid != have {
                    return Err(other_uid(&served, key.1, uid, have));
                } else if !version.is_empty() && version != old.revision.to_string() {
                    return Err(Status::optimistic_lock_conflict(served.subject(key.1)));
                }
                let mut object = old.object.clone();
                object["spec"]["replicas"] = scale.spec().replicas().into();
                object["metadata"]["managedFields"] = books;
                Ok(object)
            };
            let mut inner = call.clone().admitted();
            inner.skip_managed_fields();
            let made = server
                .registry
                .guaranteed_update(&mut inner, &served, key, "scale", change)
                .await?;
            let scale = scale_of(made.revision, &made.object);
            Ok(warned(asked.reply(server, &kind, (200, &scale))?, &call))
        })
    }
}

/// Runs the admission plugins with the Scale before and after; returns it if they changed it.
pub(super) async fn admitted(
    server: &Server,
    call: &mut RequestContext,
    (served, info): (&ServedResource, &RequestInfo),
    (before, revision, mut after): (&Value, u64, Value),
    checked: impl FnOnce(&mut Value) -> Result<(), Status>,
) -> Result<Option<Value>, Status> {
    after["metadata"].remove("managedFields");
    let old = Some((before, revision));
    let asking = SubresourceRequest { old, ..asking(info, Operation::Update, after.clone()) };
    let mut wanted = Value::Null;
    // Validating plugins see the Scale that the object will have, not the one that was sent.
    let checked = |scale: &mut Value| {
        checked(scale)?;
        wanted = scale.clone();
        let spec = scale.get("spec").clone();
        *scale = before.clone();
        scale["spec"] = spec;
        Ok(())
    };
    server.registry.admit_subresource(call, served, asking, checked).await?;
    Ok((wanted != after).then_some(wanted))
}

/// A write to a Scale.
pub(super) enum ScaleWrite<'q> {
    Whole(Value),
    /// A patch, applied again after each conflict.
    Patched(Patch<'q>),
    /// An apply configuration, and whether conflicts are forced.
    Applied(Value, bool),
}

/// Tracks the managedFields of an object whose Scale is written.
pub(super) struct ScaleFieldManager<'a> {
    pub(super) server: &'a Server,
    pub(super) object: &'a Value,
    /// Path of the replica count in the object.
    pub(super) path: &'a [&'a str],
    pub(super) api_version: &'a str,
}

/// The result of a write to a Scale.
pub(super) struct ScaleWriteResult {
    /// The new Scale.
    pub(super) scale: Value,
    /// The managedFields of the object.
    pub(super) managed_fields: Value,
    /// Warnings about the patch.
    pub(super) odd: Vec<String>,
}

impl ScaleFieldManager<'_> {
    /// Applies a write to the Scale `before`, and computes the managedFields of the object.
    pub(super) fn after(
        &self,
        wanted: &ScaleWrite,
        mut before: Value,
        manager: &str,
        now: &str,
    ) -> Result<ScaleWriteResult, Status> {
        let write = FieldManagerRequest {
            schema: Scale::SHAPE,
            api_version: "autoscaling/v1",
            kind: "Scale",
            manager,
            subresource: "scale",
            reset_fields: &[],
            now,
            converter: &apply::SingleVersion,
        };
        let books = self.object.get("metadata").get("managedFields");
        before["metadata"]["managedFields"] = apply::to_scale_managed_fields(books, self.path);
        let mut odd = Vec::new();
        let after = match wanted {
            ScaleWrite::Patched(patch) => {
                let (kind, registry) =
                    (ResourceDefinition::from_kind::<Scale>(), &self.server.registry);
                let (scale, said) = registry.apply_patch(&kind, before.clone(), patch)?;
                odd = said;
                apply::update_managed_fields(&write, Some(&before), scale)
            }
            ScaleWrite::Whole(scale) => {
                apply::update_managed_fields(&write, Some(&before), scale.clone())
            }
            ScaleWrite::Applied(scale, force) => apply::apply(&write, Some(&before), scale, *force)
                .and_then(|laid| fits(&laid, scale).map(|()| laid)),
        };
        let scale = after.map_err(|error| error.status())?;
        let own = scale.get("metadata").get("managedFields");
        let books = apply::from_scale_managed_fields(books, own, self.path, self.api_version);
        Ok(ScaleWriteResult { scale, managed_fields: books, odd })
    }
}

/// Checks that the result of an apply is a valid Scale.
fn fits(laid: &Value, applied: &Value) -> Result<(), ApplyError> {
    patch::from_unstructured("v1", Scale::SHAPE, &mut laid.clone()).map_err(|why| {
        let (meta, of) = (Object::view(applied).metadata(), "autoscaling/v1, Kind=Scale");
        let (namespace, name) = (meta.namespace(), meta.name());
        ApplyError::Failed(format!(
            "failed to convert new object ({namespace}/{name}; {of}) to proper version: \
             unable to convert unstructured object to {of}: {why}"
        ))
    })
}

fn check(scale: &Value, name: &str) -> Result<(), Status> {
    let mut errs = ErrorList::default();
    let spec = FieldPath::Root.field("spec");
    errs.non_negative(&spec.field("replicas"), Scale::view(scale).spec().replicas().into());
    if errs.is_empty() { Ok(()) } else { Err(errs.into_status("autoscaling", "Scale", name)) }
}

/// The conflict of a write whose uid is that of another object.
fn other_uid(served: &ServedResource, name: &str, wanted: &str, have: &str) -> Status {
    let subject = served.subject(name);
    let resource = format!("{}/scale", subject.resource);
    let why =
        format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}");
    Status::conflict(ResourceRef { resource: &resource, ..subject }, &why)
}

/// The Scale of an object.
fn scale_of(revision: u64, object: &Value) -> Value {
    let meta = Object::view(object).metadata();
    let own = ObjectMeta::new()
        .with_name(meta.name())
        .with_namespace(meta.namespace())
        .with_uid(meta.uid())
        .with_resource_version(revision.to_string())
        .with_creation_timestamp(meta.creation_timestamp());
    let selector = object.get("spec").get("selector");
    let plain = selector.get("matchLabels").is_null() && selector.get("matchExpressions").is_null();
    let selector = if plain {
        Selector::from_labels(selector.entries().filter_map(|(k, v)| Some((k, v.as_str()?))))
    } else {
        Selector::from_label_selector(selector).unwrap_or_default()
    };
    let replicas = |part: &str| object.get(part).get("replicas").as_i64().unwrap_or_default();
    let mut scale = Value::object();
    scale["kind"] = "Scale".into();
    scale["apiVersion"] = "autoscaling/v1".into();
    scale["metadata"] = own.into();
    scale["spec"] = Value::object();
    if replicas("spec") != 0 {
        scale["spec"]["replicas"] = replicas("spec").into();
    }
    scale["status"]["replicas"] = replicas("status").into();
    scale["status"]["selector"] = selector.to_string().into();
    scale
}

/// Decodes a patch or an apply configuration.
pub(super) async fn patch_of<'q>(
    server: &Server,
    request: Request,
    query: &'q Query,
) -> Result<ScaleWrite<'q>, Status> {
    let (force, named) = (request.query.flag("force"), request.query.get("fieldManager").is_some());
    let content = request.head.headers.get(http::header::CONTENT_TYPE);
    let content = content.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let content = content.split(';').next().unwrap_or_default();
    let bytes = bytes_of(server, request).await?;
    if content == "application/apply-patch+yaml" {
        let wrong = |error: &dyn std::fmt::Display| {
            Status::bad_request(format!("error encoding patch: {error}"))
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| wrong(&error))?;
        let applied = object::yaml::from_yaml_lenient(text).map_err(|error| wrong(&error))?;
        log_request_object(|| applied.clone());
        if !named {
            let mut errs = ErrorList::default();
            errs.required(&FieldPath::Root.field("fieldManager"), "is required for apply patch");
            return Err(errs.into_status("meta.k8s.io", "PatchOptions", ""));
        }
        return Ok(ScaleWrite::Applied(applied, force));
    }
    let Some(ty) = PatchType::of(content) else {
        let unknown = Status::failure(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml",
        );
        return Err(unknown.with_details(StatusDetails::new()));
    };
    Patch::read(ty, &bytes, query).map(ScaleWrite::Patched)
}
