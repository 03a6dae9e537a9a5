//! The PodGroupProtection admission plugin: adds a finalizer to a new PodGroup, which keeps it
//! until no pod uses it.

use object::Object;
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

#[derive(Debug)]
pub(super) struct PodGroupProtection;

impl AdmissionPlugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        "PodGroupProtection"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        protect(admission);
        Box::pin(async { Ok(()) })
    }
}

fn protect(admission: &mut AdmissionAttributes) {
    if !admission.is_resource("scheduling.k8s.io", "podgroups")
        || admission.operation != Operation::Create
    {
        return;
    }
    let meta = Object::ref_cast_mut(&mut admission.object).metadata_mut();
    if !meta.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        meta.finalizers_mut().push(FINALIZER);
    }
}
