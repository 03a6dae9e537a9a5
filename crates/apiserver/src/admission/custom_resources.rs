//! Admission plugin that rejects new custom resources while their CustomResourceDefinition is being
//! deleted.

use api::apiextensions::CustomResourceDefinition;
use object::{Status, View};
use schema::Kind;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

#[derive(Debug)]
pub(super) struct CustomResources;

impl AdmissionPlugin for CustomResources {
    fn name(&self) -> &'static str {
        "CustomResources"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let decided = decide(admission);
        Box::pin(async move { decided })
    }
}

fn decide(admission: &AdmissionAttributes) -> Result<(), Status> {
    let kind = &admission.served.definition;
    if kind.is_built_in() || admission.operation != Operation::Create {
        return Ok(());
    }
    let (own, names) = (&kind.names, CustomResourceDefinition::NAMES);
    let definitions = admission.registry.kind(names.group, names.plural)?;
    let name = format!("{}.{}", own.plural, own.group);
    let Ok(found) = admission.registry.get(&definitions, "", &name) else { return Ok(()) };
    if CustomResourceDefinition::view(&found.object).is_terminating() {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(admission.forbidden(why));
    }
    Ok(())
}
