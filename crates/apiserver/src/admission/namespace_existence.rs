//! The NamespaceExists and NamespaceAutoProvision admission plugins: reject a write to a missing
//! namespace, or create the namespace.

use object::{Object, Status, Value};
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation, RequestContext, UserInfo,
};

/// Whether the namespace of the object does not exist.
fn is_missing(admission: &AdmissionAttributes) -> bool {
    let names = &admission.served.definition.names;
    let own = names.group.is_empty() && names.plural == "namespaces";
    if own || admission.namespace.is_empty() || admission.operation == Operation::Delete {
        return false;
    }
    let kind = admission.registry.kind("", "namespaces");
    kind.is_ok_and(|kind| admission.registry.get(&kind, "", &admission.namespace).is_err())
}

#[derive(Debug)]
pub(super) struct NamespaceExists;

impl AdmissionPlugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            if !is_missing(admission) {
                return Ok(());
            }
            let kind = admission.registry.kind("", "namespaces")?;
            Err(Status::not_found(kind.subject(&admission.namespace)))
        })
    }
}

#[derive(Debug)]
pub(super) struct NamespaceAutoProvision;

impl AdmissionPlugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            if admission.dry_run || !is_missing(admission) {
                return Ok(());
            }
            let kind = admission.registry.kind("", "namespaces")?;
            let meta = object::ObjectMeta::new().with_name(admission.namespace.as_str());
            let namespace: Value = Object::new().with_metadata(meta).into();
            let own = UserInfo::new("system:apiserver", &["system:masters"]);
            let mut call = RequestContext::new(own, "kube-apiserver");
            match admission.registry.create(&mut call, &kind, "", namespace).await {
                Err(status) if !status.has_reason("AlreadyExists") => Err(status),
                _ => Ok(()),
            }
        })
    }
}
