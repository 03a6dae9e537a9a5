//! core/v1: Binding.

use macros::api;
use object::ObjectMeta;
use schema::{ErrorList, FieldPath, Kind, ResourceNames, StorageConfig, verbs};

use crate::rules::ValidateField;

use super::ObjectReference;

/// Puts a pod on a node.
#[api]
pub struct Binding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The node that the pod goes to.
    target: Must<ObjectReference>,
}

impl Kind for Binding {
    const NAMES: ResourceNames = ResourceNames::new("", "v1", "Binding", "bindings");
    const STORAGE: StorageConfig = StorageConfig::NONE;
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn validate(&self, errs: &mut ErrorList) {
        let (target, at) = (self.target(), FieldPath::Root.field("target"));
        let node = matches!(target.kind(), "" | "Node");
        if !node {
            errs.not_supported(&at.field("kind"), target.kind(), &["Node", "<empty>"]);
        }
        match target.name() {
            "" => errs.required(&at.field("name"), ""),
            name if node => errs.subdomain(&at.field("name"), name),
            _ => {}
        }
    }
}
