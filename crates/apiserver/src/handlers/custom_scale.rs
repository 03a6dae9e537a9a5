//! The scale subresource of custom resources: the CRD names the JSON paths of the replica counts.

use std::sync::Arc;

use api::autoscaling::v1::Scale;
use object::{Object, ObjectMeta, Status, StatusCause, StatusDetails, Time, Value, View};
use schema::{ResourceDefinition, custom};
use server::{Reply, Request, ServedResource, Server};

use super::{
    ResponseParams, body_of, request_context,
    scale::{ScaleFieldManager, ScaleWrite, ScaleWriteResult, admitted, patch_of},
    warned,
};

/// Value of `spec.replicas` while the field is not set.
const UNSET: i64 = i32::MIN as i64;

/// Handles a request for the scale subresource of a custom resource.
pub(super) async fn handle(
    server: &Arc<Server>,
    request: Request,
    served: ServedResource,
    paths: custom::ScalePaths,
) -> Result<Reply, Status> {
    let info = request.info.clone();
    let key = (&*info.namespace, &*info.name);
    let found = server.registry.get_converted(&served, key.0, key.1).await?;
    let (asked, kind) = (ResponseParams::of(&request), ResourceDefinition::from_kind::<Scale>());
    let (wants, _) = paths.replicas(&found.object).map_err(internal)?;
    if info.verb == "get" {
        if wants.is_none() {
            let path = object::quote::quote(&paths.spec_replicas);
            return Err(internal(format!("the spec replicas field {path} does not exist")));
        }
        let scale = scale_of(&paths, found.revision, &found.object)?;
        return asked.reply(server, &kind, (200, &scale));
    }
    let mut call = request_context(&request);
    let wanted = if info.verb == "update" {
        ScaleWrite::Whole(body_of(server, &mut call, request, &kind).await?)
    } else {
        patch_of(server, request, &asked.query).await?
    };
    let manager = call.manager.clone();
    let now = Time::format(server.registry.clock().now());
    let api_version = served.definition.names.api_version();
    let path: Vec<_> = paths.spec_replicas.trim_start_matches('.').split('.').collect();
    let laid = |old: &store::Version<Value>, wanted: &ScaleWrite| {
        let books = ScaleFieldManager {
            server,
            object: &old.object,
            path: &path,
            api_version: &api_version,
        };
        let mut before = scale_of(&paths, old.revision, &old.object)?;
        let (wants, _) = paths.replicas(&old.object).map_err(internal)?;
        if let (ScaleWrite::Patched(_), None) = (wanted, wants) {
            before["spec"]["replicas"] = UNSET.into();
        }
        books.after(wanted, before, &manager, &now)
    };
    let before = scale_of(&paths, found.revision, &found.object)?;
    let first = laid(&found, &wanted)?;
    call.warnings.extend(first.odd);
    let part = (&before, found.revision, first.scale);
    let changed = admitted(server, &mut call, (&served, &info), part, |_| Ok(())).await?;
    let wanted = changed.map_or(wanted, ScaleWrite::Whole);
    let change = |old: &store::Version<Value>| {
        let ScaleWriteResult { scale: after, managed_fields: books, .. } = laid(old, &wanted)?;
        let replicas = after.get("spec").get("replicas").as_i64().unwrap_or_default();
        if replicas == UNSET {
            let path = object::quote::quote(&paths.spec_replicas);
            let why = format!("the spec replicas field {path} cannot be empty");
            return Err(Status::bad_request(why));
        }
        let version = Scale::view(&after).metadata().resource_version();
        if !version.is_empty() && version != old.revision.to_string() {
            return Err(Status::optimistic_lock_conflict(served.subject(key.1)));
        }
        let mut object = old.object.clone();
        paths.set_replicas(&mut object, replicas);
        object["metadata"]["managedFields"] = books;
        // Prunes fields that the schema does not have, once the replica count is known to be valid.
        if replicas >= 0 {
            let kept = served.definition.coerce(&mut object, &mut Vec::new());
            kept.map_err(Status::bad_request)?;
        }
        Ok(object)
    };
    let mut inner = call.clone().admitted();
    inner.skip_managed_fields();
    let made = server.registry.guaranteed_update(&mut inner, &served, key, "", change).await?;
    let scale = scale_of(&paths, made.revision, &made.object)?;
    Ok(warned(asked.reply(server, &kind, (200, &scale))?, &call))
}

/// The Scale of a custom resource.
fn scale_of(paths: &custom::ScalePaths, revision: u64, object: &Value) -> Result<Value, Status> {
    let (wants, has) = paths.replicas(object).map_err(internal)?;
    let meta = Object::view(object).metadata();
    let own = ObjectMeta::new()
        .with_name(meta.name())
        .with_namespace(meta.namespace())
        .with_uid(meta.uid())
        .with_resource_version(revision.to_string())
        .with_creation_timestamp(meta.creation_timestamp());
    let mut scale = Value::object();
    scale["kind"] = "Scale".into();
    scale["apiVersion"] = "autoscaling/v1".into();
    scale["metadata"] = own.into();
    scale["spec"] = Value::object();
    if let Some(replicas) = wants.filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale["status"]["replicas"] = has.into();
    let selector = paths.selector(object);
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

fn internal(why: impl AsRef<str>) -> Status {
    let why = why.as_ref();
    let cause = StatusCause::new().with_message(why);
    Status::failure(500, "InternalError", format!("Internal error occurred: {why}"))
        .with_details(StatusDetails::new().with_causes([cause]))
}
