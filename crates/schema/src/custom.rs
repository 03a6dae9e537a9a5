//! Custom resources: turns the schema of a CustomResourceDefinition into a `ResourceDefinition`.
//!
//! ```text
//!  CRD version ─► JsonSchema (a lens on the CRD's own value)
//!                   ├─ structure, defaults           validation of the CRD's schema
//!                   ├─ prune, default, meta          what a write does to an object
//!                   ├─ check, lists, rules           validation of an object
//!                   └─ shape, publish                for apply, OpenAPI and explain
//! ```

mod check;
mod columns;
mod correlate;
mod default;
mod defaults;
mod field_path;
mod format;
mod intern;
mod kind;
mod lists;
mod meta;
mod number;
mod pattern;
mod prune;
pub(crate) mod publish;
mod rules;
mod schema;
mod shape;
mod structure;

pub use self::{
    check::{SchemaError, SchemaValidator},
    correlate::OldItems,
    defaults::{has_defaults_with_unknown_fields, validate_defaults},
    field_path::resolve_field_path,
    format::unknown_format,
    intern::InternBudgetExceeded,
    kind::{CrdDefinitions, CustomResource, ScalePaths, crd_definitions},
    rules::{CelRuleCompiler, CelRules, NoCelRules},
    schema::{AdditionalProperties, JsonSchema},
    structure::{unsupported_keyword, validate_structural},
};
