//! The Binding handler: assigns a pod to a node. A pod is bound only once.

use std::sync::Arc;

use api::core::{Binding, Pod, PodCondition};
use object::{
    Object, Status, Time, Value, View,
    names::{dns1123_subdomain, path_segment_name},
    quote::quote,
};
use schema::{ErrorList, FieldPath, ResourceDefinition};
use server::{
    EndpointHandler, Operation, Request, RequestContext, RequestInfo, ResponseFuture,
    ServedResource, Server, SubresourceRequest, revision, uid_conflict,
};

use super::{
    ResponseParams, asking, body_of, prepare_subresource, request_context, same_namespace, served,
};

#[derive(Debug)]
pub(super) struct BindingHandler;

impl EndpointHandler for BindingHandler {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> ResponseFuture<'a> {
        Box::pin(async move {
            let (mut call, info) = (request_context(&request), request.info.clone());
            let kind = served(server, &request)?;
            let asked = ResponseParams::of(&request);
            let given =
                body_of(server, &mut call, request, &ResourceDefinition::from_kind::<Binding>())
                    .await?;
            let done = bind(server, &mut call, (&kind, &info), given).await;
            Ok(match done {
                Ok(()) => asked.created(&call),
                Err(why) => asked.failure(&why, &call),
            })
        })
    }
}

async fn bind(
    server: &Server,
    call: &mut RequestContext,
    (kind, info): (&ServedResource, &RequestInfo),
    given: Value,
) -> Result<(), Status> {
    let name = if info.subresource.is_empty() {
        Binding::view(&given).metadata().name().to_owned()
    } else {
        info.name.to_string()
    };
    check_binding_names(Binding::view(&given), &info.namespace, &name)?;
    let given = prepare_subresource(
        server,
        (call, info),
        &ResourceDefinition::from_kind::<Binding>(),
        given,
    )?;
    let asking = SubresourceRequest { name: &name, ..asking(info, Operation::Create, given) };
    let checked = |given: &mut Value| check(Binding::view(given), &name);
    let given = server.registry.admit_subresource(call, kind, asking, checked).await?;
    let binding = Binding::view(&given);
    let pods = server.registry.kind("", "pods")?;
    let now = server.registry.clock().now();
    let (uid, version) = (binding.metadata().uid(), binding.metadata().resource_version());
    let version = revision(version)?;
    let dry_run = call.dry_run;
    let key = (&*info.namespace, &*name);
    let change = |old: &store::Version<Value>| {
        let have = Object::view(&old.object).metadata().uid();
        if !uid.is_empty() && uid != have {
            return Err(uid_conflict(&pods, key, uid, have, dry_run));
        } else if version != 0 && version != old.revision {
            return Err(Status::optimistic_lock_conflict(pods.subject(key.1)));
        }
        bound(&old.object, binding, now)
    };
    let mut inner = call.clone().admitted();
    server.registry.guaranteed_update(&mut inner, &pods, key, "binding", change).await?;
    Ok(())
}

fn bound(old: &Value, binding: &Binding, now: i64) -> Result<Value, Status> {
    let mut pod = Pod::from(old.clone());
    let name = pod.metadata().name().to_owned();
    let subject = object::ResourceRef { group: "", resource: "pods", name: &name };
    let conflict = |why: String| {
        Status::conflict(object::ResourceRef { resource: "pods/binding", ..subject }, &why)
    };
    if pod.metadata().is_terminating() {
        return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
    } else if !pod.spec().node_name().is_empty() {
        return Err(conflict(format!(
            "pod {name} is already assigned to node {:?}",
            pod.spec().node_name()
        )));
    } else if !pod.spec().scheduling_gates().is_empty() {
        return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    pod.spec_mut().set_node_name(binding.target().name());
    if !pod.status().nominated_node_name().is_empty() {
        pod.status_mut().set_nominated_node_name(""); // the nomination is no longer needed
    }
    let meta = pod.metadata_mut();
    for (name, value) in binding.metadata().annotations().iter() {
        meta.annotations_mut().insert(name, value);
    }
    for (name, value) in binding.metadata().labels().iter() {
        meta.labels_mut().insert(name, value);
    }
    let condition = PodCondition::new()
        .with_type("PodScheduled")
        .with_status("True")
        .with_last_transition_time(Time::format(now));
    pod.status_mut().conditions_mut().upsert(condition, |own| own.type_() == "PodScheduled");
    Ok(pod.into())
}

/// Checks that the binding names a pod in the namespace of the request.
fn check_binding_names(binding: &Binding, namespace: &str, name: &str) -> Result<(), Status> {
    same_namespace(binding.metadata().namespace(), namespace)?;
    if name != binding.metadata().name() {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    match &*path_segment_name(name) {
        [] => Ok(()),
        why => Err(Status::bad_request(format!(
            "Name parameter invalid: {}: {}",
            quote(name),
            why.join(";")
        ))),
    }
}

/// Validates the binding. Upstream reports these errors as 500 and not as Invalid.
fn check(binding: &Binding, name: &str) -> Result<(), Status> {
    if binding.metadata().name() != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let mut errs = ErrorList::default();
    let (at, target) = (FieldPath::Root.field("target"), binding.target());
    if !matches!(target.kind(), "" | "Node") {
        errs.not_supported(&at.field("kind"), target.kind(), &["Node", "<empty>"]);
    }
    if target.name().is_empty() {
        errs.required(&at.field("name"), "");
    }
    for why in dns1123_subdomain(target.name()).into_iter().filter(|_| !target.name().is_empty()) {
        errs.invalid(&at.field("name"), target.name(), why);
    }
    let errors: Vec<_> = errs.0.iter().map(ToString::to_string).collect();
    match &*errors {
        [] => Ok(()),
        [one] => Err(Status::failure(500, "", one.as_str())),
        many => Err(Status::failure(500, "", format!("[{}]", many.join(", ")))),
    }
}
