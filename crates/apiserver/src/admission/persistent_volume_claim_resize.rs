//! The PersistentVolumeClaimResize admission plugin: a claim may grow only if its StorageClass has
//! `allowVolumeExpansion`.

use api::{core::PersistentVolumeClaim, storage::StorageClass};
use object::{Quantity, Status, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin};

#[derive(Debug)]
pub(super) struct PersistentVolumeClaimResize;

impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = decide(admission);
        Box::pin(async move { done })
    }
}

fn decide(admission: &AdmissionAttributes) -> Result<(), Status> {
    let Some(old) = admission.old.filter(|_| admission.is_resource("", "persistentvolumeclaims"))
    else {
        return Ok(());
    };
    if admission.object.is_null() {
        return Ok(());
    }
    let (new, old) =
        (PersistentVolumeClaim::view(&admission.object), PersistentVolumeClaim::view(old));
    let size = |claim: &PersistentVolumeClaim| -> Quantity {
        claim.spec().resources().requests().get("storage").unwrap_or_default()
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    if old.status().phase() != "Bound" {
        return Err(admission.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let (class, before) = (class(new), class(old));
    let kind = admission.registry.kind("storage.k8s.io", "storageclasses")?;
    let found = admission.registry.get(&kind, "", &class).ok().filter(|_| class == before);
    let grows = found.is_some_and(|class| {
        StorageClass::view(&class.object).allow_volume_expansion() == Some(true)
    });
    if grows {
        return Ok(());
    }
    Err(admission.forbidden(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the \
         pvc must support resize",
    ))
}

/// The StorageClass of a claim, from the annotation or the field.
fn class(claim: &PersistentVolumeClaim) -> String {
    let annotated = claim.metadata().annotations().get("volume.beta.kubernetes.io/storage-class");
    annotated.or(claim.spec().storage_class_name()).unwrap_or_default().to_owned()
}
