//! Names that only policies and hooks of files have.

use object::{Object, Status, View};
use schema::{Errors, Gates, Path};
use server::{Admission, Admit, Admitting, Operation};

use super::manifests::SUFFIX;
use crate::features::MANIFESTS;

#[derive(Debug)]
pub(super) struct ReservedNames {
    pub(super) gates: Gates,
}

impl Admit for ReservedNames {
    fn name(&self) -> &'static str {
        "ReservedNames"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let decided = self.decide(admission);
        Box::pin(async move { decided })
    }
}

impl ReservedNames {
    fn decide(&self, admission: &Admission) -> Result<(), Status> {
        let names = &admission.served.hub.names;
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
        if admission.operation == Operation::Create && self.gates.is_on(MANIFESTS) {
            let mut errors = Errors::default();
            errors.invalid(&Path::Root.field("metadata").field("name"), name, why);
            return Err(errors.status(names.group, names.kind, name));
        }
        admission.warn(format!("metadata.name: {why}"));
        Ok(())
    }
}
