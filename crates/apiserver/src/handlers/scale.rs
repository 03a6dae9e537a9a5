//! Scale: the number of replicas of anything that has one, by itself.

use std::sync::Arc;

use api::autoscaling::v1::Scale;
use object::{Lens, Object, ObjectMeta, Status, Value, View, from_json, selector::Selector};
use server::{Handle, Handling, Request, Server, object_reply};

use super::{body_of, bytes_of, call, custom_scale, served};

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
            let key = (&*info.namespace, &*info.name);
            let found = server.registry.get(&served, key.0, key.1)?;
            if info.verb == "get" {
                return Ok(object_reply(200, &scale_of(found.revision, &found.object)));
            }
            let mut call = call(&request);
            let wanted = match &*info.verb {
                "update" => {
                    body_of(server, request, "autoscaling/v1", "Scale", Scale::SHAPE).await?
                }
                "patch" => {
                    patched(server, request, scale_of(found.revision, &found.object)).await?
                }
                _ => {
                    return Err(Status::method_not_allowed(
                        "the server does not allow this method on the requested resource",
                    ));
                }
            };
            let scale = Scale::view(&wanted);
            let (replicas, version) =
                (scale.spec().replicas(), scale.metadata().resource_version().to_owned());
            if replicas < 0 {
                return Err(Status::failure(
                    422,
                    "Invalid",
                    format!(
                        "Scale.autoscaling {:?} is invalid: spec.replicas: Invalid value: {replicas}: must \
                     be greater than or equal to 0",
                        info.name
                    ),
                ));
            }
            let change = |old: &store::Version<Value>| {
                if !version.is_empty() && version != old.revision.to_string() {
                    return Err(Status::stale(served.subject(key.1)));
                }
                let mut object = old.object.clone();
                object["spec"]["replicas"] = replicas.into();
                Ok(object)
            };
            let made = server.registry.change(&mut call, &served, key, "", change).await?;
            Ok(object_reply(200, &scale_of(made.revision, &made.object)))
        })
    }
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
    let selector = match selector.get("matchLabels").is_null()
        && selector.get("matchExpressions").is_null()
    {
        true => Selector::labels(selector.entries().filter_map(|(k, v)| Some((k, v.as_str()?)))),
        false => Selector::from_tree(selector).unwrap_or_default(),
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
    scale: Value,
) -> Result<Value, Status> {
    let content = request.head.headers.get(http::header::CONTENT_TYPE);
    let content = content.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let bytes = bytes_of(server, request).await?;
    let patch = from_json(&bytes).map_err(|error| Status::bad_request(error.to_string()))?;
    match content.split(';').next().unwrap_or_default() {
        "application/json-patch+json" => {
            schema::patch::json(&scale, &patch).map_err(|error| error.status())
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let mut scale = scale;
            schema::patch::merge(&mut scale, &patch);
            Ok(scale)
        }
        _ => Err(Status::failure(
            415,
            "UnsupportedMediaType",
            "this patch type is not served for scale",
        )),
    }
}
