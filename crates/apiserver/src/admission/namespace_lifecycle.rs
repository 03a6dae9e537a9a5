//! The NamespaceLifecycle admission plugin: rejects new objects in a namespace that is missing or
//! terminating, and the deletion of the system namespaces.

use api::core::Namespace;
use object::{Status, StatusCause, StatusDetails, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(super) struct NamespaceLifecycle;

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let decided = decide(admission);
        Box::pin(async move { decided })
    }
}

fn decide(admission: &AdmissionAttributes) -> Result<(), Status> {
    let is_namespace = admission.served.definition.names.plural == "namespaces"
        && admission.served.definition.names.group.is_empty();
    if is_namespace {
        let name = &*admission.name;
        if admission.operation == Operation::Delete && IMMORTAL_NAMESPACES.contains(&name) {
            return Err(admission.forbidden("this namespace may not be deleted"));
        }
        return Ok(());
    }
    if admission.namespace.is_empty() || admission.operation != Operation::Create {
        return Ok(());
    }
    // An access review does not need its namespace to exist.
    if admission.served.definition.names.plural == "localsubjectaccessreviews" {
        return Ok(());
    }
    let kind = admission.registry.kind("", "namespaces")?;
    let found = admission.registry.get(&kind, "", &admission.namespace)?;
    let namespace = Namespace::view(&found.object);
    if !namespace.metadata().is_terminating() && namespace.status().phase() != "Terminating" {
        return Ok(());
    }
    let name = &admission.namespace;
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = admission.forbidden(&why);
    let cause = StatusCause::new()
        .with_reason("NamespaceTerminating")
        .with_message(format!("namespace {name} is being terminated"))
        .with_field("metadata.namespace");
    let details = status.details().cloned().unwrap_or_else(StatusDetails::new);
    status.set_details(details.with_causes([cause]));
    Err(status)
}
