//! Scale: the number of replicas of anything that has one, by itself.

use std::sync::Arc;

use api::autoscaling::v1::Scale;
use object::{Lens, Object, ObjectMeta, Status, Value, View, from_json, selector::Selector};
use schema::{Definition, Errors, Path};
use server::{Handle, Handling, Request, Server, other_uid};

use super::{Asked, body_of, bytes_of, call, custom_scale, part, same_name, served};

#[derive(Debug)]
pub(super) struct Scales;

impl Handle for Scales {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> Handling<'a> {
        Box::pin(async move {
            let (served, info) = (served(server, &request)?, request.info.clone());
            if let Some(paths) = served.definition.custom.as_ref().and_then(|own| own.scale.clone())
            {
                return custom_scale::handle(server, request, served, paths).await;
            }
            let (asked, kind) = (Asked::of(&request), part("autoscaling", "Scale", Scale::SHAPE));
            let key = (&*info.namespace, &*info.name);
            let mut call = call(&request);
            let wanted = match &*info.verb {
                "get" => {
                    let found = server.registry.get(&served, key.0, key.1)?;
                    let scale = scale_of(found.revision, &found.object);
                    return asked.reply(200, &kind, &scale);
                }
                "update" => body_of(server, request, &kind).await?,
                _ => {
                    let found = server.registry.get(&served, key.0, key.1)?;
                    let scale = scale_of(found.revision, &found.object);
                    patched(server, request, &kind, scale).await?
                }
            };
            same_name(&wanted, key.1)?;
            check(&wanted, key.1)?;
            let scale = Scale::view(&wanted);
            let replicas = scale.spec().replicas();
            let (version, uid) = (scale.metadata().resource_version(), scale.metadata().uid());
            let dry_run = call.dry_run;
            let change = |old: &store::Version<Value>| {
                let have = Object::view(&old.object).metadata().uid();
                if !uid.is_empty() && uid != have {
                    return Err(other_uid(&served, key, uid, have, dry_run));
                } else if !version.is_empty() && version != old.revision.to_string() {
                    return Err(Status::stale(served.subject(key.1)));
                }
                let mut object = old.object.clone();
                object["spec"]["replicas"] = replicas.into();
                Ok(object)
            };
            let made = server.registry.change(&mut call, &served, key, "scale", change).await?;
            asked.reply(200, &kind, &scale_of(made.revision, &made.object))
        })
    }
}

fn check(scale: &Value, name: &str) -> Result<(), Status> {
    let mut errs = Errors::default();
    let spec = Path::Root.field("spec");
    errs.non_negative(&spec.field("replicas"), Scale::view(scale).spec().replicas().into());
    if errs.is_empty() { Ok(()) } else { Err(errs.status("autoscaling", "Scale", name)) }
}

/// The object seen as a scale.
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
        Selector::labels(selector.entries().filter_map(|(k, v)| Some((k, v.as_str()?))))
    } else {
        Selector::from_tree(selector).unwrap_or_default()
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

pub(super) async fn patched(
    server: &Server,
    request: Request,
    kind: &Definition,
    scale: Value,
) -> Result<Value, Status> {
    let content = request.head.headers.get(http::header::CONTENT_TYPE);
    let content = content.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let bytes = bytes_of(server, request).await?;
    let patch = from_json(&bytes).map_err(|error| Status::bad_request(error.to_string()))?;
    let mut patched = match content.split(';').next().unwrap_or_default() {
        "application/json-patch+json" => {
            schema::patch::json(&scale, &patch).map_err(|error| error.status())?
        }
        "application/merge-patch+json" => {
            let mut scale = scale;
            schema::patch::merge(&mut scale, &patch);
            scale
        }
        "application/strategic-merge-patch+json" => {
            let done = schema::patch::strategic(&kind.shape, &scale, &patch);
            done.map_err(|error| error.status())?
        }
        _ => {
            return Err(Status::failure(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json",
            ));
        }
    };
    schema::conform(&kind.shape, &mut patched, &mut Vec::new()).map_err(|error| {
        Status::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: {error}"
        ))
    })?;
    Ok(patched)
}
