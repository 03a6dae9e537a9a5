//! In-place pod resize: new resources are granted if the node has them, deferred if it does not have them now, and
//! infeasible if it never will.

use api::core::Pod;
use object::{Lens, Quantity, Value, to_json};

use crate::admission::{AdmissionContext, insufficient_resources};

/// Why a resize is not granted: reason and message.
pub(crate) type PendingReason = (String, String);

/// Whether the node has the resources that the pod now requests.
pub(crate) fn check_fit(pod: &Pod, place: &AdmissionContext<'_>) -> Result<(), PendingReason> {
    for (resource, amount) in pod.requests() {
        let Some(whole) = place.allocatable.get(&*resource) else { continue };
        let measure = |amount: &Quantity| {
            if resource == "cpu" { amount.milli_value() } else { amount.value() }
        };
        let (requested, capacity) = (measure(&amount), measure(whole));
        if requested > capacity {
            let message = format!(
                "Node didn't have enough capacity: {resource}, requested: {requested}, capacity: {capacity}"
            );
            return Err(("Infeasible".into(), message));
        }
    }
    match insufficient_resources(pod, place).into_iter().next() {
        Some(short) => Err(("Deferred".into(), short.to_string())),
        None => Ok(()),
    }
}

/// The message of resize events, with the pod's resources as JSON.
pub(crate) fn event_message(pod: &Pod, what: &str, error: Option<&str>) -> String {
    let mut summary = Value::object();
    for (name, list) in
        [("initContainers", pod.spec().init_containers()), ("containers", pod.spec().containers())]
    {
        let amounts = list.iter().map(|container| {
            let mut entry = Value::object();
            entry["name"] = container.name().into();
            entry["resources"] = container.resources().tree().clone();
            entry
        });
        let amounts: Value = amounts.collect();
        if !amounts.items().is_empty() {
            summary[name] = amounts;
        }
    }
    summary["generation"] = pod.metadata().generation().into();
    if let Some(error) = error {
        summary["error"] = error.into();
    }
    let summary = String::from_utf8_lossy(&to_json(&summary)).into_owned();
    format!("Pod resize {what}: {summary}")
}

/// Whether `pod` has the same resources as `before`, the allocated ones.
pub(crate) fn matches_allocated(pod: &Pod, before: &Pod) -> bool {
    amounts(pod).eq(amounts(before)) && pod.spec().resources() == before.spec().resources()
}

/// `pod` with the allocated resources of `before`.
pub(crate) fn with_allocated_resources(pod: &Pod, before: &Pod) -> Pod {
    if matches_allocated(pod, before) {
        return pod.clone();
    }
    let mut tree = pod.tree().clone();
    for list in ["initContainers", "containers"] {
        let containers = tree["spec"][list].items().to_vec();
        if containers.is_empty() {
            continue;
        }
        let with = |mut container: Value| {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            if let Some((_, amounts)) = amounts(before).find(|(known, _)| *known == name) {
                container["resources"] = amounts.clone();
            }
            container
        };
        tree["spec"][list] = containers.into_iter().map(with).collect();
    }
    match before.spec().resources() {
        Some(whole) => tree["spec"]["resources"] = whole.tree().clone(),
        None => tree["spec"].remove("resources"),
    }
    Pod::from(tree)
}

fn amounts(pod: &Pod) -> impl Iterator<Item = (&str, &Value)> {
    pod.spec().all_containers().map(|one| (one.name(), one.resources().tree()))
}

#[cfg(test)]
mod tests {
    use api::core::Node;
    use object::{quantity::Format, yaml::from_yaml};

    use super::*;

    fn pod(cpu: &str) -> Pod {
        let text = format!(
            "{{metadata: {{name: p}}, spec: {{containers: [{{name: a, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}"
        );
        Pod::from(from_yaml(&text).unwrap())
    }

    #[test]
    fn granted_now_later_or_never() {
        let node = Node::from(from_yaml("{metadata: {name: n}}").unwrap());
        let amount = |n| Quantity::new(n, Format::DecimalSi);
        let allocatable = [("cpu".to_owned(), amount(2)), ("pods".to_owned(), amount(9))].into();
        let others = [pod("1")];
        let place = AdmissionContext {
            node: &node,
            allocatable: &allocatable,
            admitted_pods: &others,
            pressure: &[],
            sysctls: &crate::sysctl::Allowlist::default(),
        };
        check_fit(&pod("1"), &place).unwrap();
        let (reason, message) = check_fit(&pod("1500m"), &place).unwrap_err();
        assert_eq!(reason, "Deferred");
        assert!(message.ends_with("cpu, requested: 1500, used: 1000, capacity: 2000"), "{message}");
        let (reason, message) = check_fit(&pod("3"), &place).unwrap_err();
        assert_eq!(reason, "Infeasible");
        let want = "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000";
        assert_eq!(message, want);
    }

    #[test]
    fn what_is_not_granted_stays_as_it_was() {
        let (before, now) = (pod("1"), pod("2"));
        assert!(!matches_allocated(&now, &before));
        let got = with_allocated_resources(&now, &before);
        assert!(matches_allocated(&got, &before));
        assert_eq!(got.spec().containers().iter().next().unwrap().image(), "i");
    }
}
