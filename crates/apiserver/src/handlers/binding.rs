//! Binding: gives a pod its node. A pod is bound once.

use std::sync::Arc;

use api::core::{Binding, Pod, PodCondition};
use object::{Object, Status, Time, Value, View};
use server::{Handle, Handling, Request, Server, object_reply};

use super::{body, call};

#[derive(Debug)]
pub(super) struct Bindings;

impl Handle for Bindings {
    fn handle<'a>(&'a self, server: &'a Arc<Server>, request: Request) -> Handling<'a> {
        Box::pin(async move {
            let (mut call, info) = (call(&request), request.info.clone());
            let given = body::<Binding>(server, request).await?;
            let binding = Binding::view(&given);
            let name = if info.subresource.is_empty() {
                binding.metadata().name().to_owned()
            } else {
                info.name.to_string()
            };
            let target = binding.target();
            if !matches!(target.kind(), "" | "Node") {
                return Err(invalid(
                    &name,
                    "target.kind",
                    target.kind(),
                    "must be empty or 'Node'",
                ));
            } else if target.name().is_empty() {
                return Err(Status::failure(
                    422,
                    "Invalid",
                    format!("Binding {name:?} is invalid: target.name: Required value"),
                ));
            }
            let pods = server.registry.kind("", "pods")?;
            let now = server.registry.clock().now();
            let uid = binding.metadata().uid().to_owned();
            let change = |old: &store::Version<Value>| bound(&old.object, binding, &uid, now);
            server
                .registry
                .change(&mut call, &pods, (&info.namespace, &name), "binding", change)
                .await?;
            let status = Object::from(Value::from(Status::success().with_code(201)));
            Ok(object_reply(201, &status.with_kind("Status").with_api_version("v1").into()))
        })
    }
}

fn bound(old: &Value, binding: &Binding, uid: &str, now: i64) -> Result<Value, Status> {
    let mut pod = Pod::from(old.clone());
    let name = pod.metadata().name().to_owned();
    let subject = object::Subject { group: "", resource: "pods", name: &name };
    let conflict = |why: String| {
        Status::conflict(object::Subject { resource: "pods/binding", ..subject }, &why)
    };
    if !uid.is_empty() && uid != pod.metadata().uid() {
        return Err(conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            pod.metadata().uid()
        )));
    } else if pod.metadata().is_terminating() {
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
    let meta = pod.metadata_mut();
    for (name, value) in binding.metadata().annotations().iter() {
        meta.annotations_mut().insert(name, value);
    }
    let condition = PodCondition::new()
        .with_type("PodScheduled")
        .with_status("True")
        .with_last_transition_time(Time::text(now))
        .with_observed_generation(meta.generation());
    pod.status_mut().conditions_mut().put(condition, |own| own.type_() == "PodScheduled");
    Ok(pod.into())
}

fn invalid(name: &str, field: &str, bad: &str, why: &str) -> Status {
    Status::failure(
        422,
        "Invalid",
        format!("Binding {name:?} is invalid: {field}: Invalid value: {bad:?}: {why}"),
    )
}
