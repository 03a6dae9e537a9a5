//! The StorageObjectInUseProtection admission plugin: adds the finalizers that keep volumes and
//! claims while they are in use.

use object::Object;
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

#[derive(Debug)]
pub(super) struct StorageObjectInUseProtection;

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let names = &admission.served.definition.names;
        let finalizer = match (names.group, names.plural, admission.subresource) {
            ("", "persistentvolumes", "") => "kubernetes.io/pv-protection",
            ("", "persistentvolumeclaims", "") => "kubernetes.io/pvc-protection",
            ("storage.k8s.io", "volumeattributesclasses", "") => "kubernetes.io/vac-protection",
            _ => "",
        };
        if !finalizer.is_empty() && admission.operation == Operation::Create {
            let meta = Object::ref_cast_mut(&mut admission.object).metadata_mut();
            if !meta.finalizers().iter().any(|own| own == finalizer) {
                meta.finalizers_mut().push(finalizer);
            }
        }
        Box::pin(async { Ok(()) })
    }
}
