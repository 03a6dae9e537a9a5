//! The RuntimeClass admission plugin: sets a pod's overhead, node selector and tolerations from its
//! RuntimeClass.

use api::{core::Pod, node::RuntimeClass as Class};
use object::{Status, Value, View};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::{invalid_name_error, tolerations::merged};

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = mutate(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = validate(admission);
        Box::pin(async move { done })
    }
}

const OTHER: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// The RuntimeClass of a new pod, if it names one.
fn class(admission: &AdmissionAttributes) -> Result<Option<Class>, Status> {
    if !admission.is_resource("", "pods") || admission.operation != Operation::Create {
        return Ok(None);
    }
    let Some(name) = Pod::view(&admission.object).spec().runtime_class_name() else {
        return Ok(None);
    };
    if let Some(why) = invalid_name_error(name) {
        return Err(Status::failure(500, "", why));
    }
    let kind = admission.registry.kind("node.k8s.io", "runtimeclasses")?;
    let found = admission.registry.get(&kind, "", name).map_err(|_| {
        admission.forbidden(&format!("pod rejected: RuntimeClass {name:?} not found"))
    })?;
    Ok(Some(Class::from(found.object.clone())))
}

fn mutate(admission: &mut AdmissionAttributes) -> Result<(), Status> {
    let Some(class) = class(admission)? else { return Ok(()) };
    if let Some(overhead) = class.overhead() {
        let own = Pod::view(&admission.object).spec().overhead();
        if !own.is_empty() && own != overhead.pod_fixed() {
            return Err(admission.forbidden(OTHER));
        }
        let fixed = overhead.pod_fixed().clone();
        Pod::ref_cast_mut(&mut admission.object).spec_mut().set_overhead(fixed);
    }
    let Some(scheduling) = class.scheduling() else { return Ok(()) };
    let selector = Pod::view(&admission.object).spec().node_selector();
    for (key, value) in scheduling.node_selector().iter() {
        if let Some(other) = selector.get(key).filter(|own| *own != value) {
            return Err(admission.forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                 pod.spec.nodeSelector[{key}] = {other}"
            )));
        }
    }
    let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
    for (key, value) in scheduling.node_selector().iter() {
        spec.node_selector_mut().insert(key, value);
    }
    let tolerations: Vec<_> = scheduling.tolerations().iter().cloned().collect();
    let merged = merged(spec.tolerations(), &tolerations);
    spec.set_tolerations(merged);
    Ok(())
}

fn validate(admission: &AdmissionAttributes) -> Result<(), Status> {
    if !admission.is_resource("", "pods") || admission.operation != Operation::Create {
        return Ok(());
    }
    let class = class(admission)?;
    let own = admission.object.get("spec").get("overhead");
    match class.as_ref().and_then(Class::overhead) {
        Some(overhead) if *own != Value::from(overhead.pod_fixed().clone()) => {
            Err(admission.forbidden(OTHER))
        }
        None if !own.is_null() => Err(admission.forbidden(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        )),
        _ => Ok(()),
    }
}
