//! flowcontrol/v1.

mod flow_schema;
mod priority_level_configuration;

use std::collections::BTreeSet;

use schema::{ErrorList, FieldPath};

pub use self::{
    flow_schema::{
        FlowDistinguisherMethod, FlowSchema, FlowSchemaCondition, FlowSchemaSpec, FlowSchemaStatus,
        GroupSubject, NonResourcePolicyRule, PolicyRulesWithSubjects,
        PriorityLevelConfigurationReference, ResourcePolicyRule, ServiceAccountSubject, Subject,
        UserSubject,
    },
    priority_level_configuration::{
        ExemptPriorityLevelConfiguration, LimitResponse, LimitedPriorityLevelConfiguration,
        PriorityLevelConfiguration, PriorityLevelConfigurationCondition,
        PriorityLevelConfigurationSpec, PriorityLevelConfigurationStatus, QueuingConfiguration,
    },
};

/// The conditions of a status: each has a type of its own.
fn check_conditions<'a>(types: impl Iterator<Item = &'a str>, errs: &mut ErrorList) {
    let at = FieldPath::STATUS.field("conditions");
    let mut seen = BTreeSet::new();
    at.for_each_item(types, |ty, at| {
        errs.unique(&mut seen, &at.field("type"), ty);
        if ty.is_empty() {
            errs.required(&at.field("type"), "");
        }
    });
}
