//! The rules for amounts of resources.

use std::collections::BTreeSet;

use object::{List, Map, Quantity, names};
use schema::{ErrorList, ErrorType, FieldPath};

use super::{ResourceClaim, ResourceRequirements, is_hugepages};
use crate::rules::ValidateField;

/// What a container can ask for without naming a domain.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What is known without a domain.
const STANDARD: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
];

impl ResourceRequirements {
    /// Of a container, if `claims` of its pod are given; else of the overhead of a pod.
    pub(crate) fn check(
        &self,
        claims: Option<&BTreeSet<&str>>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        self.check_amounts(check_container_name, at, errs);
        at.if_present("claims", claims, |claims, at| check_claims(self.claims(), claims, at, errs));
    }

    /// Of a whole pod.
    pub(crate) fn check_of_pod(
        &self,
        claims: &BTreeSet<&str>,
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        self.check_amounts(check_pod_name, at, errs);
        check_claims(self.claims(), claims, &at.field("claims"), errs);
    }

    fn check_amounts(
        &self,
        check_name: fn(&str, &FieldPath, &mut ErrorList),
        at: &FieldPath,
        errs: &mut ErrorList,
    ) {
        let (limits, requests) = (at.field("limits"), at.field("requests"));
        for (name, amount) in self.limits().iter() {
            check_name(name, &limits.key(name), errs);
            check_amount(name, &amount, &limits.key(name), errs);
            check_pages(name, &amount, &limits.key(name), errs);
        }
        for (name, amount) in self.requests().iter() {
            check_name(name, &requests.key(name), errs);
            check_amount(name, &amount, &requests.key(name), errs);
            match self.limits().get(name) {
                Some(limit) if amount != limit && !can_overcommit(name) => {
                    let why = format!("must be equal to {name} limit of {limit}");
                    errs.invalid(&requests, amount.to_string(), why);
                }
                Some(limit) if amount > limit => {
                    let why = format!("must be less than or equal to {name} limit of {limit}");
                    errs.invalid(&requests, amount.to_string(), why);
                }
                None if !can_overcommit(name) => {
                    errs.required(&limits, "Limit must be set for non overcommitable resources");
                }
                _ => {}
            }
            check_pages(name, &amount, &requests.key(name), errs);
        }
        let has = |is: fn(&str) -> bool| {
            let has = |map: &Map<Quantity>| map.iter().any(|(name, _)| is(name));
            has(self.limits()) || has(self.requests())
        };
        if has(is_hugepages) && !has(|name| matches!(name, "cpu" | "memory")) {
            errs.forbidden(at, "HugePages require cpu or memory");
        }
    }
}

/// Whether more of it can be asked for than there is.
pub(crate) fn can_overcommit(name: &str) -> bool {
    is_native(name) && !is_hugepages(name)
}

/// Whether its name has no domain, or one of Kubernetes.
pub(crate) fn is_native(name: &str) -> bool {
    name.split_once('/')
        .is_none_or(|(domain, _)| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

pub(crate) fn is_extended(name: &str) -> bool {
    let request = format!("requests.{name}");
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&request).is_empty()
}

pub(crate) fn check_resource_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    let wrong = names::qualified_name(name);
    if wrong.is_empty() && !name.contains('/') && !is_standard(name) {
        errs.invalid(at, name, "must be a standard resource type or fully qualified");
    }
    errs.invalid_each(at, name, wrong);
}

pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
        || matches!(name, "services.loadbalancers" | "count/")
        || is_hugepages(name)
        || name.starts_with("requests.hugepages-")
}

/// What a container can ask for.
pub(crate) fn check_container_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    check_resource_name(name, at, errs);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_hugepages(name) {
            errs.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errs.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn check_pod_name(name: &str, at: &FieldPath, errs: &mut ErrorList) {
    let before = errs.0.len();
    check_resource_name(name, at, errs);
    if errs.0.len() == before && !super::is_pod_level_resource(name) {
        errs.not_supported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Not less than nothing; whole, where it can only be counted.
pub(crate) fn check_amount(name: &str, amount: &Quantity, at: &FieldPath, errs: &mut ErrorList) {
    if amount.sign() < 0 {
        errs.invalid(at, amount.to_string(), "must be greater than or equal to 0");
    }
    let counted = is_integer(name);
    // What thousandths of it do not fit into a number is whole: upstream counts none at all.
    let thousandths = amount.milli_value();
    if counted && thousandths % 1000 != 0 && thousandths != i64::MAX {
        errs.invalid(at, shown(amount), "must be an integer");
    }
}

fn shown(amount: &Quantity) -> String {
    amount.to_string()
}

fn is_integer(name: &str) -> bool {
    matches!(
        name,
        "pods"
            | "resourcequotas"
            | "services"
            | "replicationcontrollers"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    ) || is_extended(name)
}

fn check_pages(name: &str, amount: &Quantity, at: &FieldPath, errs: &mut ErrorList) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let size = size.parse::<Quantity>().map(|size| size.value()).unwrap_or_default();
    let milli = amount.milli_value();
    let whole = size > 0 && milli % 1000 == 0 && (milli / 1000) % size == 0;
    if !whole {
        let why = format!("{amount} is not positive integer multiple of {name}");
        errs.invalid(at, amount.to_string(), why);
    }
}

fn check_claims(
    claims: &List<ResourceClaim>,
    of_pod: &BTreeSet<&str>,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    let mut unknown = "must be one of the names in pod.spec.resourceClaims".to_owned();
    if of_pod.is_empty() {
        unknown += " which is empty";
    } else {
        let known: Vec<_> = of_pod.iter().copied().collect();
        unknown = format!("{unknown}: {}", known.join(", "));
    }
    for (i, claim) in claims.iter().enumerate() {
        let (at, name, request) = (at.index(i), claim.name(), claim.request());
        if name.is_empty() {
            errs.required(&at, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if !request.is_empty() && !seen.contains(name) {
            errs.label(&at.field("request"), request);
        }
        let inside = format!("{name}/");
        let has_requests = |seen: &BTreeSet<String>| {
            let first = seen.range(inside.clone()..).next();
            !name.contains('/') && first.is_some_and(|first| first.starts_with(&inside))
        };
        if seen.contains(name) {
            errs.duplicate(&at, name);
        } else if seen.contains(&key) {
            errs.duplicate(&at, key.as_str());
        } else if request.is_empty() && has_requests(&seen) {
            errs.duplicate(&at, name);
        }
        seen.insert(key);
        if !of_pod.contains(name) {
            errs.push(ErrorType::NotFound, &at, name.into(), unknown.as_str());
        }
    }
}
