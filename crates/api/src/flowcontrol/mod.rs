//! flowcontrol/v1.

mod flow_schema;
mod priority_level_configuration;

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
