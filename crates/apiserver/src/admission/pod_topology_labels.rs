//! The PodTopologyLabels admission plugin: copies the region and zone labels of the node to the pod
//! when it is bound.

use api::core::{Binding, Pod};
use object::{Object, View};
use ref_cast::RefCast;
use schema::FeatureGates;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

#[derive(Debug)]
pub(super) struct PodTopologyLabels {
    pub(super) gates: FeatureGates,
}

impl AdmissionPlugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        if self.gates.is_enabled("PodTopologyLabelsAdmission") {
            copy(admission);
        }
        Box::pin(async { Ok(()) })
    }
}

/// Copies the labels; does nothing if the node does not exist.
fn copy(admission: &mut AdmissionAttributes) {
    let names = &admission.served.definition.names;
    let pods = names.group.is_empty() && names.plural == "pods";
    let node = match (admission.subresource, admission.operation) {
        ("", Operation::Create) if pods => Pod::view(&admission.object).spec().node_name(),
        ("binding", Operation::Create) if pods => {
            let target = Binding::view(&admission.object).target();
            if target.kind() == "Node" { target.name() } else { "" }
        }
        _ => return,
    };
    let Ok(kind) = admission.registry.kind("", "nodes") else { return };
    let Ok(found) = admission.registry.get(&kind, "", node) else { return };
    let labels = Object::view(&found.object).metadata().labels();
    for label in LABELS {
        if let Some(value) = labels.get(label) {
            let meta = Object::ref_cast_mut(&mut admission.object).metadata_mut();
            meta.labels_mut().insert(label, value);
        }
    }
}
