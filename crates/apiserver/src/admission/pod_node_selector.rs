//! PodNodeSelector: the pods of a namespace go where the namespace says.

use std::collections::BTreeMap;

use api::core::Pod;
use object::{Object, Status, Value, View};
use ref_cast::RefCast;
use server::{Admission, Admit, Admitting, Operation};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// What namespaces that say nothing get, and what others may ask for at most.
#[derive(Clone, Debug, Default)]
pub(super) struct PodNodeSelector {
    cluster_default: String,
    allowed: BTreeMap<String, String>,
}

impl PodNodeSelector {
    /// From `podNodeSelectorPluginConfig` of the plugin's configuration.
    pub(super) fn new(config: &Value) -> Self {
        let config = config.get("podNodeSelectorPluginConfig");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            cluster_default: text(config.get("clusterDefaultNodeSelector")),
            allowed: config.entries().map(|(name, value)| (name.to_owned(), text(value))).collect(),
        }
    }
}

impl Admit for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    fn mutate<'a>(&'a self, admission: &'a mut Admission<'_>) -> Admitting<'a> {
        let done = self.merge(admission);
        Box::pin(async move { done })
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        let done = self.check(admission);
        Box::pin(async move { done })
    }
}

impl PodNodeSelector {
    fn applies(admission: &Admission) -> bool {
        admission.is("", "pods") && admission.operation == Operation::Create
    }

    fn of_namespace(&self, admission: &Admission) -> Result<BTreeMap<String, String>, Status> {
        let kind = admission.registry.kind("", "namespaces")?;
        let found = admission.registry.get(&kind, "", &admission.namespace)?;
        let annotations = Object::view(&found.object).metadata().annotations();
        let text = annotations.get(ANNOTATION).unwrap_or(&self.cluster_default);
        labels(text).map_err(|why| admission.forbid(&why))
    }

    fn merge(&self, admission: &mut Admission) -> Result<(), Status> {
        if !Self::applies(admission) {
            return Ok(());
        }
        let wanted = self.of_namespace(admission)?;
        let own = Pod::view(&admission.object).spec().node_selector();
        if wanted.iter().any(|(name, value)| own.get(name).is_some_and(|own| own != value)) {
            return Err(admission.forbid(
                "pod node label selector conflicts with its namespace node label selector",
            ));
        }
        let spec = Pod::ref_cast_mut(&mut admission.object).spec_mut();
        for (name, value) in &wanted {
            spec.node_selector_mut().insert(name, value.as_str());
        }
        Ok(())
    }

    fn check(&self, admission: &Admission) -> Result<(), Status> {
        if !Self::applies(admission) {
            return Ok(());
        }
        let wanted = self.of_namespace(admission)?;
        let own = Pod::view(&admission.object).spec().node_selector();
        if wanted.iter().any(|(name, value)| own.get(name).is_some_and(|own| own != value)) {
            return Err(admission.forbid(
                "pod node label selector conflicts with its namespace node label selector",
            ));
        }
        let Some(allowed) = self.allowed.get(&*admission.namespace) else { return Ok(()) };
        let allowed = labels(allowed).map_err(|why| admission.forbid(&why))?;
        let within =
            |(name, value): (&str, &str)| allowed.get(name).is_none_or(|allowed| allowed == value);
        if allowed.is_empty() || own.iter().all(within) {
            return Ok(());
        }
        Err(admission
            .forbid("pod node label selector labels conflict with its namespace whitelist"))
    }
}

/// `a=b,c=d`.
fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("invalid selector: [{pair}]"))?;
            Ok((name.trim().to_owned(), value.trim().trim_start_matches('=').to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_list_of_labels() {
        let read = labels("a=b, c = d").unwrap();
        assert_eq!((read["a"].as_str(), read["c"].as_str()), ("b", "d"));
        assert!(labels("a").is_err());
        assert!(labels("").unwrap().is_empty());
    }
}
