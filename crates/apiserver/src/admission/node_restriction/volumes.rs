//! NodeRestriction of PersistentVolumeClaims: a kubelet may report in the status that it has
//! expanded a volume, and change nothing else.

use object::{Status, Value, quote::quote};
use server::Operation;

use super::KubeletRequest;

impl KubeletRequest<'_> {
    /// Checks an update of a claim's status.
    pub(super) fn claim_status(&self) -> Result<(), Status> {
        let (Operation::Update, Some(old)) = (self.admission.operation, self.admission.old) else {
            return self.unexpected();
        };
        let recovers = self.plugin.gates.is_enabled("RecoverVolumeExpansionFailure");
        let (old, new) = (rest(old, recovers), rest(&self.admission.object, recovers));
        if old == new {
            return Ok(());
        }
        self.refuse(format!(
            "node {} is not allowed to update fields other than status.quantity and \
             status.conditions: {}",
            quote(self.node),
            difference(&old, &new)
        ))
    }
}

/// The claim without the fields that a kubelet may change.
fn rest(claim: &Value, recovers: bool) -> Value {
    let mut rest = claim.clone();
    let mut drop = |part: &str, fields: &[&str]| {
        let mut tree = rest.get(part).clone();
        fields.iter().for_each(|field| tree.remove(field));
        rest.remove(part);
        if !tree.is_zero() {
            rest[part] = tree;
        }
    };
    drop("metadata", &["resourceVersion", "managedFields"]);
    drop("status", &["capacity", "conditions"]);
    if recovers {
        drop("status", &["allocatedResourceStatuses", "allocatedResources"]);
    }
    rest
}

/// The fields that differ, formatted like a diff.
fn difference(old: &Value, new: &Value) -> String {
    let mut lines = String::from("@@ -1 +1 @@\n");
    for part in ["metadata", "spec", "status"] {
        for (sign, here, there) in [("- ", old, new), ("+ ", new, old)] {
            for (name, value) in here.get(part).entries() {
                if there.get(part).get(name) != value {
                    let json = object::to_json(value);
                    let line = [sign, part, ".", name, ": ", &String::from_utf8_lossy(&json), "\n"];
                    lines.push_str(&line.concat());
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_size_is_the_kubelets_to_tell() {
        let tree = |json: &str| object::from_json(json.as_bytes()).unwrap();
        let old = tree(r#"{"metadata":{"name":"c"},"status":{"phase":"Bound"}}"#);
        let same = |json: &str, recovers| rest(&old, recovers) == rest(&tree(json), recovers);
        let grown = r#"{"metadata":{"name":"c","resourceVersion":"5"},"status":{"phase":"Bound",
            "capacity":{"storage":"2Gi"},"conditions":[{"type":"Resizing"}]}}"#;
        assert!(same(grown, false));
        let half = r#"{"metadata":{"name":"c"},"status":{"phase":"Bound","allocatedResources":{"storage":"2Gi"}}}"#;
        assert!(same(half, true) && !same(half, false));
        let lost = r#"{"metadata":{"name":"c","labels":{"a":"b"}},"status":{"phase":"Lost"}}"#;
        assert!(!same(lost, true));
        assert_eq!(
            difference(&old, &tree(lost)),
            "@@ -1 +1 @@\n+ metadata.labels: {\"a\":\"b\"}\n- status.phase: \"Bound\"\n+ status.phase: \"Lost\"\n"
        );
    }
}
