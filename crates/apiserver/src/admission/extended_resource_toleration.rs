//! ExtendedResourceToleration: pods that ask for a device tolerate the taint of nodes
//! that are kept for it.

use std::collections::BTreeSet;

use api::core::{Pod, Toleration};
use object::View;
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Operation};

use super::runtime_class::covers;

#[derive(Debug)]
pub(super) struct ExtendedResourceToleration;

impl Admit for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let writes = matches!(admission.operation, Operation::Create | Operation::Update);
        if writes && admission.is("", "pods") {
            let spec = Pod::view(&admission.object).spec();
            let asked = spec.all_containers().flat_map(|c| c.resources().requests().iter());
            let names: BTreeSet<String> = asked
                .map(|(name, _)| name.to_owned())
                .filter(|name| name.contains('/') && !name.contains("kubernetes.io/"))
                .collect();
            let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
            for name in names {
                let toleration = Toleration::new()
                    .with_key(name)
                    .with_operator("Exists")
                    .with_effect("NoSchedule");
                if !spec.tolerations().iter().any(|own| covers(own, &toleration)) {
                    spec.tolerations_mut().push(toleration);
                }
            }
        }
        Box::pin(async { Ok(()) })
    }
}
