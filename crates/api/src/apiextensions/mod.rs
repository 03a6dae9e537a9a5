//! apiextensions/v1.

mod approval;
mod conversion_review;
mod conversion_rules;
mod custom_resource_definition;
mod go;
mod names;
mod older;
mod rules;
mod schema_rules;
mod warn;
mod webhook;

pub use self::{
    conversion_review::{ConversionRequest, ConversionResponse, ConversionReview},
    custom_resource_definition::{
        CLEANUP_FINALIZER, CrdConditionUpdate, CustomResourceColumnDefinition,
        CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionCondition,
        CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
        CustomResourceDefinitionStatus, CustomResourceDefinitionVersion,
        CustomResourceSubresourceScale, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation, ExternalDocumentation,
        JSONSchemaProps, SelectableField, ServiceReference, ValidationRule, WebhookClientConfig,
        WebhookConversion,
    },
    names::{NamesResult, accept_names},
    rules::schemas,
};
