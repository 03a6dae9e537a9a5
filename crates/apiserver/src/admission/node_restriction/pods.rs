//! NodeRestriction of pods: a kubelet may create mirror pods of its static pods, and update the
//! status of, evict and delete its own pods.

use api::core::Pod;
use object::{Status, Value, View, quote::quote};
use server::Operation;

use super::{super::pod_references, KubeletRequest, MIRROR, is_mirror, uid};

impl KubeletRequest<'_> {
    /// Checks a request for a pod or its subresource `part`.
    pub(super) fn pod(&self, part: &str) -> Result<(), Status> {
        let (admission, node) = (self.admission, quote(self.node));
        match (part, admission.operation, admission.old) {
            ("", Operation::Create, _) => self.mirror(),
            ("", Operation::Delete, Some(old)) => self.require_own_pod(
                old,
                &format!("node {node} can only delete pods with spec.nodeName set to itself"),
            ),
            ("", ..) => self.refuse(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                quote(self.operation)
            )),
            ("status", Operation::Update, Some(old)) => {
                self.require_own_pod(
                    old,
                    &format!(
                        "node {node} can only update pod status for pods with spec.nodeName set to itself"
                    ),
                )?;
                match touched(old, &admission.object) {
                    Some(what) => self.refuse(format!("node {node} cannot update {what}")),
                    None => Ok(()),
                }
            }
            ("status", ..) => self.unexpected(),
            ("eviction", Operation::Create, _) => {
                let pod = self.get("pod", &admission.namespace, &admission.name)?;
                let why = "can only evict pods with spec.nodeName set to itself";
                self.require_own_pod(&pod.object, &format!("node {} {why}", self.node))
            }
            ("eviction", ..) => self.refuse(format!("unexpected operation {}", self.operation)),
            (other, ..) => self.refuse(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )),
        }
    }

    /// Checks a mirror pod: it belongs to this node and refers to no other API object.
    fn mirror(&self) -> Result<(), Status> {
        let pod = &self.admission.object;
        if let Err(why) = mirrors(pod, self.node) {
            return self.refuse(why);
        }
        let owner = Pod::view(pod).metadata().owner_references().iter().next();
        let (claimed, node) = (owner.map_or("", |own| own.uid()), self.get("node", "", self.node)?);
        let real = uid(&node.object);
        if claimed != real {
            let node = self.node;
            return self.refuse(format!("node {node} UID mismatch: expected {claimed} got {real}"));
        }
        match pod_references::first_api_reference(pod) {
            Err(why) => self.refuse(format!("error checking mirror pod for API references: {why}")),
            Ok(Some(what)) => {
                let node = quote(self.node);
                self.refuse(format!("node {node} can not create pods that reference {what}"))
            }
            Ok(None) => Ok(()),
        }
    }
}

/// Checks that the pod is a mirror pod, bound to and owned by the node.
fn mirrors(pod: &Value, name: &str) -> Result<(), String> {
    let node = quote(name);
    let mirrors = is_mirror(pod);
    let pod = Pod::view(pod);
    let creates = |what: &str| Err(format!("node {node} can only create pods with {what}"));
    if !mirrors {
        return Err(format!(
            "pod does not have {MIRROR:?} annotation, node {node} can only create mirror pods"
        ));
    } else if pod.spec().node_name() != name {
        return creates("spec.nodeName set to itself");
    }
    let mut owners = pod.metadata().owner_references().iter();
    match (owners.next(), owners.next()) {
        (_, Some(_)) => creates("a single owner reference set to itself"),
        (None, _) => creates("an owner reference set to itself"),
        (Some(own), _) if (own.api_version(), own.kind(), own.name()) != ("v1", "Node", name) => {
            creates("an owner reference set to itself")
        }
        (Some(own), _) if own.controller() != Some(true) => {
            creates("a controller owner reference set to itself")
        }
        (Some(own), _) if own.block_owner_deletion() == Some(true) => {
            Err(format!("node {node} must not set blockOwnerDeletion on an owner reference"))
        }
        _ => Ok(()),
    }
}

/// The first field that a status update changes though a kubelet may not change it.
fn touched(old: &Value, new: &Value) -> Option<&'static str> {
    let (before, after) = (Pod::view(old), Pod::view(new));
    if before.metadata().labels() != after.metadata().labels() {
        return Some("labels through pod status");
    }
    let (before, after) = (before.status(), after.status());
    if before.resource_claim_statuses() != after.resource_claim_statuses() {
        return Some("resource claim statues");
    } else if before.extended_resource_claim_status() != after.extended_resource_claim_status() {
        return Some("extended resource claim status");
    }
    let claims =
        |status: &api::core::PodStatus| status.node_allocatable_resource_claim_statuses().clone();
    (claims(before) != claims(after)).then_some("node allocatable resource claim statuses")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Value {
        object::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_mirror_pod_belongs_to_its_node_alone() {
        let mirror = r#""annotations":{"kubernetes.io/config.mirror":"x"}"#;
        let owner =
            |rest: &str| format!(r#"{{"apiVersion":"v1","kind":"Node","name":"n1"{rest}}}"#);
        let own = owner(r#","controller":true"#);
        let pod = |annotations: &str, node: &str, owners: &[&str]| {
            let owners = owners.join(",");
            tree(&format!(
                r#"{{"metadata":{{"ownerReferences":[{owners}],{annotations}}},"spec":{{"nodeName":"{node}"}}}}"#
            ))
        };
        let other = own.replace("Node", "Pod");
        let blocking = owner(r#","controller":true,"blockOwnerDeletion":true"#);
        let cases = [
            (pod(r#""annotations":{}"#, "n1", &[&own]), "can only create mirror pods"),
            (pod(mirror, "n2", &[&own]), "spec.nodeName set to itself"),
            (pod(mirror, "n1", &[]), "with an owner reference set to itself"),
            (pod(mirror, "n1", &[&own, &own]), "with a single owner reference set to itself"),
            (pod(mirror, "n1", &[&other]), "with an owner reference set to itself"),
            (pod(mirror, "n1", &[&owner("")]), "with a controller owner reference set to itself"),
            (pod(mirror, "n1", &[&blocking]), "must not set blockOwnerDeletion"),
        ];
        for (pod, why) in cases {
            let refused = mirrors(&pod, "n1").unwrap_err();
            assert!(refused.contains(why), "{refused}: {why}");
        }
        assert_eq!(mirrors(&pod(mirror, "n1", &[&own]), "n1"), Ok(()));
    }

    #[test]
    fn a_status_leaves_labels_and_claims_alone() {
        let old = tree(r#"{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Pending"}}"#);
        for (new, what) in [
            (r#"{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Running"}}"#, None),
            (r#"{"metadata":{"labels":{"a":"c"}}}"#, Some("labels through pod status")),
            (
                r#"{"metadata":{"labels":{"a":"b"}},"status":{"resourceClaimStatuses":[{"name":"x"}]}}"#,
                Some("resource claim statues"),
            ),
            (
                r#"{"metadata":{"labels":{"a":"b"}},"status":{"extendedResourceClaimStatus":{"resourceClaimName":"x"}}}"#,
                Some("extended resource claim status"),
            ),
            (
                r#"{"metadata":{"labels":{"a":"b"}},"status":{"nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"x"}]}}"#,
                Some("node allocatable resource claim statuses"),
            ),
        ] {
            assert_eq!(touched(&old, &tree(new)), what, "{new}");
        }
    }
}
