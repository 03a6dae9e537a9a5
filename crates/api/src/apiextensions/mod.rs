//! apiextensions/v1.

mod conversion_review;
mod custom_resource_definition;

pub use self::{
    conversion_review::{ConversionRequest, ConversionResponse, ConversionReview},
    custom_resource_definition::{
        CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
        CustomResourceDefinitionCondition, CustomResourceDefinitionNames,
        CustomResourceDefinitionSpec, CustomResourceDefinitionStatus,
        CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
        CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation,
        ExternalDocumentation, JSONSchemaProps, SelectableField, ServiceReference, ValidationRule,
        WebhookClientConfig, WebhookConversion,
    },
};
