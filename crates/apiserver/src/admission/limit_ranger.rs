//! The LimitRanger admission plugin: applies the defaults of a namespace's LimitRanges, and
//! enforces their minimum, maximum and limit-to-request ratio.

use std::collections::BTreeMap;

use api::core::{LimitRange, LimitRangeItem, Pod};
use object::{Map, Quantity, Status, Text, Value, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::{aggregate, all};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Quantities by resource name.
type ResourceList = BTreeMap<Text, Quantity>;

#[derive(Debug)]
pub(super) struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = mutate(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = validate(admission);
        Box::pin(async move { done })
    }
}

/// Whether limits apply: to the creation and the resize of a pod, and to the creation and update of
/// a claim.
fn applies(admission: &AdmissionAttributes) -> bool {
    let names = &admission.served.definition.names;
    let going =
        admission.old.is_some_and(|old| object::Object::view(old).metadata().is_terminating());
    let sized = matches!(
        (names.plural, admission.subresource, admission.operation),
        ("pods", "resize", Operation::Update)
            | ("pods", "", Operation::Create)
            | ("persistentvolumeclaims", "", Operation::Create | Operation::Update)
    );
    names.group.is_empty() && sized && !going
}

fn mutate(admission: &mut AdmissionAttributes) -> Result<(), Status> {
    if !applies(admission) || admission.served.definition.names.plural != "pods" {
        return Ok(());
    }
    for range in all(admission, "", "limitranges", &admission.namespace)? {
        let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
        for item in LimitRange::view(&range.object).spec().limits().iter() {
            if item.type_() == "Container" {
                requests.extend(amounts(item.default_request()));
                limits.extend(amounts(item.default()));
            }
        }
        apply_default_resources(&mut admission.object, &requests, &limits);
    }
    Ok(())
}

fn amounts(map: &Map<Quantity>) -> ResourceList {
    map.iter().map(|(name, amount)| (name.into(), amount)).collect()
}

/// Sets the default requests and limits that a container lacks, and records that in an annotation.
fn apply_default_resources(pod: &mut Value, requests: &ResourceList, limits: &ResourceList) {
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let filled: Vec<Value> = pod
            .get("spec")
            .get(list)
            .items()
            .iter()
            .cloned()
            .map(|mut container| {
                let name = container.get("name").as_str().unwrap_or_default().to_owned();
                for (part, word, amounts) in
                    [("requests", "request", requests), ("limits", "limit", limits)]
                {
                    let set = add(&mut container, part, amounts);
                    if !set.is_empty() {
                        notes.push(format!("{} {word} for {what} {name}", set.join(", ")));
                    }
                }
                container
            })
            .collect();
        if !filled.is_empty() {
            pod["spec"][list] = filled.into_iter().collect();
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod["metadata"]["annotations"][ANNOTATION] = note.into();
    }
}

fn add(container: &mut Value, part: &str, amounts: &ResourceList) -> Vec<String> {
    let missing = |name: &&Text| container.get("resources").get(part).get(name).is_null();
    let names: Vec<Text> = amounts.keys().filter(missing).cloned().collect();
    for name in &names {
        container["resources"][part][name.as_str()] = amounts[name].clone().into();
    }
    names.iter().map(ToString::to_string).collect()
}

fn validate(admission: &AdmissionAttributes) -> Result<(), Status> {
    if !applies(admission) {
        return Ok(());
    }
    for range in all(admission, "", "limitranges", &admission.namespace)? {
        let mut errors = Vec::new();
        for item in LimitRange::view(&range.object).spec().limits().iter() {
            match (admission.served.definition.names.plural, item.type_()) {
                ("pods", "Container") => {
                    let spec = Pod::view(&admission.object).spec();
                    for container in spec.containers().iter().chain(spec.init_containers().iter()) {
                        let resources = container.resources();
                        let limits = amounts(resources.limits());
                        check(item, &amounts(resources.requests()), &limits, &mut errors);
                    }
                }
                ("pods", "Pod") => {
                    let pod = Pod::view(&admission.object);
                    let (mut requests, mut limits) =
                        (pod.spec().container_requests(), pod.spec().container_limits());
                    if let Some(whole) = pod.spec().resources() {
                        let own = |name: &str| {
                            matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
                        };
                        requests.extend(
                            amounts(whole.requests()).into_iter().filter(|(name, _)| own(name)),
                        );
                        limits.extend(
                            amounts(whole.limits()).into_iter().filter(|(name, _)| own(name)),
                        );
                    }
                    check(item, &requests, &limits, &mut errors);
                }
                ("persistentvolumeclaims", "PersistentVolumeClaim") => {
                    claim(item, &admission.object, &mut errors);
                }
                _ => {}
            }
        }
        if let Some(why) = aggregate(errors) {
            return Err(admission.forbidden(&why));
        }
    }
    Ok(())
}

fn check(
    item: &LimitRangeItem,
    requests: &ResourceList,
    limits: &ResourceList,
    errors: &mut Vec<String>,
) {
    let ty = item.type_();
    for (name, least) in item.min().iter() {
        let said = format!("minimum {name} usage per {ty} is {least}");
        match (requests.get(name), limits.get(name)) {
            (None, _) => errors.push(format!("{said}.  No request is specified")),
            (Some(request), _) if *request < least => {
                errors.push(format!("{said}, but request is {request}"));
            }
            (_, Some(limit)) if *limit < least => {
                errors.push(format!("{said}, but limit is {limit}"));
            }
            _ => {}
        }
    }
    for (name, most) in item.max().iter() {
        let said = format!("maximum {name} usage per {ty} is {most}");
        match (requests.get(name), limits.get(name)) {
            (_, None) => errors.push(format!("{said}.  No limit is specified")),
            (_, Some(limit)) if *limit > most => {
                errors.push(format!("{said}, but limit is {limit}"));
            }
            (Some(request), _) if *request > most => {
                errors.push(format!("{said}, but request is {request}"));
            }
            _ => {}
        }
    }
    for (name, most) in item.max_limit_request_ratio().iter() {
        let said = format!("{name} max limit to request ratio per {ty} is {most}");
        let request = requests.get(name).map_or(0.0, Quantity::as_approximate_f64);
        let limit = limits.get(name).map_or(0.0, Quantity::as_approximate_f64);
        if request == 0.0 {
            errors.push(format!("{said}, but no request is specified or request is 0"));
        } else if limit == 0.0 {
            errors.push(format!("{said}, but no limit is specified or limit is 0"));
        } else if limit / request > most.as_approximate_f64() {
            errors.push(format!("{said}, but provided ratio is {:.6}", limit / request));
        }
    }
}

fn claim(item: &LimitRangeItem, claim: &Value, errors: &mut Vec<String>) {
    let requests = claim.get("spec").get("resources").get("requests");
    let requests = amounts(Map::<Quantity>::view(requests));
    let ty = item.type_();
    let mut compare =
        |bound: &Map<Quantity>, word: &str, breaks: fn(&Quantity, &Quantity) -> bool| {
            for (name, bound) in bound.iter() {
                let said = format!("{word} {name} usage per {ty} is {bound}");
                match requests.get(name) {
                    None => errors.push(format!("{said}.  No request is specified")),
                    Some(request) if breaks(request, &bound) => {
                        errors.push(format!("{said}, but request is {request}"));
                    }
                    _ => {}
                }
            }
        };
    compare(item.min(), "minimum", |request, least| request < least);
    compare(item.max(), "maximum", |request, most| request > most);
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn what_is_not_said_is_filled_and_noted() {
        let mut pod = from_json(
            br#"{"spec":{"containers":[{"name":"a"},{"name":"b","resources":{"requests":{"cpu":"1"}}}]}}"#,
        )
        .unwrap();
        let requests = ResourceList::from([("cpu".into(), "100m".parse().unwrap())]);
        let limits = ResourceList::from([("cpu".into(), "2".parse().unwrap())]);
        apply_default_resources(&mut pod, &requests, &limits);
        let cpu = |at: usize, part: &str| {
            let container = &pod.get("spec").get("containers").items()[at];
            container.get("resources").get(part).get("cpu").as_str().map(str::to_owned)
        };
        assert_eq!(cpu(0, "requests").as_deref(), Some("100m"));
        assert_eq!(cpu(1, "requests").as_deref(), Some("1"));
        assert_eq!(cpu(1, "limits").as_deref(), Some("2"));
    }
}
