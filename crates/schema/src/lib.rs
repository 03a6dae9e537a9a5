//! Type schemas as data, and the generic operations on objects that they drive: defaulting,
//! pruning, validation, patching, server-side apply, protobuf and OpenAPI.

pub mod apply;
mod check;
mod coerce;
pub mod custom;
mod definition;
mod errors;
mod formats;
mod gates;
mod kind;
mod meta;
mod normalize;
pub mod openapi;
pub mod patch;
mod path;
pub mod pattern;
pub mod protobuf;
mod published;
#[cfg(test)]
mod sample;
mod warnings;
pub mod work_budget;

pub use self::{
    check::{format_go_value, validate_declarative},
    coerce::{UnknownFields, coerce_to_schema, coerce_to_schema_version},
    definition::{ResourceDefinition, Strategy, TableColumnDefinition, age, human_duration},
    errors::{ErrorList, ErrorType, FieldError},
    gates::{FeatureGates, has_gated_field},
    kind::{
        CLIENT_METADATA_FIELDS, GracefulDeletion, Kind, Part, ResourceNames, Scope,
        SelectableField, StorageConfig, Subresource, TableColumn, ValidateName, WriteContext,
        name_validation, validate_name, verbs,
    },
    meta::{
        validate_annotations, validate_finalizer_name, validate_finalizers, validate_labels,
        validate_object_meta, validate_object_meta_repeated,
    },
    normalize::normalize,
    path::FieldPath,
    warnings::WarningList,
};
