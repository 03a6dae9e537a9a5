//! node/v1: RuntimeClass.

use std::collections::BTreeSet;

use macros::api;
use object::{Lens, List, Map, ObjectMeta, Quantity};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn, validate_labels};

use crate::{
    core::{ResourceRequirements, Toleration, toleration::check_tolerations},
    rules::ValidateField,
    shown::format_go,
};

/// A way to run containers that nodes offer.
#[api]
pub struct RuntimeClass {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// What the container runtime calls it. It never changes.
    #[api(validations(Format("short-name"), Immutable, Required))]
    handler: Must<String>,
    /// Resources that running a pod takes on top of its containers.
    overhead: Option<Overhead>,
    /// The nodes that offer it.
    scheduling: Option<Scheduling>,
}

#[api]
pub struct Overhead {
    /// The resources that each pod takes.
    #[api(go_type = "$.ResourceList")]
    pod_fixed: Map<Quantity>,
}

#[api]
pub struct Scheduling {
    /// The labels of the nodes.
    #[api(atomic)]
    node_selector: Map<String>,
    /// The taints of the nodes that its pods tolerate.
    tolerations: List<Toleration>,
}

impl Kind for RuntimeClass {
    const NAMES: ResourceNames =
        ResourceNames::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
    const UPDATE_CHECKS_GENERATE_NAME: bool = true;
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["node.k8s.io/v1alpha1", "node.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
    const BLIND_UPDATES: bool = false;
    const ANY_FINALIZER: bool = true;
    const CREATED_BY_UPDATE: bool = true;

    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Handler", |class, _| class.handler().into()),
        TableColumn::AGE,
    ];

    fn validate(&self, errs: &mut ErrorList) {
        if let Some(overhead) = self.overhead() {
            let amounts = ResourceRequirements::new().with_limits(overhead.pod_fixed().clone());
            amounts.check(None, &FieldPath::Root.field("overhead"), errs);
        }
        FieldPath::Root.if_present("scheduling", self.scheduling(), |it, at| it.check(at, errs));
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        if self.handler() != old.handler() && !self.handler().is_empty() {
            errs.label(&FieldPath::Root.field("handler"), self.handler());
        }
        self.validate(errs);
    }
}

impl Scheduling {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        validate_labels(self.node_selector(), &at.field("nodeSelector"), errs);
        let (all, at) = (self.tolerations(), at.field("tolerations"));
        check_tolerations(all, &at, errs);
        let mut seen = BTreeSet::new();
        for (i, it) in all.iter().enumerate() {
            let operator = it.tree().get("operator").as_str().unwrap_or_default();
            if !seen.insert((it.key(), operator, it.value(), it.effect())) {
                errs.duplicate_formatted(&at.index(i), format_go(it), "");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_handler_is_also_held_to_its_form() {
        let class = |handler: &str| RuntimeClass::new().with_handler(handler);
        let mut errs = ErrorList::default();
        class("a.b").validate_update(&class("a"), &mut errs);
        assert_eq!(errs.0.len(), 1, "{errs:?}");
        class("a").validate_update(&class("a"), &mut errs);
        assert_eq!(errs.0.len(), 1, "{errs:?}");
    }
}
