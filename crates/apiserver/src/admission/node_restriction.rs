//! NodeRestriction: a kubelet changes its own node and its own pods, no others.

use api::core::{Node, Pod};
use object::{Status, View};
use server::{Admission, Admit, Admitting, Operation};

use crate::authz::node_of;

const MIRROR: &str = "kubernetes.io/config.mirror";
/// The labels of Kubernetes itself that a kubelet may put on its node.
const LABELS: &[&str] = &[
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Everything below these is the kubelet's as well.
const DOMAINS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

#[derive(Debug)]
pub(super) struct NodeRestriction;

impl Admit for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let decided = decide(admission);
        Box::pin(async move { decided })
    }
}

fn decide(admission: &Admission) -> Result<(), Status> {
    if !admission.user.is_in("system:nodes") {
        return Ok(());
    }
    let names = &admission.served.definition.names;
    let Some(node) = node_of(admission.user) else {
        return Err(admission.forbid("could not determine node from user"));
    };
    match (names.group, names.plural) {
        ("", "pods") => pod(admission, node),
        ("", "nodes") => own_node(admission, node),
        ("coordination.k8s.io", "leases") | ("storage.k8s.io", "csinodes") => {
            if admission.name == node {
                return Ok(());
            }
            Err(admission.forbid(if names.plural == "leases" {
                "can only access node lease with the same name as the requesting node"
            } else {
                "can only access CSINode with the same name as the requesting node"
            }))
        }
        _ => Ok(()),
    }
}

fn pod(admission: &Admission, node: &str) -> Result<(), Status> {
    let own = |pod: &Pod| pod.spec().node_name() == node;
    match (admission.operation, admission.old) {
        (Operation::Create, _) => {
            let pod = Pod::view(&admission.object);
            if pod.metadata().annotations().get(MIRROR).is_none() {
                return Err(admission
                    .forbid(&format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods")));
            } else if !own(pod) {
                return Err(admission.forbid(&format!(
                    "node {node:?} can only create pods with spec.nodeName set to itself"
                )));
            }
            Ok(())
        }
        (Operation::Update, Some(old))
            if admission.subresource == "status" && own(Pod::view(old)) =>
        {
            Ok(())
        }
        (Operation::Update, _) => Err(admission.forbid(&format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ))),
        (Operation::Delete, Some(old)) if own(Pod::view(old)) => Ok(()),
        (Operation::Delete, _) => Err(admission.forbid(&format!(
            "node {node:?} can only delete pods with spec.nodeName set to itself"
        ))),
        (Operation::Connect, _) => Ok(()),
    }
}

fn own_node(admission: &Admission, node: &str) -> Result<(), Status> {
    if admission.name != node {
        return Err(admission
            .forbid(&format!("node {node:?} is not allowed to modify node {:?}", admission.name)));
    }
    if admission.operation == Operation::Delete {
        return Ok(());
    }
    let new = Node::view(&admission.object);
    let label = |node: &Node, name: &str| node.metadata().labels().get(name).map(str::to_owned);
    let changed = new.metadata().labels().iter().filter(|(name, value)| {
        let before = admission.old.and_then(|old| label(Node::view(old), name));
        before.as_deref() != Some(*value)
    });
    let forbidden: Vec<&str> =
        changed.map(|(name, _)| name).filter(|name| !allowed(name)).collect();
    if !forbidden.is_empty() {
        return Err(admission.forbid(&format!(
            "node {node:?} is not allowed to set the following labels: {}",
            forbidden.join(", ")
        )));
    }
    if let (Operation::Update, Some(old)) = (admission.operation, admission.old)
        && Node::view(old).spec().taints() != new.spec().taints()
    {
        return Err(admission.forbid(&format!("node {node:?} is not allowed to modify taints")));
    }
    Ok(())
}

/// Whether a kubelet may set a label: any that is not Kubernetes's own, and some that are.
fn allowed(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    let is = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    let own = is("kubernetes.io") || is("k8s.io");
    !own || LABELS.contains(&label) || DOMAINS.iter().any(|domain| is(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_labels_its_node_with_what_it_knows() {
        for label in ["app", "example.com/x", "kubernetes.io/os", "a.kubelet.kubernetes.io/x"] {
            assert!(allowed(label), "{label}");
        }
        for label in ["kubernetes.io/nope", "node-restriction.kubernetes.io/x", "a.k8s.io/x"] {
            assert!(!allowed(label), "{label}");
        }
    }
}
