//! Quota usage of an object.

use std::collections::{BTreeMap, BTreeSet};

use api::core::{
    PersistentVolumeClaim, Pod, Service,
    usage::{add_devices, is_devices},
};
use object::{Quantity, Text, Time, Value, View, quantity::Format};
use server::{AdmissionAttributes, Operation};

/// Quantities by quota resource name.
pub(super) type ResourceList = BTreeMap<Text, Quantity>;

const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Compute resources that every container must specify if a quota counts them.
const COMPUTE: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether this write can change the usage.
pub(super) fn affects_quota(admission: &AdmissionAttributes) -> bool {
    let names = &admission.served.definition.names;
    let create = admission.operation == Operation::Create;
    match (names.group, names.plural, admission.subresource) {
        ("", "pods", "resize")
        | ("", "services" | "persistentvolumeclaims", "")
        | ("resource.k8s.io", "resourceclaims", "") => true,
        // The pod may move to another scope (Terminating).
        ("", "pods", "") if !create => admission.old.is_some_and(|old| {
            let ends = |pod: &Value| pod.get("spec").get("activeDeadlineSeconds").is_null();
            ends(old) != ends(&admission.object)
        }),
        ("", "persistentvolumeclaims", "status") => {
            let allocated = |claim: &Value| claim.get("status").get("allocatedResources").clone();
            admission.old.is_some_and(|old| allocated(old) != allocated(&admission.object))
        }
        (_, _, "") => create,
        _ => false,
    }
}

/// The resource names of a quota that objects of this kind consume.
pub(super) fn matching(admission: &AdmissionAttributes, hard: &[Text]) -> BTreeSet<Text> {
    let count = count_name(admission);
    let names = &admission.served.definition.names;
    let is = |name: &Text| -> bool {
        if *name == count {
            return true;
        }
        match (names.group, names.plural) {
            ("", "pods") => of_pods(name),
            ("", "services") => {
                matches!(&**name, "services" | "services.nodeports" | "services.loadbalancers")
            }
            ("", "persistentvolumeclaims") => {
                let plain =
                    |name: &str| matches!(name, "persistentvolumeclaims" | "requests.storage");
                plain(name) || name.split_once(BY_CLASS).is_some_and(|(_, rest)| plain(rest))
            }
            ("", "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
                *name == names.plural
            }
            ("resource.k8s.io", "resourceclaims") => is_devices(name),
            _ => false,
        }
    };
    hard.iter().filter(|name| is(name)).cloned().collect()
}

fn of_pods(name: &str) -> bool {
    let plain = matches!(
        name,
        "pods"
            | "cpu"
            | "memory"
            | "ephemeral-storage"
            | "requests.cpu"
            | "requests.memory"
            | "requests.ephemeral-storage"
            | "limits.cpu"
            | "limits.memory"
            | "limits.ephemeral-storage"
    );
    let rest = name.strip_prefix("requests.");
    plain
        || name.starts_with("hugepages-")
        || rest.is_some_and(|rest| rest.starts_with("hugepages-") || is_extended(rest))
}

/// Whether a resource name is that of an extended resource.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn count_name(admission: &AdmissionAttributes) -> Text {
    let names = &admission.served.definition.names;
    match names.group {
        "" => format!("count/{}", names.plural),
        group => format!("count/{}.{group}", names.plural),
    }
    .into()
}

/// Checks that every container specifies the compute resources that the quota counts.
pub(super) fn check_required_resources(
    admission: &AdmissionAttributes,
    mine: &BTreeSet<Text>,
) -> Result<(), String> {
    let names = &admission.served.definition.names;
    let spec = Pod::view(&admission.object).spec();
    let whole = spec
        .resources()
        .is_some_and(|whole| !(whole.requests().is_empty() && whole.limits().is_empty()));
    if (names.group, names.plural) != ("", "pods") || whole {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.all_containers() {
        let resources = container.resources();
        for name in COMPUTE.iter().filter(|name| mine.iter().any(|own| own == *name)) {
            let said = match name.strip_prefix("limits.") {
                Some(rest) => resources.limits().get(rest),
                None => resources.requests().get(name.trim_start_matches("requests.")),
            };
            if said.is_none() {
                missing.entry(name).or_default().insert(container.name());
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let each = missing.iter().map(|(resource, names)| {
        let names = names.iter().copied().collect::<Vec<_>>().join(",");
        format!("{resource} for: {names}")
    });
    Err(format!("must specify {}", each.collect::<Vec<_>>().join("; ")))
}

/// The usage of an object, by quota resource name.
pub(super) fn usage(admission: &AdmissionAttributes, object: &Value, now: i64) -> ResourceList {
    let names = &admission.served.definition.names;
    let mut used = ResourceList::new();
    used.insert(count_name(admission), number(1));
    match (names.group, names.plural) {
        ("", "pods") => pod(Pod::view(object), now, &mut used),
        ("", "services") => service(Service::view(object), &mut used),
        ("", "persistentvolumeclaims") => claim(PersistentVolumeClaim::view(object), &mut used),
        ("resource.k8s.io", "resourceclaims") => add_devices(object, &mut used),
        ("", plural) => {
            used.insert(plural.into(), number(1));
        }
        _ => {}
    }
    used
}

fn number(n: usize) -> Quantity {
    Quantity::new(i64::try_from(n).unwrap_or(i64::MAX), Format::DecimalSi)
}

/// Adds the usage of a pod. A pod that has finished, or whose deletion grace period has passed,
/// counts only as an object.
fn pod(pod: &Pod, now: i64, used: &mut ResourceList) {
    let meta = pod.metadata();
    let late = meta.deletion_timestamp().and_then(Time::parse_seconds).is_some_and(|moment| {
        now > moment.saturating_add(meta.deletion_grace_period_seconds().unwrap_or_default())
    });
    if pod.is_finished() || late {
        return;
    }
    used.insert("pods".into(), number(1));
    for (name, amount) in pod.requests() {
        match &*name {
            "cpu" | "memory" | "ephemeral-storage" => {
                used.insert(format!("requests.{name}").into(), amount.clone());
                used.insert(name, amount);
            }
            other if other.starts_with("hugepages-") => {
                used.insert(format!("requests.{name}").into(), amount.clone());
                used.insert(name, amount);
            }
            other if is_extended(other) => {
                used.insert(format!("requests.{name}").into(), amount);
            }
            _ => {}
        }
    }
    for (name, amount) in pod.limits() {
        if matches!(&*name, "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}").into(), amount);
        }
    }
}

fn service(service: &Service, used: &mut ResourceList) {
    let spec = service.spec();
    let ports = spec.ports().len();
    let (balancers, nodes) = match spec.type_() {
        "NodePort" => (0, ports),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports() == Some(false) => {
            (1, spec.ports().iter().filter(|port| port.node_port() != 0).count())
        }
        "LoadBalancer" => (1, ports),
        _ => (0, 0),
    };
    used.insert("services".into(), number(1));
    used.insert("services.loadbalancers".into(), number(balancers));
    used.insert("services.nodeports".into(), number(nodes));
}

fn claim(claim: &PersistentVolumeClaim, used: &mut ResourceList) {
    let annotated = claim.metadata().annotations().get("volume.beta.kubernetes.io/storage-class");
    let class = annotated.or(claim.spec().storage_class_name()).unwrap_or_default();
    let asked = claim.spec().resources().requests().get("storage");
    let given = claim.status().allocated_resources().get("storage");
    let size = asked.map(|asked| given.map_or(asked.clone(), |given| given.max(asked)));
    let size = size.map(|mut size| {
        size.round_up(0);
        size
    });
    let mut add = |name: &str, amount: Quantity| {
        if !class.is_empty() {
            used.insert(format!("{class}{BY_CLASS}{name}").into(), amount.clone());
        }
        used.insert(name.into(), amount);
    };
    add("persistentvolumeclaims", number(1));
    if let Some(size) = size {
        add("requests.storage", size);
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn names_that_pods_use() {
        for name in ["pods", "cpu", "limits.memory", "requests.example.com/gpu", "hugepages-2Mi"] {
            assert!(of_pods(name), "{name}");
        }
        for name in ["services", "requests.storage", "example.com/gpu", "count/pods"] {
            assert!(!of_pods(name), "{name}");
        }
    }

    #[test]
    fn a_claim_counts_in_its_class_too() {
        let claim_tree = from_json(
            br#"{"spec":{"storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}}}"#,
        )
        .unwrap();
        let mut used = ResourceList::new();
        claim(PersistentVolumeClaim::view(&claim_tree), &mut used);
        let names: Vec<&str> = used.keys().map(Text::as_str).collect();
        assert_eq!(
            names,
            [
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
                "fast.storageclass.storage.k8s.io/requests.storage",
                "persistentvolumeclaims",
                "requests.storage"
            ]
        );
    }
}
