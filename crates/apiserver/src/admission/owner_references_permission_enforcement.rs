//! The OwnerReferencesPermissionEnforcement admission plugin: to add an owner reference, a user
//! must be allowed to delete the object; to set `blockOwnerDeletion`, to update the owner's
//! finalizers.

use object::{Object, OwnerReference, Status, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Attributes, Operation};

use super::AuthorizerChain;

#[derive(Debug)]
pub(super) struct OwnerReferencesPermissionEnforcement {
    pub(super) rights: AuthorizerChain,
}

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(self.decide(admission))
    }
}

impl OwnerReferencesPermissionEnforcement {
    async fn decide(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        let names = &admission.served.definition.names;
        if !writes
            || !(!names.group.is_empty()
                || names.plural != "pods"
                || admission.subresource != "status")
        {
            return Ok(());
        }
        let new = admission.meta().owner_references();
        let old = admission.old.map(|old| Object::view(old).metadata().owner_references().clone());
        if old.as_ref().unwrap_or(&object::List::default()) == new {
            return Ok(());
        }
        let wanted = Attributes {
            verb: "delete".into(),
            group: names.group.into(),
            version: names.version.into(),
            resource: names.plural.into(),
            subresource: admission.subresource.into(),
            namespace: admission.namespace.clone(),
            name: admission.name.clone(),
            is_resource: true,
            ..Attributes::default()
        };
        // On create, no permission to delete is needed.
        let makes = admission.operation == Operation::Create;
        if !makes && !self.rights.is_allowed(admission.user, &wanted).await {
            return Err(admission
                .forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"));
        }
        let blocked = |owner: &OwnerReference| {
            owner.block_owner_deletion() == Some(true)
                && !old.as_ref().is_some_and(|old| {
                    old.iter().any(|own| {
                        own.uid() == owner.uid() && own.block_owner_deletion() == Some(true)
                    })
                })
        };
        let blocking: Vec<&OwnerReference> = new.iter().filter(|owner| blocked(owner)).collect();
        if blocking.is_empty() || self.rights.is_allowed(admission.user, &finalize_anything()).await
        {
            return Ok(());
        }
        for owner in blocking {
            let (group, version) =
                owner.api_version().rsplit_once('/').unwrap_or(("", owner.api_version()));
            let found = admission.registry.kinds().by_kind(group, version, owner.kind());
            let Some(kind) = found else {
                return Err(admission.forbidden(&format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                     APIVersion {} Kind {}: no matches for kind {:?} in version {:?}",
                    owner.api_version(),
                    owner.kind(),
                    owner.kind(),
                    owner.api_version()
                )));
            };
            let namespaced = kind.definition.is_namespaced();
            let wanted = Attributes {
                verb: "update".into(),
                group: group.into(),
                version: version.into(),
                resource: kind.definition.names.plural.into(),
                subresource: "finalizers".into(),
                namespace: if namespaced { admission.namespace.clone() } else { "".into() },
                name: owner.name().into(),
                is_resource: true,
                ..Attributes::default()
            };
            if !self.rights.is_allowed(admission.user, &wanted).await {
                return Err(admission.forbidden(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                     can't set finalizers on: , <nil>",
                ));
            }
        }
        Ok(())
    }
}

fn finalize_anything() -> Attributes {
    Attributes {
        verb: "update".into(),
        group: "*".into(),
        version: "*".into(),
        resource: "*".into(),
        subresource: "finalizers".into(),
        name: "*".into(),
        is_resource: true,
        ..Attributes::default()
    }
}
