//! Shape as data, and everything that can be done to an object by knowing it:
//! fill defaults, drop what is unknown, check, patch, apply, encode.

pub mod apply;
mod check;
mod conform;
pub mod custom;
mod definition;
pub mod effort;
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

pub use self::{
    check::{check, shown},
    conform::{Unknown, conform, conform_as},
    definition::{ColumnInfo, Definition, Hooks, age, human_duration},
    errors::{ErrorType, Errors, FieldError},
    gates::{Gates, has_gate},
    kind::{
        Column, Grace, Index, Kind, METADATA, NameRule, Names, Part, Scope, Storage, Subresource,
        Writer, check_name, names, verbs,
    },
    meta::{
        check_annotations, check_finalizer, check_finalizers, check_labels, check_meta,
        check_meta_again,
    },
    normalize::normalize,
    path::Path,
    warnings::Warnings,
};
