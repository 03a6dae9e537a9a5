//! core/v1: Binding.

use macros::api;
use object::ObjectMeta;
use schema::{Errors, Kind, Names, Path, verbs};

use crate::rules::Rules;

use super::ObjectReference;

#[api]
pub struct Binding {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    target: ObjectReference,
}

impl Kind for Binding {
    const NAMES: Names = Names {
        group: "",
        version: "v1",
        kind: "Binding",
        plural: "bindings",
        singular: "binding",
        short: &[],
        categories: &[],
    };
    const VERBS: &'static [&'static str] = verbs::CREATE;

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        let (target, at) = (self.target(), Path::Root.field("target"));
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
