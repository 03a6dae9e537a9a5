//! The PodResizeValidator admission plugin: rejects a resize of a running pod beyond the node's
//! allocatable resources.

use api::core::{Node, Pod};
use object::{Object, Status, StatusCause, StatusDetails, View};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin};

use super::node_declared_features::changed_pod;

const LINUX: &str = "linux";
const SYSTEM: &str = "kubernetes.io/os";

#[derive(Debug)]
pub(super) struct PodResizeValidator;

impl AdmissionPlugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let checked = check(admission);
        Box::pin(async { checked })
    }
}

fn check(admission: &AdmissionAttributes) -> Result<(), Status> {
    let Some((_, pod)) = changed_pod(admission).filter(|_| admission.subresource == "resize")
    else {
        return Ok(());
    };
    let node = super::node_declared_features::node(admission, pod)?;
    let node = Node::view(&node);
    let system = node.metadata().labels().get(SYSTEM);
    if let Some(system) = system.filter(|system| *system != LINUX) {
        let name = node.metadata().name();
        let why =
            format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(refused(admission, &why, "UnsupportedPlatform"));
    }
    match too_much(pod, node) {
        Some(why) => Err(refused(admission, &why, "NodeCapacity")),
        None => Ok(()),
    }
}

/// The message for the requests that exceed the node's allocatable resources; `None` if none does.
fn too_much(pod: &Pod, node: &Node) -> Option<String> {
    let (requests, has) = (pod.requests(), node.status().allocatable());
    let of = |name: &str| {
        let asked = requests.get(name).cloned().unwrap_or_default();
        let has = has.get(name).unwrap_or_default();
        (asked > has).then_some((asked, has))
    };
    let cpu = of("cpu").map(|(asked, has)| (asked.milli_value(), has.milli_value()));
    let memory = of("memory").map(|(asked, has)| (asked.value(), has.value()));
    let said: Vec<String> = [("cpu", cpu), ("memory", memory)]
        .into_iter()
        .filter_map(|(name, over)| over.map(|(asked, has)| (name, asked, has)))
        .map(|(name, asked, has)| format!("{name}, requested: {asked}, allocatable: {has}"))
        .collect();
    let said = (!said.is_empty()).then(|| said.join("; "))?;
    Some(format!("node didn't have enough allocatable resources: {said}"))
}

fn refused(admission: &AdmissionAttributes, why: &str, reason: &str) -> Status {
    let name = Object::view(&admission.object).metadata().name();
    let mut status = Status::forbidden(admission.served.subject(name), why);
    let mut details: StatusDetails = status.details().cloned().unwrap_or_default();
    details.set_causes([StatusCause::new().with_reason(reason)]);
    status.set_details(details);
    status
}
