//! NodeRestriction of the Node object: a kubelet registers and updates its own Node, but may not
//! set taints or labels that attract pods to it.

use std::collections::BTreeSet;

use api::core::Node;
use object::{Status, Value, View, quote::quote};
use server::Operation;

use super::KubeletRequest;

/// The labels in the kubernetes.io and k8s.io domains that a kubelet may set on its Node.
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
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Domains whose labels, including those of subdomains, a kubelet may set.
const DOMAINS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The domain whose labels a kubelet may never set.
const RESERVED: &str = "node-restriction.kubernetes.io";

impl KubeletRequest<'_> {
    /// Checks a request for a Node: it must be the kubelet's own.
    pub(super) fn own_node(&self) -> Result<(), Status> {
        let (admission, node) = (self.admission, quote(self.node));
        if admission.name != self.node {
            let other = quote(&admission.name);
            return self.refuse(format!("node {node} is not allowed to modify node {other}"));
        }
        let refusal = match (admission.operation, admission.old) {
            (Operation::Create, _) => registering(&admission.object, &node),
            (Operation::Update, Some(old)) => updating(old, &admission.object, &node),
            _ => None,
        };
        refusal.map_or(Ok(()), |why| self.refuse(why))
    }
}

/// Why the kubelet may not create this Node; `None` if it may.
fn registering(new: &Value, node: &str) -> Option<String> {
    if !new.get("spec").get("configSource").is_null() {
        let why = "is not allowed to create pods with a non-nil configSource";
        return Some(format!("node {node} {why}"));
    }
    let labels = forbidden(None, new);
    (!labels.is_empty())
        .then(|| format!("node {node} is not allowed to set the following labels: {labels}"))
}

/// Why the kubelet may not update the Node like this; `None` if it may.
fn updating(old: &Value, new: &Value, node: &str) -> Option<String> {
    let config = |tree: &Value| tree.get("spec").get("configSource").clone();
    let (before, after) = (Node::view(old), Node::view(new));
    if !config(new).is_null() && config(old) != config(new) {
        let why = "is not allowed to update configSource to a new non-nil configSource";
        return Some(format!("node {node} {why}"));
    } else if before.spec().taints() != after.spec().taints() {
        return Some(format!("node {node} is not allowed to modify taints"));
    } else if before.metadata().owner_references() != after.metadata().owner_references() {
        return Some(format!("node {node} is not allowed to modify ownerReferences"));
    }
    let labels = forbidden(Some(old), new);
    (!labels.is_empty()).then(|| format!("is not allowed to modify labels: {labels}"))
}

/// The changed labels that a kubelet may not set, joined by commas.
fn forbidden(old: Option<&Value>, new: &Value) -> String {
    let labels = |node: &Value| -> BTreeSet<(String, String)> {
        let labels = Node::view(node).metadata().labels();
        labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (old, new) = (old.map(labels).unwrap_or_default(), labels(new));
    let changed: BTreeSet<&str> =
        old.symmetric_difference(&new).map(|(name, _)| name.as_str()).collect();
    let changed: Vec<&str> = changed.into_iter().filter(|name| !allowed(name)).collect();
    changed.join(", ")
}

/// Whether a kubelet may set a label: any outside Kubernetes' own domains, and some within.
fn allowed(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    let is = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    let own = is("kubernetes.io") || is("k8s.io");
    !own || (!is(RESERVED) && (LABELS.contains(&label) || DOMAINS.iter().any(|domain| is(domain))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Value {
        object::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_kubelet_labels_its_node_with_what_it_knows() {
        for label in ["app", "example.com/x", "kubernetes.io/os", "a.kubelet.kubernetes.io/x"] {
            assert!(allowed(label), "{label}");
        }
        for label in [
            "kubernetes.io/nope",
            "node-restriction.kubernetes.io/x",
            "a.node-restriction.kubernetes.io/x",
            "a.k8s.io/x",
            "failure-domain.kubernetes.io/zone",
        ] {
            assert!(!allowed(label), "{label}");
        }
    }

    #[test]
    fn a_kubelet_does_not_steer() {
        let labels = |json: &str| tree(&format!(r#"{{"metadata":{{"labels":{json}}}}}"#));
        let wrong = labels(r#"{"z.k8s.io/x":"1","a.k8s.io/y":"1","app":"1"}"#);
        assert_eq!(
            registering(&wrong, "\"n\"").unwrap(),
            r#"node "n" is not allowed to set the following labels: a.k8s.io/y, z.k8s.io/x"#
        );
        assert_eq!(registering(&labels(r#"{"app":"1"}"#), "\"n\""), None);
        let (none, same) = (labels("{}"), labels(r#"{"a.k8s.io/y":"1"}"#));
        assert_eq!(updating(&same, &same, "\"n\""), None);
        let why = "is not allowed to modify labels: a.k8s.io/y";
        assert_eq!(updating(&same, &none, "\"n\"").unwrap(), why, "taken away");
        assert_eq!(updating(&none, &same, "\"n\"").unwrap(), why, "added");
        for (new, why) in [
            (r#"{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#, "modify taints"),
            (r#"{"spec":{"configSource":{}}}"#, "update configSource"),
            (r#"{"metadata":{"ownerReferences":[{"name":"x"}]}}"#, "modify ownerReferences"),
        ] {
            assert!(updating(&tree("{}"), &tree(new), "\"n\"").unwrap().contains(why), "{new}");
        }
    }
}
