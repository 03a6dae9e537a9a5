//! The LimitPodHardAntiAffinityTopology admission plugin: required pod anti-affinity may only use
//! the topology key `kubernetes.io/hostname`, so that a pod cannot block a whole zone.

use object::{Status, Value};
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const HOST: &str = "kubernetes.io/hostname";

#[derive(Debug)]
pub(super) struct LimitPodHardAntiAffinityTopology;

impl AdmissionPlugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = check(admission);
        Box::pin(async move { done })
    }
}

fn check(admission: &AdmissionAttributes) -> Result<(), Status> {
    let writes = matches!(admission.operation, Operation::Create | Operation::Update);
    if !writes || !admission.is_resource("", "pods") {
        return Ok(());
    }
    let affinity = admission.object.get("spec").get("affinity").get("podAntiAffinity");
    let terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution").items();
    let key = |term: &Value| term.get("topologyKey").as_str().unwrap_or_default().to_owned();
    match terms.iter().map(key).find(|key| key != HOST) {
        None => Ok(()),
        Some(key) => Err(admission.forbidden(&format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key \
             {HOST} is allowed"
        ))),
    }
}
