//! Admission plugin that reserves the name suffix `.static.k8s.io` for policies and webhook
//! configurations from files.

use object::{Object, Status, View};
use schema::{ErrorList, FeatureGates, FieldPath};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::manifests::SUFFIX;
use crate::features::MANIFESTS;

#[derive(Debug)]
pub(super) struct ReservedNames {
    pub(super) gates: FeatureGates,
}

impl AdmissionPlugin for ReservedNames {
    fn name(&self) -> &'static str {
        "ReservedNames"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let decided = self.decide(admission);
        Box::pin(async move { decided })
    }
}

impl ReservedNames {
    fn decide(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        let names = &admission.served.internal.names;
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if names.group != "admissionregistration.k8s.io" || !writes {
            return Ok(());
        }
        let name = Object::view(&admission.object).metadata().name();
        if !name.ends_with(SUFFIX) || !admission.subresource.is_empty() {
            return Ok(());
        }
        let why = format!(
            "names ending with {SUFFIX:?} are reserved for static manifest-based configurations \
             and cannot be managed via the API"
        );
        if admission.operation == Operation::Create && self.gates.is_enabled(MANIFESTS) {
            let mut errors = ErrorList::default();
            errors.invalid(&FieldPath::Root.field("metadata").field("name"), name, why);
            return Err(errors.into_status(names.group, names.kind, name));
        }
        admission.warn(format!("metadata.name: {why}"));
        Ok(())
    }
}
