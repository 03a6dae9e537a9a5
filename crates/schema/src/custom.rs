//! Kinds that a CustomResourceDefinition declares: its schema in, a `Definition` out.
//!
//! ```text
//!  CRD version ─► Schema (a lens on the CRD's own tree)
//!                   ├─ structure   what the definition itself must keep
//!                   ├─ prune, default, meta          what a write does to an object
//!                   ├─ check, lists, Rules           what an object must keep
//!                   └─ shape, publish                what apply, OpenAPI and explain read
//! ```

mod check;
mod columns;
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
    check::{Checker, Failure},
    defaults::{check_defaults, has_unpruned_defaults},
    field_path::find_field,
    format::unknown_format,
    intern::Full,
    kind::{Custom, Declared, Scale, definitions},
    rules::{CompileRules, NoRules, Rules},
    schema::{Additional, Schema},
    structure::{check_structure, unsupported},
};
