//! PodTolerationRestriction: the pods of a namespace tolerate what it says, and no more.

use api::core::{Pod, Toleration};
use object::{Object, Status, Value, View, from_json};
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Operation};

use super::runtime_class::covers;

const DEFAULT: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

#[derive(Debug)]
pub(super) struct PodTolerationRestriction;

impl Admit for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let done = merge(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let done = check(admission);
        Box::pin(async move { done })
    }
}

fn applies(admission: &Admission) -> bool {
    matches!(admission.operation, Operation::Create | Operation::Update) && admission.is("", "pods")
}

/// The tolerations that a namespace names in an annotation; `None`: it has none.
fn named(admission: &Admission, annotation: &str) -> Result<Option<Vec<Toleration>>, Status> {
    let kind = admission.registry.kind("", "namespaces")?;
    let found = admission.registry.get(&kind, "", &admission.namespace)?;
    let text = Object::view(&found.object).metadata().annotations().get(annotation);
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let list = from_json(text.as_bytes()).map_err(Status::internal)?;
    Ok(Some(list.items().iter().cloned().map(Toleration::from).collect()))
}

fn merge(admission: &mut Admission) -> Result<(), Status> {
    if !applies(admission) {
        return Ok(());
    }
    let defaults = named(admission, DEFAULT)?.unwrap_or_default();
    let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
    for toleration in defaults {
        if !spec.tolerations().iter().any(|own| covers(own, &toleration)) {
            spec.tolerations_mut().push(toleration);
        }
    }
    let pod = Pod::view(&admission.object);
    if pod.qos_class() != "BestEffort" {
        let pressure = Toleration::new()
            .with_key("node.kubernetes.io/memory-pressure")
            .with_operator("Exists")
            .with_effect("NoSchedule");
        if !pod.spec().tolerations().iter().any(|own| covers(own, &pressure)) {
            let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
            spec.tolerations_mut().push(pressure);
        }
    }
    Ok(())
}

fn check(admission: &Admission) -> Result<(), Status> {
    if !applies(admission) {
        return Ok(());
    }
    let Some(allowed) = named(admission, ALLOWED)? else { return Ok(()) };
    let own: &Value = admission.object.get("spec").get("tolerations");
    let within = |own: &Value| allowed.iter().any(|all| covers(all, Toleration::view(own)));
    if allowed.is_empty() || own.items().iter().all(within) {
        return Ok(());
    }
    Err(admission.forbid("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"))
}
