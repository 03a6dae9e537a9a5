//! Shorter forms of a pod's status, for an API server that finds it too large.
//!
//! The pod's author decides how long a status is: by the number of containers, their groups, resources and messages.
//! Without a status that can be written, nobody would learn how the pod is, and it could not be deleted.

use api::core::Pod;
use object::{Lens, Value};

const LISTS: [&str; 3] =
    ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
/// Fields of a container's status that say nothing about its state.
const DETAILS: [&str; 6] = [
    "user",
    "volumeMounts",
    "resources",
    "allocatedResources",
    "allocatedResourcesStatus",
    "lastState",
];
/// Maximum number of supplemental groups in the statuses of all containers of a pod. The kernel allows 65,536 for each.
const MOST_GROUPS: usize = 16 << 10;

/// The maximum number of supplemental groups in the status of one container.
pub(crate) fn most_groups(pod: &Pod) -> usize {
    let spec = pod.spec();
    let containers = spec.all_containers().count() + spec.ephemeral_containers().iter().count();
    MOST_GROUPS / containers.max(1)
}

/// The status with nothing but the state of each container, and without messages.
pub(crate) fn without_details(_: &Pod, status: &Value) -> Value {
    let shorten = |container: &Value| {
        let mut container = container.clone();
        for name in DETAILS {
            container.remove(name);
        }
        for state in ["waiting", "terminated"] {
            if !container["state"][state].is_null() {
                container["state"][state].remove("message");
            }
        }
        container
    };
    let mut status = status.clone();
    for list in LISTS {
        if !status[list].is_null() {
            status[list] = status[list].items().iter().map(shorten).collect();
        }
    }
    status
}

/// The status with the containers as the API server knows them.
pub(crate) fn without_containers(pod: &Pod, status: &Value) -> Value {
    let mut status = status.clone();
    for list in LISTS {
        status[list] = pod.status().tree()[list].clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use object::yaml::from_yaml;

    use super::*;

    #[test]
    fn what_is_left_of_a_status() {
        let pod = Pod::from(
            from_yaml("{spec: {containers: [{name: a}, {name: b}]}, status: {containerStatuses: [{name: old}]}}")
                .unwrap(),
        );
        let status = from_yaml(
            "{phase: Running, containerStatuses: [{name: a, ready: true, user: {linux: {uid: 1}}, lastState: {}, \
             state: {waiting: {reason: R, message: long}}}]}",
        )
        .unwrap();
        let short = "{phase: Running, containerStatuses: [{name: a, ready: true, state: {waiting: {reason: R}}}]}";
        assert_eq!(without_details(&pod, &status), from_yaml(short).unwrap());
        let least = without_containers(&pod, &status);
        assert_eq!(least["phase"].as_str(), Some("Running"));
        assert_eq!(least["containerStatuses"].items()[0]["name"].as_str(), Some("old"));
        assert_eq!(most_groups(&pod), 8 << 10);
    }
}
