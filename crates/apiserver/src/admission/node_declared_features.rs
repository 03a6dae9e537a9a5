//! The NodeDeclaredFeatureValidator admission plugin: rejects an update of a running pod that needs
//! a feature its node has not declared.

use api::core::{Node, Pod};
use object::{Lens, Object, Quantity, Status, Value, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

/// Whether the update from the first to the second pod needs a feature.
type Needed = fn(&Pod, &Pod) -> bool;

/// The features that an update may need, each with the function that detects it.
const FEATURES: &[(&str, Needed)] = &[
    ("InPlacePodLevelResourcesVerticalScaling", |old, new| {
        old.spec().resources().map(Lens::tree) != new.spec().resources().map(Lens::tree)
    }),
    ("InPlacePodVerticalScalingInitContainers", |old, new| {
        let (old, new) = (old.spec().init_containers(), new.spec().init_containers());
        old.iter()
            .zip(new.iter())
            .any(|(old, new)| !old.is_sidecar() && old.resources().tree() != new.resources().tree())
    }),
    ("InPlacePodVerticalScalingMemoryBackedVolumes", memory_changes),
];

#[derive(Debug)]
pub(super) struct NodeDeclaredFeatureValidator;

impl AdmissionPlugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let checked = check(admission);
        Box::pin(async { checked })
    }
}

/// The old and the new pod, if the request changes the spec of a scheduled pod.
pub(super) fn changed_pod<'a>(
    admission: &'a AdmissionAttributes<'_>,
) -> Option<(&'a Pod, &'a Pod)> {
    let names = &admission.served.definition.names;
    let pods = names.group.is_empty() && names.plural == "pods";
    if !pods || admission.operation != Operation::Update {
        return None;
    }
    let (old, new) = (Pod::view(admission.old?), Pod::view(&admission.object));
    let changes = old.metadata().generation() != new.metadata().generation();
    (changes && new.is_scheduled()).then_some((old, new))
}

/// The node that the pod is scheduled to.
pub(super) fn node(admission: &AdmissionAttributes, pod: &Pod) -> Result<Value, Status> {
    let name = pod.spec().node_name();
    let kind = admission.registry.kind("", "nodes")?;
    match admission.registry.get(&kind, "", name) {
        Ok(node) => Ok(node.object.clone()),
        Err(_) => Err(forbidden(admission, &format!("node {name:?} not found"))),
    }
}

fn check(admission: &AdmissionAttributes) -> Result<(), Status> {
    if !matches!(admission.subresource, "" | "resize") {
        return Ok(());
    }
    let Some((old, new)) = changed_pod(admission) else { return Ok(()) };
    let mut needs = needed(old, new);
    if needs.is_empty() {
        return Ok(());
    }
    let node = node(admission, new)?;
    let node = Node::view(&node);
    needs.retain(|need| !node.status().declared_features().iter().any(|own| own == *need));
    if needs.is_empty() {
        return Ok(());
    }
    let (needs, name) = (needs.join(", "), node.metadata().name());
    let why =
        format!("pod update requires features {needs} which are not available on node {name:?}");
    Err(forbidden(admission, &why))
}

fn needed(old: &Pod, new: &Pod) -> Vec<&'static str> {
    FEATURES.iter().filter(|(_, needed)| needed(old, new)).map(|(name, _)| *name).collect()
}

/// Whether the size of a memory-backed emptyDir changes.
fn memory_changes(old: &Pod, new: &Pod) -> bool {
    let (old, new) = (old.spec().volumes(), new.spec().volumes());
    let size = |tree: &Value| -> Option<Quantity> {
        let dir = tree.get("emptyDir");
        let is_memory = dir.get("medium").as_str() == Some("Memory");
        dir.get("sizeLimit").as_str().filter(|_| is_memory)?.parse().ok()
    };
    old.len() == new.len()
        && old.iter().zip(new.iter()).any(|(old, new)| {
            let same = old.name() == new.name();
            let (before, after) = (size(old.tree()), size(new.tree()));
            same && before.is_some() && after.is_some() && before != after
        })
}

fn forbidden(admission: &AdmissionAttributes, why: &str) -> Status {
    let name = Object::view(&admission.object).metadata().name();
    Status::forbidden(admission.served.subject(name), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_needs_what_it_touches() {
        let spec = |init: &str, size: &str, whole: &str| {
            let text = format!(
                r#"{{"spec":{{"resources":{{"limits":{{"cpu":"{whole}"}}}},
                "initContainers":[{{"name":"i","resources":{{"limits":{{"cpu":"{init}"}}}}}}],
                "volumes":[{{"name":"v","emptyDir":{{"medium":"Memory","sizeLimit":"{size}"}}}}]}}}}"#
            );
            object::from_json(text.as_bytes()).expect("a pod")
        };
        let old = spec("1", "1Gi", "2");
        for (new, wanted) in [
            (spec("1", "1Gi", "2"), None),
            (spec("1", "1024Mi", "2"), None), // the same amount in another notation
            (spec("2", "1Gi", "2"), Some("InPlacePodVerticalScalingInitContainers")),
            (spec("1", "2Gi", "2"), Some("InPlacePodVerticalScalingMemoryBackedVolumes")),
            (spec("1", "1Gi", "3"), Some("InPlacePodLevelResourcesVerticalScaling")),
        ] {
            assert_eq!(needed(Pod::view(&old), Pod::view(&new)), Vec::from_iter(wanted));
        }
    }
}
