//! What objects take of a quota: both who admits them and who counts them ask here.

mod devices;

use object::{Map, Quantity, Text, Time, Value, View, quantity::Format};

use super::{
    PersistentVolumeClaim, Pod, PodAffinityTerm, ResourceList, ResourceQuotaSpec,
    ScopedResourceSelectorRequirement, Service, WeightedPodAffinityTerm,
    resources::rules::is_extended,
};

pub use self::devices::{add_devices, is_devices};

/// Kinds that were counted by their names alone before all could be.
const BY_NAME: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";

/// The resource whose objects an amount in a quota is about, as `plural` or
/// `plural.group`; `None`: of no known one.
pub fn counted_resource(name: &str) -> Option<&str> {
    if let Some(plural) = name.strip_prefix("count/") {
        return Some(plural);
    }
    if let Some((_, what)) = name.split_once(OF_CLASS) {
        let known = ["persistentvolumeclaims", "requests.storage"];
        return known.contains(&what).then_some("persistentvolumeclaims");
    }
    if is_devices(name) {
        return Some(RESOURCE_CLAIMS);
    }
    let asked = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
    match name {
        "persistentvolumeclaims" | "requests.storage" => Some("persistentvolumeclaims"),
        "services" | "services.nodeports" | "services.loadbalancers" => Some("services"),
        "pods" => Some("pods"),
        _ if BY_NAME.contains(&name) => Some(name),
        _ if matches!(asked, "cpu" | "memory" | "ephemeral-storage") => Some("pods"),
        _ if asked.starts_with("hugepages-") && !name.starts_with("limits.") => Some("pods"),
        _ if name.starts_with("requests.") && is_extended(asked) => Some("pods"),
        _ => None,
    }
}

/// What one object of a resource (`plural` or `plural.group`) takes.
pub fn usage(resource: &str, object: &Value, now: i64) -> ResourceList {
    let mut used = ResourceList::from([(format!("count/{resource}").into(), number(1))]);
    match resource {
        "pods" => of_pod(Pod::view(object), now, &mut used),
        "services" => of_service(Service::view(object), &mut used),
        "persistentvolumeclaims" => of_claim(PersistentVolumeClaim::view(object), &mut used),
        RESOURCE_CLAIMS => add_devices(object, &mut used),
        _ if BY_NAME.contains(&resource) => drop(used.insert(resource.into(), number(1))),
        _ => {}
    }
    used
}

/// Whether the quota is about this object of the resource.
pub fn in_scope(quota: &ResourceQuotaSpec, resource: &str, object: &Value) -> bool {
    let exists = |name| {
        ScopedResourceSelectorRequirement::new().with_scope_name(name).with_operator("Exists")
    };
    let selected = quota.scope_selector().map(super::ScopeSelector::match_expressions);
    let selected = selected.into_iter().flat_map(object::List::iter).cloned();
    let mut all = quota.scopes().iter().map(exists).chain(selected);
    all.all(|scope| match resource {
        "pods" => pod_in(&scope, Pod::view(object)),
        "persistentvolumeclaims" => claim_in(&scope, PersistentVolumeClaim::view(object)),
        _ => false,
    })
}

fn of_pod(pod: &Pod, now: i64, used: &mut ResourceList) {
    let meta = pod.metadata();
    let end = meta.deletion_timestamp().and_then(Time::parse_seconds);
    let grace = meta.deletion_grace_period_seconds();
    let overdue = end.zip(grace).is_some_and(|(end, grace)| end.saturating_add(grace) < now);
    if pod.is_finished() || overdue {
        return;
    }
    used.insert("pods".into(), number(1));
    for (name, amount) in pod.requests() {
        let own = matches!(&*name, "cpu" | "memory" | "ephemeral-storage");
        if own || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount.clone());
        }
        if own || name.starts_with("hugepages-") || is_extended(&name) {
            used.insert(format!("requests.{name}").into(), amount);
        }
    }
    for (name, amount) in pod.limits() {
        if matches!(&*name, "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}").into(), amount);
        }
    }
}

fn of_service(service: &Service, used: &mut ResourceList) {
    let ports = service.spec().ports();
    let balanced = service.spec().type_() == "LoadBalancer";
    let given = ports.iter().filter(|port| port.node_port() != 0).count();
    let on_nodes = match service.spec().type_() {
        "LoadBalancer" if service.spec().allocate_load_balancer_node_ports() == Some(false) => {
            given
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    used.insert("services".into(), number(1));
    used.insert("services.loadbalancers".into(), number(i64::from(balanced)));
    used.insert("services.nodeports".into(), number(object::saturating_i32(on_nodes).into()));
}

fn of_claim(claim: &PersistentVolumeClaim, used: &mut ResourceList) {
    let storage = |map: &Map<Quantity>| map.get("storage");
    let asked = storage(claim.spec().resources().requests()).map(|asked| {
        let given = storage(claim.status().allocated_resources());
        let mut most = given.map_or(asked.clone(), |given| given.max(asked));
        most.round_up(0);
        most
    });
    let class = Some(claim.class()).filter(|class| !class.is_empty());
    let mut put = |name: &str, amount: &Quantity| {
        used.insert(name.into(), amount.clone());
        if let Some(class) = class {
            used.insert(format!("{class}{OF_CLASS}{name}").into(), amount.clone());
        }
    };
    put("persistentvolumeclaims", &number(1));
    if let Some(asked) = asked {
        put("requests.storage", &asked);
    }
}

fn pod_in(scope: &ScopedResourceSelectorRequirement, pod: &Pod) -> bool {
    let ends = pod.spec().active_deadline_seconds().is_some_and(|seconds| seconds >= 0);
    match scope.scope_name() {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => pod.qos_class() == "BestEffort",
        "NotBestEffort" => pod.qos_class() != "BestEffort",
        "PriorityClass" => {
            let class = pod.spec().priority_class_name();
            named(scope, Some(class).filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        _ => false,
    }
}

fn claim_in(scope: &ScopedResourceSelectorRequirement, claim: &PersistentVolumeClaim) -> bool {
    if scope.scope_name() != "VolumeAttributesClass" {
        return false;
    }
    let status = claim.status();
    let target = status.modify_volume_status();
    let names: Vec<&str> = [
        claim.spec().volume_attributes_class_name(),
        status.current_volume_attributes_class_name(),
        target.map(super::ModifyVolumeStatus::target_volume_attributes_class_name),
    ]
    .into_iter()
    .flatten()
    .filter(|name| !name.is_empty())
    .collect();
    names.is_empty() && named(scope, None) || names.iter().any(|name| named(scope, Some(name)))
}

/// Whether a name is one that the scope selects.
fn named(scope: &ScopedResourceSelectorRequirement, name: Option<&str>) -> bool {
    let listed = |name: &str| scope.values().iter().any(|value| value == name);
    match scope.operator() {
        "In" => name.is_some_and(listed),
        "NotIn" => !name.is_some_and(listed),
        "Exists" => name.is_some(),
        "DoesNotExist" => name.is_none(),
        _ => false,
    }
}

fn crosses_namespaces(pod: &Pod) -> bool {
    let crosses = |term: &PodAffinityTerm| {
        !term.namespaces().is_empty() || term.namespace_selector().is_some()
    };
    let weighted = |term: &WeightedPodAffinityTerm| crosses(term.pod_affinity_term());
    let Some(affinity) = pod.spec().affinity() else { return false };
    let near = affinity.pod_affinity().is_some_and(|near| {
        near.required_during_scheduling_ignored_during_execution().iter().any(crosses)
            || near.preferred_during_scheduling_ignored_during_execution().iter().any(weighted)
    });
    let far = affinity.pod_anti_affinity().is_some_and(|far| {
        far.required_during_scheduling_ignored_during_execution().iter().any(crosses)
            || far.preferred_during_scheduling_ignored_during_execution().iter().any(weighted)
    });
    near || far
}

fn number(n: i64) -> Quantity {
    Quantity::new(n, Format::DecimalSi)
}

/// The amounts of `more`, added up.
pub fn add(sum: &mut ResourceList, more: ResourceList) {
    for (name, amount) in more {
        *sum.entry(Text::clone(&name)).or_default() += &amount;
    }
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    fn tree(text: &str) -> Value {
        from_json(text.as_bytes()).unwrap()
    }

    fn shown(resource: &str, text: &str) -> String {
        let used = usage(resource, &tree(text), 100);
        let used = used.iter().map(|(name, amount)| format!("{name}={amount}"));
        used.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_kind_takes_its_own() {
        let pod = r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","x.io/gpu":"2"},
            "limits":{"memory":"1Gi"}}}]}}"#;
        assert_eq!(
            shown("pods", pod),
            "count/pods=1 cpu=1 limits.memory=1Gi pods=1 requests.cpu=1 requests.x.io/gpu=2"
        );
        assert_eq!(shown("pods", r#"{"status":{"phase":"Failed"}}"#), "count/pods=1");
        let balanced = r#"{"spec":{"type":"LoadBalancer","ports":[{"port":1},{"port":2}]}}"#;
        assert_eq!(
            shown("services", balanced),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"
        );
        let claim =
            r#"{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"5Gi"}}}}"#;
        assert!(shown("persistentvolumeclaims", claim).contains("/requests.storage=5Gi"));
        assert_eq!(shown("secrets", "{}"), "count/secrets=1 secrets=1");
        assert_eq!(shown("deployments.apps", "{}"), "count/deployments.apps=1");
    }

    #[test]
    fn amounts_are_about_kinds() {
        for (name, expected) in [
            ("count/jobs.batch", Some("jobs.batch")),
            ("limits.memory", Some("pods")),
            ("requests.x.io/gpu", Some("pods")),
            ("requests.storage", Some("persistentvolumeclaims")),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some("persistentvolumeclaims")),
            ("secrets", Some("secrets")),
            ("x.io/gpu", None),
            ("widgets", None),
        ] {
            assert_eq!(counted_resource(name), expected, "{name}");
        }
    }

    #[test]
    fn scopes_select_pods() {
        let quota = |text: &str| ResourceQuotaSpec::from(tree(text));
        let best = tree(r#"{"spec":{"containers":[{"name":"c"}],"priorityClassName":"high"}}"#);
        let long = tree(r#"{"spec":{"activeDeadlineSeconds":5}}"#);
        let about = |text: &str, pod: &Value| in_scope(&quota(text), "pods", pod);
        assert!(about("{}", &best));
        assert!(about(r#"{"scopes":["BestEffort","NotTerminating"]}"#, &best));
        assert!(!about(r#"{"scopes":["NotTerminating"]}"#, &long));
        let class = |operator: &str| {
            format!(
                r#"{{"scopeSelector":{{"matchExpressions":[{{"scopeName":"PriorityClass",
                "operator":"{operator}","values":["high"]}}]}}}}"#
            )
        };
        assert!(about(&class("In"), &best) && !about(&class("NotIn"), &best));
        assert!(!about(&class("In"), &long) && about(&class("NotIn"), &long));
        assert!(!in_scope(&quota(r#"{"scopes":["BestEffort"]}"#), "services", &best));
    }
}
