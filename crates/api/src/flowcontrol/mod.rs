//! flowcontrol/v1.

mod flow_schema;
mod priority_level_configuration;

use std::collections::BTreeSet;

use schema::{Errors, Path};

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
fn check_conditions<'a>(types: impl Iterator<Item = &'a str>, errs: &mut Errors) {
    let at = Path::STATUS.field("conditions");
    let mut seen = BTreeSet::new();
    at.each(types, |ty, at| {
        errs.once(&mut seen, &at.field("type"), ty);
        if ty.is_empty() {
            errs.required(&at.field("type"), "");
        }
    });
}
