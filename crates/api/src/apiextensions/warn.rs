//! What is said of a CRD that is taken nevertheless.

use std::collections::HashSet;

use object::Lens;
use schema::{
    WarningList,
    custom::{JsonSchema, unknown_format},
};

use super::CustomResourceDefinition;

/// Warns about unrecognized formats and ambiguous sets, except those that the old object had.
pub(super) fn warn(
    crd: &CustomResourceDefinition,
    old: Option<&CustomResourceDefinition>,
    warnings: &mut WarningList,
) {
    let before: HashSet<String> = old.into_iter().flat_map(schema_warnings).collect();
    schema_warnings(crd)
        .into_iter()
        .filter(|told| !before.contains(told))
        .for_each(|told| warnings.push(told));
}

fn schema_warnings(crd: &CustomResourceDefinition) -> Vec<String> {
    let (mut formats, mut sets) = (Vec::new(), Vec::new());
    for version in crd.spec().versions().iter() {
        let schema = version.tree().get("schema").get("openAPIV3Schema");
        if !schema.is_object() {
            continue;
        }
        JsonSchema::view(schema).visit(&mut |schema| {
            if let Some(format) = unknown_format(schema) {
                formats.push(format!("unrecognized format {}", object::quote::quote(format)));
            }
            let items = schema.items().map(JsonSchema::ty).unwrap_or_default();
            if schema.list_type() == Some("set") && matches!(items, "object" | "array") {
                sets.push(format!(
                    "x-kubernetes-list-type: set for items of type {items:?} is not supported by \
                     server-side apply or CEL validation rules"
                ));
            }
        });
    }
    sets.sort();
    formats.into_iter().chain(sets).collect()
}
