//! The PodTolerationRestriction admission plugin: adds the default tolerations of a namespace to
//! its pods, and rejects those that are not on its whitelist.

use anyhow::{Result as Configured, ensure};
use api::core::{Pod, Toleration};
use object::{Object, Status, Value, View, from_json};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

use super::tolerations::{is_superset, merged};
use crate::structured::text;

const DEFAULT: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const VERSION: &str = "podtolerationrestriction.admission.k8s.io/v1alpha1";

/// The tolerations for namespaces without the annotations.
#[derive(Debug, Default)]
pub(super) struct PodTolerationRestriction {
    default: Vec<Toleration>,
    allowed: Vec<Toleration>,
}

impl PodTolerationRestriction {
    /// Reads the plugin's configuration, if it has one.
    pub(super) fn new(config: &Value) -> Configured<Self> {
        if config.is_null() {
            return Ok(Self::default());
        }
        let (version, kind) = (text(config, "apiVersion"), text(config, "kind"));
        ensure!(
            (version, kind) == (VERSION, "Configuration"),
            "PodTolerationRestriction: a Configuration of {VERSION} is expected"
        );
        Ok(Self { default: list(config.get("default")), allowed: list(config.get("whitelist")) })
    }

    fn merge(&self, admission: &mut AdmissionAttributes) -> Result<(), Status> {
        if !applies(admission) {
            return Ok(());
        }
        let mut extra = Vec::new();
        if admission.operation == Operation::Create {
            extra = named(admission, DEFAULT)?.unwrap_or_else(|| self.default.clone());
        }
        if Pod::view(&admission.object).qos_class() != "BestEffort" {
            let pressure = Toleration::new()
                .with_key("node.kubernetes.io/memory-pressure")
                .with_operator("Exists")
                .with_effect("NoSchedule");
            extra.push(pressure);
        }
        if !extra.is_empty() {
            let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
            let merged = merged(spec.tolerations(), &extra);
            spec.set_tolerations(merged);
        }
        self.check(admission)
    }

    fn check(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        if !applies(admission) {
            return Ok(());
        }
        let named = named(admission, ALLOWED)?;
        let scope = if named.is_some() { "namespace" } else { "cluster" };
        let allowed = named.as_ref().unwrap_or(&self.allowed);
        let mut own = Pod::view(&admission.object).spec().tolerations().iter();
        if allowed.is_empty() || own.all(|own| allowed.iter().any(|all| is_superset(all, own))) {
            return Ok(());
        }
        let why = format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with \
             its {scope} whitelist"
        );
        Err(Status::failure(500, "", why))
    }
}

impl AdmissionPlugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = self.merge(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        let done = self.check(admission);
        Box::pin(async move { done })
    }
}

fn applies(admission: &AdmissionAttributes) -> bool {
    matches!(admission.operation, Operation::Create | Operation::Update)
        && admission.is_resource("", "pods")
}

/// The tolerations in an annotation of the namespace; `None` if it lacks the annotation.
fn named(
    admission: &AdmissionAttributes,
    annotation: &str,
) -> Result<Option<Vec<Toleration>>, Status> {
    let kind = admission.registry.kind("", "namespaces")?;
    let found = admission.registry.get(&kind, "", &admission.namespace)?;
    match Object::view(&found.object).metadata().annotations().get(annotation) {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) => {
            let named = from_json(text.as_bytes());
            let named = named.map_err(|why| Status::failure(500, "", why.to_string()))?;
            Ok(Some(list(&named)))
        }
    }
}

fn list(tree: &Value) -> Vec<Toleration> {
    tree.items().iter().cloned().map(Toleration::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_holds_for_the_cluster() {
        let config = format!(
            r#"{{"apiVersion":"{VERSION}","kind":"Configuration","default":[{{"key":"a"}}],"whitelist":[{{"key":"a"}},{{"key":"b"}}]}}"#
        );
        let read = PodTolerationRestriction::new(&from_json(config.as_bytes()).unwrap()).unwrap();
        assert_eq!((read.default.len(), read.allowed.len()), (1, 2));
        assert!(PodTolerationRestriction::new(&Value::Null).unwrap().allowed.is_empty());
        assert!(PodTolerationRestriction::new(&from_json(b"{}").unwrap()).is_err());
    }
}
