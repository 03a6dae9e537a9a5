//! The ExtendedResourceToleration admission plugin: a pod that requests an extended resource, such
//! as a GPU, tolerates the taint of the nodes dedicated to it.

use std::collections::BTreeSet;

use api::core::{Pod, Toleration};
use object::{View, names};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

#[derive(Debug)]
pub(super) struct ExtendedResourceToleration;

impl AdmissionPlugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if writes && admission.is_resource("", "pods") {
            let spec = Pod::view(&admission.object).spec();
            let asked = spec.all_containers().flat_map(|c| c.resources().requests().iter());
            let names: BTreeSet<String> =
                asked.map(|(name, _)| name.to_owned()).filter(|name| is_extended(name)).collect();
            let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
            for name in names {
                let toleration = Toleration::new()
                    .with_key(name)
                    .with_operator("Exists")
                    .with_effect("NoSchedule");
                spec.tolerations_mut().upsert(toleration.clone(), |own| is_same(own, &toleration));
            }
        }
        Box::pin(async { Ok(()) })
    }
}

/// Whether the name is that of an extended resource: outside the kubernetes.io domain, and valid in
/// a quota.
fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether both tolerations have the same key, effect, operator and value.
fn is_same(own: &Toleration, other: &Toleration) -> bool {
    (own.key(), own.effect(), own.operator(), own.value())
        == (other.key(), other.effect(), other.operator(), other.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_of_others_count() {
        assert!(is_extended("example.com/gpu"));
        for name in ["cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/gpu"] {
            assert!(!is_extended(name), "{name}");
        }
    }
}
