//! Type schemas as data, and the generic operations on objects that they drive: defaulting,
//! pruning, validation, patching, server-side apply, protobuf and OpenAPI.

mod age;
pub mod apply;
mod check;
mod coerce;
mod columns;
pub mod custom;
mod definition;
mod errors;
mod formats;
mod gates;
mod kind;
mod kind_strategy;
mod meta;
pub mod name_validation;
mod normalize;
pub mod openapi;
pub mod patch;
mod path;
pub mod pattern;
pub mod protobuf;
mod published;
#[cfg(test)]
mod sample;
mod strategy;
mod subresource;
mod warnings;
pub mod work_budget;

pub use self::{
    age::{age, human_duration},
    check::{format_go_value, validate_declarative},
    coerce::{UnknownFields, coerce_to_schema, coerce_to_schema_version},
    columns::{SelectableField, TableColumn},
    definition::{Origin, ResourceDefinition, TableColumnDefinition},
    errors::{ErrorList, ErrorType, FieldError},
    gates::{FeatureGates, has_gated_field},
    kind::{
        CLIENT_METADATA_FIELDS, GracefulDeletion, Kind, Part, ResourceNames, Scope, StorageConfig,
        WriteContext, verbs,
    },
    meta::{
        validate_annotations, validate_finalizer_name, validate_finalizers, validate_labels,
        validate_object_meta, validate_object_meta_repeated,
    },
    name_validation::{ValidateName, validate_name},
    normalize::normalize,
    path::FieldPath,
    strategy::{Columns, Conversion, Preparation, Strategy, Validation},
    subresource::{FieldPaths, QueryParameter, Subresource, SubresourceField, SubresourceStrategy},
    warnings::WarningList,
};
