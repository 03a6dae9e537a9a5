//! The PodNodeSelector admission plugin: adds the node selector of the namespace to its pods.

use std::collections::BTreeMap;

use api::core::Pod;
use object::{Object, Status, Value, View, names, quote::quote};
use ref_cast::RefCast;
use server::{AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Operation};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// The node selector of namespaces without the annotation, and the labels that each namespace may
/// select by.
#[derive(Clone, Debug, Default)]
pub(super) struct PodNodeSelector {
    cluster_default: String,
    allowed: BTreeMap<String, String>,
}

impl PodNodeSelector {
    /// Reads `podNodeSelectorPluginConfig` of the plugin's configuration.
    pub(super) fn new(config: &Value) -> Self {
        let config = config.get("podNodeSelectorPluginConfig");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            cluster_default: text(config.get("clusterDefaultNodeSelector")),
            allowed: config.entries().map(|(name, value)| (name.to_owned(), text(value))).collect(),
        }
    }
}

impl AdmissionPlugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
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

impl PodNodeSelector {
    fn applies(admission: &AdmissionAttributes) -> bool {
        admission.is_resource("", "pods") && admission.operation == Operation::Create
    }

    fn of_namespace(
        &self,
        admission: &AdmissionAttributes,
    ) -> Result<BTreeMap<String, String>, Status> {
        let kind = admission.registry.kind("", "namespaces")?;
        let found = admission.registry.get(&kind, "", &admission.namespace)?;
        let annotations = Object::view(&found.object).metadata().annotations();
        let text = annotations.get(ANNOTATION).unwrap_or(&self.cluster_default);
        labels(text).map_err(|why| Status::failure(500, "", why))
    }

    fn merge(&self, admission: &mut AdmissionAttributes) -> Result<(), Status> {
        if !Self::applies(admission) {
            return Ok(());
        }
        let wanted = self.of_namespace(admission)?;
        let own = Pod::view(&admission.object).spec().node_selector();
        if wanted.iter().any(|(name, value)| own.get(name).is_some_and(|own| own != value)) {
            return Err(admission.forbidden(
                "pod node label selector conflicts with its namespace node label selector",
            ));
        }
        let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
        for (name, value) in &wanted {
            spec.node_selector_mut().insert(name, value.as_str());
        }
        self.check(admission)
    }

    fn check(&self, admission: &AdmissionAttributes) -> Result<(), Status> {
        if !Self::applies(admission) {
            return Ok(());
        }
        let wanted = self.of_namespace(admission)?;
        let own = Pod::view(&admission.object).spec().node_selector();
        if wanted.iter().any(|(name, value)| own.get(name).is_some_and(|own| own != value)) {
            return Err(admission.forbidden(
                "pod node label selector conflicts with its namespace node label selector",
            ));
        }
        let Some(allowed) = self.allowed.get(&*admission.namespace) else { return Ok(()) };
        let allowed = labels(allowed).map_err(|why| Status::failure(500, "", why))?;
        let within =
            |(name, value): (&str, &str)| allowed.get(name).is_some_and(|allowed| allowed == value);
        if allowed.is_empty() || own.iter().all(within) {
            return Ok(());
        }
        Err(admission
            .forbidden("pod node label selector labels conflict with its namespace whitelist"))
    }
}

/// Parses a selector of the form `a=b,c=d`.
fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = pair.split('=').collect();
        let [name, value] = *parts else {
            return Err(format!("invalid selector: [{}]", parts.join(" ")));
        };
        let (name, value) = (name.trim(), value.trim());
        let wrong = |at: &str, text: &str, why: &[String]| {
            Err(format!("{at}: Invalid value: {}: {}", quote(text), why.join("; ")))
        };
        match (names::qualified_name(name), names::label_value(value)) {
            (why, _) if !why.is_empty() => return wrong("<nil>", name, &why),
            (_, why) if !why.is_empty() => return wrong(&format!("[{name}]"), value, &why),
            _ => all.insert(name.to_owned(), value.to_owned()),
        };
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_list_of_labels() {
        let read = labels("a=b, c = d").unwrap();
        assert_eq!((read["a"].as_str(), read["c"].as_str()), ("b", "d"));
        assert_eq!(labels("a").unwrap_err(), "invalid selector: [a]");
        assert_eq!(labels("a=b=c").unwrap_err(), "invalid selector: [a b c]");
        assert!(labels("a b=c").unwrap_err().starts_with("<nil>: Invalid value: \"a b\""));
        assert!(labels("").unwrap().is_empty());
    }
}
